"""The verbs, from their command line to what Ansible would be asked, the files, the document and the exit code."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.cli import GONE, VERBS
from gpuadmin.config.load import load_site
from gpuadmin.config.memory import remember
from gpuadmin.reading import LARGEST
from gpuadmin.results import UNPINNED, HostResult, RunResult
from tests.support.fake_ansible import KEY, NOBODY, OTHER, USERS, Ansible, Cli, ansible, users
from tests.support.sites import UIDS

pytestmark = pytest.mark.holds(
    "a host that did not answer is not said not to differ",
    "a person who is protected is not meant to be root",
    "of a host whose answer is odd nobody knows whether it differs",
    "what is in a directory stays when a site is written into it",
    "who is not registered is said",
)

__all__ = ["ansible"]

# verb and arguments -> names of the people that the nodes are told of, names of the absent
CALLS: dict[str, tuple[list[str], list[str], list[str]]] = {
    "add": (["add-user", "yuna", "--key", OTHER], ["yuna"], []),
    "add many": (["add-user", "yuna", "seo"], ["yuna", "seo"], []),
    "add again": (["add-user", "minji"], ["minji"], []),
    "add somebody who was here": (["add-user", "old"], ["old"], []),
    "change": (["change-user", "minji", "--no-docker"], ["minji"], []),
    "remove": (["remove-user", "minji"], [], ["minji"]),
    "remove again": (["remove-user", "old"], [], ["old"]),
    "lock": (["lock-user", "minji"], ["minji"], []),
    "unlock": (["unlock-user", "jiho"], ["jiho"], []),
    "extend": (["extend-user", "minji", "--expires", "2098-02-28"], ["minji"], []),
    "extend without an end": (["extend-user", "minji", "--expires", "never"], ["minji"], []),
    "sync": (["sync-users"], ["minji", "jiho"], ["old"]),
    "provision": (["provision"], ["minji", "jiho"], ["old"]),
}


@pytest.mark.parametrize(("arguments", "people", "absent"), CALLS.values(), ids=CALLS.keys())
def test_what_ansible_is_asked(
    ansible: Ansible, cli: Cli, arguments: list[str], people: list[str], absent: list[str]
) -> None:
    code, _, err = cli(*arguments, "--yes", "--limit", "gpu,storage")
    assert code == 0, err
    (invocation,) = ansible.asked
    assert invocation.playbook == ("provision" if arguments[0] == "provision" else "sync-users")
    assert invocation.limit == "gpu,storage"
    assert invocation.hosts == 3
    assert not invocation.check
    assert [user["name"] for user in invocation.variables["gpuadmin_users"]] == people
    assert [user["name"] for user in invocation.variables["gpuadmin_absent"]] == absent
    assert invocation.variables["gpuadmin_site"]["name"] == "test"
    own = {"gpuadmin_health_checks"} if arguments[0] == "provision" else set()
    always = {"gpuadmin_site", "gpuadmin_run_id", "gpuadmin_users", "gpuadmin_absent"}
    assert set(invocation.variables) == always | own


@pytest.mark.holds("check mode writes nothing")
@pytest.mark.parametrize("arguments", [call[0] for call in CALLS.values()], ids=CALLS.keys())
def test_check_mode_asks_the_same_and_writes_nothing(ansible: Ansible, cli: Cli, arguments: list[str]) -> None:
    code, _, err = cli(*arguments, "--check")
    assert code == 0, err
    assert users(ansible) == USERS
    cli(*arguments, "--yes")
    predicted, done = ansible.asked
    assert (predicted.check, done.check) == (True, False)
    # each run has a word of its own, and a check asks in the same look what carries uids
    own = {"gpuadmin_run_id": "", "gpuadmin_carried": None}
    assert {**predicted.variables, **own} == {**done.variables, **own}
    assert predicted.playbook == done.playbook


@pytest.mark.holds("without a terminal and without --yes nothing is done")
@pytest.mark.parametrize("arguments", [call[0] for call in CALLS.values()], ids=CALLS.keys())
def test_without_a_terminal_and_without_yes_it_refuses(ansible: Ansible, cli: Cli, arguments: list[str]) -> None:
    code, _, err = cli(*arguments)
    assert code == 5
    assert "Error: not confirmed" in err
    assert "Hint: give --yes" in err
    assert all(one.check for one in ansible.asked), "the plan, which is shown first, may need a look"
    assert users(ansible) == USERS
    assert {json.loads(path.read_text())["status"] for path in ansible.site.glob("runs/*/result.json")} <= {"refused"}


@pytest.mark.parametrize("verb", ["lock-user", "remove-user"])
def test_that_grants_end_is_in_the_plan_where_gpus_are_granted(ansible: Ansible, cli: Cli, verb: str) -> None:
    _, out, _ = cli(verb, "minji", "--check")
    assert "grants of GPUs" not in out
    settings = ansible.site / "gpuadmin.yml"
    settings.write_text(f"{settings.read_text()}\ngpus: {{access: granted}}\n")
    _, out, _ = cli(verb, "minji", "--check")
    assert "minji: end grants of GPUs" in out
    _, out, _ = cli("unlock-user", "jiho", "--check")
    assert "grants of GPUs" not in out


def test_the_registry_is_written_before_the_hosts_are_asked(ansible: Ansible, cli: Cli) -> None:
    """A controller that is killed in between is healed by sync-users; the other way round a uid would be lost."""
    cli("add-user", "yuna", "--yes")
    assert "name: yuna\n    uid: 20003" in ansible.users_yml[0]
    assert "name: minji  # first" in users(ansible)
    cli("lock-user", "minji", "--yes")
    assert "locked: true" in ansible.users_yml[1].partition("jiho")[0]
    cli("remove-user", "minji", "--yes")
    assert "name: minji  # first" not in users(ansible)
    assert "uid: 20000\n    removed: " in users(ansible)
    cli("extend-user", "jiho", "--expires", "2098-01-31", "--yes")
    assert "expires: 2098-01-31" in users(ansible)


@pytest.mark.holds("a uid that somebody had is not given again")
def test_the_uid_of_somebody_who_was_removed_is_not_given_out_again(ansible: Ansible, cli: Cli) -> None:
    cli("add-user", "yuna", "--yes")
    cli("remove-user", "yuna", "--yes")
    cli("add-user", "seo", "--yes")
    assert ansible.asked[-1].variables["gpuadmin_users"][0]["uid"] == 20004
    code, _, err = cli("add-user", "dana", "--uid", "20003", "--yes")
    assert code == 5
    assert "uid 20003 was yuna's" in err


@pytest.mark.holds("a check of new accounts uses no uid that a host knows as somebody's")
def test_a_check_asks_once_and_again_where_a_host_knows_better(ansible: Ansible, cli: Cli) -> None:
    def asked() -> list[int]:
        return [one.variables["gpuadmin_users"][0]["uid"] for one in ansible.asked]

    code, out, err = cli("add-user", "yuna", "--check")
    assert (code, ansible.looked, asked()) == (0, 0, [20003]), err
    ansible.uids = HostResult("ok", reports={"uids": {**UIDS, "seen": {"20003": "/srv/homes/ghost"}}})
    code, out, err = cli("add-user", "yuna", "--check")
    assert (code, ansible.looked, asked()) == (0, 0, [20003, 20003, 20004]), err
    assert "account yuna, uid 20004" in out
    assert "uid 20003 is given to nobody: storage1: /srv/homes/ghost" in out


@pytest.mark.holds("a uid that something carries is given to nobody", "one host cannot use up all uids")
def test_a_newcomer_gets_no_uid_that_something_on_a_host_or_in_an_adopted_home_carries(
    ansible: Ansible, cli: Cli
) -> None:
    """Files of 1050 were deep in homes, and adopt had reported their owner; the 27th newcomer got 1050."""
    carried = {"looked": ["/srv/homes (2 levels)"], "not_looked": ["/srv/homes/x: did not answer in 1 s"]}
    ansible.uids = HostResult(
        "ok", reports={"uids": dict(UIDS), "carried": {"ids": {"20003": "/srv/homes/ghost"}, **carried}}
    )
    assert ansible.site is not None
    entry = {"name": "hana", "uid": 20004}
    seen = {"homes": [{"path": "/home", "entries": [entry]}], "accounts": [{"name": "minji", "uid": 20000}]}
    (ansible.site / "adoption.json").write_text(json.dumps({"hosts": {"gpu9": {"seen": seen}}}))
    for more in ("--check", "--yes"):
        code, out, err = cli("add-user", "yuna", more)
        assert (code, "account yuna, uid 20005" in out) == (0, True), (out, err)
        assert "uid 20003 is given to nobody: storage1: /srv/homes/ghost" in out
        assert "uid 20004 is given to nobody: gpu9, when it was adopted: /home/hana" in out
        assert "accounts and groups, /srv/homes (2 levels) of storage1" in out
        missed = out.partition("not looked at for uids: ")[2].splitlines()[0]
        assert all(one in missed for one in ("node1 (", "node2 (", "storage1: /srv/homes/x: did not answer in 1 s"))
    many = {str(uid): "/local/x" for uid in range(20003, 20003 + 5001)}
    node = ansible.answer.hosts["node1"]
    node.reports = {"carried": {"ids": many, "looked": [], "not_looked": []}}
    _, out, err = cli("add-user", "seo", "--check")
    assert "node1 (it says that 5001 uids are carried there)" in out, err
    assert "/local/x" not in out
    node.reports = {}
    assert "node2 (left out by --limit)" in cli("add-user", "seo", "--check", "--limit", "storage1,node1")[1]
    code, _, err = cli("add-user", "dana", "--uid", "20004", "--yes")
    assert (code, "uid 20004, for 'dana', is carried by gpu9, when it was adopted: /home/hana" in err) == (5, True), err
    code, out, err = cli("add-user", "hana", "--uid", "20004", "--yes")
    assert (code, "given to nobody" in out) == (0, False), err


CHANGES = {
    "minji": {"status": "differs", "operations": ["set shell '/usr/sbin/nologin' (was '/bin/bash')"]},
    "jiho": {"status": "missing", "operations": ["create uid 20001", "lock"]},
}


@pytest.mark.parametrize("verb", ["provision", "sync-users"])
def test_what_changes_for_people_comes_before_the_table_that_shortens_it(ansible: Ansible, cli: Cli, verb: str) -> None:
    """provision made everybody's shell on the storage host nologin, below "… and 122 more"."""
    storage = ansible.answer.hosts["storage1"]
    storage.status, storage.changed = "changed", [f"user x{number}: set home" for number in range(40)]
    ids = {"20001": "/srv/homes/minji/lost", "20000": "/srv/homes/other"}
    storage.reports = {"users": CHANGES, "carried": {"ids": ids, "looked": [], "not_looked": []}}
    code, out, err = cli(verb, "--check")
    line = "storage1: shell becomes /usr/sbin/nologin for 1 person, who cannot log in there any more: minji"
    assert (code, out.index(line) < out.index("and 29 more")) == (0, True), (out, err)
    # jiho is new on all hosts, minji's account is there
    assert "storage1: uid 20001, which jiho gets, is carried by /srv/homes/minji/lost" in out
    assert "uid 20000" not in out
    assert ansible.site is not None
    remember(ansible.site, load_site(str(ansible.site)).registry.registry)
    assert "is carried by" not in cli(verb, "--check")[1], "whom gpuadmin gave their uid has files of it"
    assert "gpuadmin_carried" not in ansible.asked[-1].variables


@pytest.mark.parametrize(
    "text", ["{", "[" * 100_000, '{"hosts": 1}', '{"hosts": {"a": 1}}', '{"hosts": {"a": {"seen": {"homes": 5}}}}',
             '{"hosts": {"a": {"seen": {"homes": [], "accounts": [{"uid": 1e999, "name": "x"}]}}}}', "",
             "[]", " " * (LARGEST + 1)],
    ids=["cut off", "deep", "a number", "of a host", "of homes", "of a uid", "away", "a list", "too much"],
)  # fmt: skip
@pytest.mark.holds("what adopt saw, on a disk that is away, is not nothing")
def test_a_damaged_adoption_is_not_looked_at(ansible: Ansible, cli: Cli, text: str) -> None:
    assert ansible.site is not None
    place = ansible.site / "adoption.json"
    if text:
        place.write_text(text)
    else:
        place.symlink_to("/a/disk/that/is/away")
    code, out, err = cli("add-user", "yuna", "--check")
    assert (code, "what adopt saw (adoption.json is damaged)" in out) == (0, True), err


def test_a_check_that_hears_of_no_uids_knows_nothing(ansible: Ansible, cli: Cli) -> None:
    ansible.uids = HostResult("unreachable", message="no route")
    code, _, err = cli("add-user", "yuna", "--check")
    assert (code, "which uids are taken is not known: storage1 (no route)" in err) == (4, True), err


def test_archiving_a_home_is_asked_for_by_name_and_uid(ansible: Ansible, cli: Cli) -> None:
    cli("remove-user", "minji", "--archive-home", "--yes")
    assert ansible.asked[0].variables["gpuadmin_archive_homes"] == [{"name": "minji", "uid": 20000}]
    code, _, err = cli("remove-user", "jiho", "--archive-home", "--limit", "node1", "--yes")
    assert code == 2
    assert "storage host" in err


HOSTILE = ("../x", "-rf", "root", "a b", "{{ x }}", "a\nb", "a" * 33, "민지", "", "minji;reboot")


@pytest.mark.parametrize("verb", ["add-user", "remove-user", "lock-user", "unlock-user", "extend-user"])
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names(ansible: Ansible, cli: Cli, verb: str, name: str) -> None:
    more = ["--expires", "never"] if verb == "extend-user" else []
    code, out, err = cli(verb, *more, "--yes", "--json", "--", name)
    assert code in (2, 5), err
    assert json.loads(out)["result"]["error"]
    assert "Traceback" not in err
    assert ansible.asked == []
    assert users(ansible) == USERS


BAD_OPTIONS = {
    "key with options": ["add-user", "yuna", "--key", f'command="id" {KEY}'],
    "somebody else's key": ["add-user", "yuna", "--key", KEY],
    "uid below the range": ["add-user", "yuna", "--uid", "0"],
    "uid taken": ["add-user", "yuna", "--uid", "20000"],
    "bad date": ["add-user", "yuna", "--expires", "31.12.2027"],
    "bad date when extending": ["extend-user", "minji", "--expires", "soon"],
    "bad mail": ["add-user", "yuna", "--email", "yuna"],
    "template in the note": ["add-user", "yuna", "--note", "{{ x }}"],
    "nobody": ["add-user"],
    "names and a file": ["add-user", "yuna", "--from", "x.csv"],
    "no such file": ["add-user", "--from", "x.csv"],
    "one key for two": ["add-user", "yuna", "seo", "--key", OTHER],
    "twice": ["add-user", "yuna", "yuna"],
    "no such host": ["sync-users", "--limit", "node9"],
    "no such option": ["sync-users", "--force"],
    "nobody of that name": ["lock-user", "minij"],
    "removing nobody": ["remove-user", "minij"],
}


@pytest.mark.parametrize("arguments", BAD_OPTIONS.values(), ids=BAD_OPTIONS.keys())
def test_what_is_wrong_is_refused_before_anything_is_changed(ansible: Ansible, cli: Cli, arguments: list[str]) -> None:
    code, out, err = cli(*arguments, "--yes", "--json")
    assert code == 2, err
    document = json.loads(out)
    assert document["status"] == "failed"
    assert document["verb"] == arguments[0]
    assert document["result"]["error"]
    assert ansible.asked == []
    assert users(ansible) == USERS


@pytest.mark.holds("protected people are refused")
@pytest.mark.parametrize("verb", ["lock-user", "remove-user"])
def test_protected_people_are_refused(ansible: Ansible, cli: Cli, verb: str) -> None:
    assert ansible.site is not None
    (ansible.site / "gpuadmin.yml").write_text("name: test\nprotected: [minji]\n")
    code, out, _ = cli(verb, "minji", "--yes", "--json")
    assert code == 5
    assert json.loads(out)["status"] == "refused"
    assert ansible.asked == []


@pytest.mark.holds("a file with one mistake adds nobody")
def test_a_file_with_one_mistake_adds_nobody(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text(f"name,key\nyuna,{OTHER}\n../x,\n")
    code, _, err = cli("add-user", "--from", str(people), "--yes")
    assert code == 2
    assert "people.csv:3: '../x'" in err
    assert users(ansible) == USERS
    people.write_text(f"name,key,docker\nyuna,{OTHER},yes\nseo,,no\n")
    assert cli("add-user", "--from", str(people), "--yes")[0] == 0
    assert [user["docker"] for user in ansible.asked[0].variables["gpuadmin_users"]] == [True, False]


DOCUMENT = {"verb", "site", "run", "status", "check", "hosts", "result"}

# Every verb that prints a document, as it is called where all is well.
JSON_VERBS: dict[str, list[str]] = {
    "check": [],
    "provision": ["--yes"],
    "drift": [],
    "add-user": ["yuna", "--yes"],
    "remove-user": ["minji", "--yes"],
    "lock-user": ["minji", "--yes"],
    "unlock-user": ["jiho", "--yes"],
    "extend-user": ["minji", "--expires", "never", "--yes"],
    "change-user": ["minji", "--no-docker", "--yes"],
    "list-users": [],
    "status": [],
    "sync-users": ["--yes"],
}


@pytest.mark.parametrize(("verb", "arguments"), JSON_VERBS.items())
def test_one_document_when_all_is_well(ansible: Ansible, cli: Cli, verb: str, arguments: list[str]) -> None:
    code, out, err = cli(verb, *arguments, "--json")
    assert code == 0, err
    document = json.loads(out)
    assert set(document) == DOCUMENT
    assert (document["verb"], document["status"], document["site"]) == (verb, "ok", str(ansible.site))
    for host in document["hosts"].values():
        assert set(host) == {"status", "changed", "message"}
    if document["run"]:
        code, out, _ = cli("runs", document["run"], "--json")
        assert code == 0
        assert set(json.loads(out)) == DOCUMENT
        recorded = json.loads(out)["result"]["result"]
        assert recorded == {**document, "exit_code": 0, "ended": recorded["ended"], "reached": recorded["reached"]}


@pytest.mark.parametrize("verb", [*JSON_VERBS, "runs", "trust"])
def test_one_document_where_there_is_no_site(
    cli: Cli, verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GPUADMIN_SITE", raising=False)
    monkeypatch.chdir(tmp_path)
    code, out, err = cli(verb, *JSON_VERBS.get(verb, ["--all"] if verb == "trust" else []), "--json")
    assert code == 2
    document = json.loads(out)
    assert set(document) == DOCUMENT
    assert (document["verb"], document["status"]) == (verb, "failed")
    assert "no gpuadmin.yml" in document["result"]["error"]
    assert "Error: no gpuadmin.yml" in err


@pytest.mark.parametrize("verb", [*JSON_VERBS, "runs", "trust"])
def test_one_document_after_a_usage_error(cli: Cli, verb: str) -> None:
    code, out, _ = cli(verb, "--no-such-option", "--json")
    assert code == 2
    assert set(json.loads(out)) == DOCUMENT


def test_one_document_for_a_verb_that_does_not_exist(cli: Cli) -> None:
    code, out, err = cli("add-usr", "minji", "--json")
    assert code == 2
    assert json.loads(out)["verb"] == "add-usr"
    assert "Did you mean 'add-user'?" in err


@pytest.mark.parametrize(("verb", "now"), GONE.items(), ids=GONE)
def test_a_verb_that_is_gone_names_what_does_it_now(cli: Cli, verb: str, now: str) -> None:
    code, _, err = cli(verb, "x")
    assert (code, err.splitlines()[0]) == (2, f"Error: {verb} is now {now}")
    assert now.removeprefix("`gpuadmin ").split(" ")[0] in VERBS


def test_one_document_after_an_interruption(ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_fields: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gpuadmin.session.Session.confirm", interrupted)
    code, out, err = cli("sync-users", "--yes", "--json")
    assert code == 130
    assert set(json.loads(out)) == DOCUMENT
    assert "Traceback" not in err


def test_who_interrupts_the_look_is_not_asked_and_changes_nothing(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan of which a part was seen is none to say yes to."""
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("gpuadmin.session.agree", lambda question: True)
    ansible.answer = RunResult({"node1": HostResult("ok")}, interrupted=True)
    code, _, err = cli("sync-users")
    assert code == 130
    assert "nothing was changed" in err
    assert [one.check for one in ansible.asked] == [True]


def on_all(**hosts: HostResult) -> RunResult:
    """An answer of every host; all is well on those that are not given."""
    return RunResult({**{name: HostResult("ok") for name in ("storage1", "node1", "node2")}, **hosts})


RESULTS = [
    (on_all(node1=HostResult("changed", ["x"])), 0, "ok"),
    (RunResult({"node1": HostResult("changed", ["x"]), "node2": HostResult("ok")}), 4, "failed"),
    (RunResult({"node1": HostResult("failed", [], "no space"), "node2": HostResult("unreachable")}), 3, "failed"),
    (RunResult({"node1": HostResult("ok"), "node2": HostResult("unreachable", [], "timed out")}), 4, "failed"),
    (RunResult({}, error="no such playbook"), 1, "failed"),
    (RunResult({"node1": HostResult("ok")}, interrupted=True), 130, "interrupted"),
]


@pytest.mark.parametrize(("answer", "code", "status"), RESULTS)
def test_exit_codes_document_and_record_agree(
    ansible: Ansible, cli: Cli, answer: RunResult, code: int, status: str
) -> None:
    ansible.answer = answer
    left, out, err = cli("sync-users", "--yes", "--json")
    document = json.loads(out)
    assert (left, document["status"]) == (code, status)
    everybody = dict.fromkeys(("storage1", "node1", "node2"), "not run")
    assert {name: host["status"] for name, host in document["hosts"].items()} == everybody | {
        name: host.status for name, host in answer.hosts.items()
    }
    output = json.loads(cli("runs", document["run"], "--json")[1])
    assert output["result"]["result"]["exit_code"] == code
    for host in answer.hosts.values():
        assert (host.message or "") in err


DRIFT = [
    (on_all(), 0, []),
    (on_all(node1=HostResult("changed", ["x"])), 6, ["node1"]),
    (on_all(node1=HostResult("failed", [], "x")), 3, []),
    (on_all(node1=HostResult("unreachable", [], "x")), 4, []),
    (on_all(node1=HostResult("changed", ["x"]), node2=HostResult("unreachable")), 4, ["node1"]),
    (on_all(node1=HostResult("changed", ["x"]), node2=HostResult("failed")), 3, ["node1"]),
]


@pytest.mark.parametrize(("answer", "code", "differing"), DRIFT)
def test_drift(ansible: Ansible, cli: Cli, answer: RunResult, code: int, differing: list[str]) -> None:
    ansible.answer = answer
    left, out, _ = cli("drift", "--json")
    document = json.loads(out)
    assert left == code
    assert document["result"]["differing"] == differing
    assert document["status"] == {0: "ok", 6: "differs"}.get(code, "failed"), "the document and the exit code agree"
    assert ansible.asked[0].check
    assert json.loads(cli("runs", document["run"], "--json")[1])["result"]["result"]["exit_code"] == code


@pytest.mark.holds("where no host answered nobody is said to be nobody")
def test_drift_that_reached_no_host_is_no_good_news(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = RunResult(dict.fromkeys(("storage1", "node1", "node2"), HostResult("unreachable", [], "x")))
    code, out, err = cli("drift")
    assert (code, out.splitlines()[0]) == (4, "Root, or could be: not known, no host answered")
    assert "nobody" not in out
    assert "3 of 3 hosts did not succeed" in err


SUDO = {"key": "minji in group sudo", "words": "may become root by sudo", "rank": "root"}
TMP = {"key": "/tmp", "words": "has mode 755", "rank": "differs"}


def says(**more: object) -> HostResult:
    return HostResult("ok", reports={"privileges": NOBODY | more})


def test_drift_says_first_who_is_root(ansible: Ansible, cli: Cli) -> None:
    """Nothing of what roles make differs; who became root is seen all the same."""
    ansible.answer = on_all(
        node1=says(found=[TMP, SUDO]), node2=says(found=[SUDO], aside=["/data"], unknown={"x": "y"})
    )
    code, out, err = cli("drift")
    assert code == 6
    assert out.splitlines()[:5] == [
        "Root, or could be:", "  node1, node2: minji in group sudo: may become root by sudo", "Not as it was set up:",
        "  node1: /tmp: has mode 755", "Not checked: node2: x: y",
    ]  # fmt: skip
    assert "2 hosts differ: node1, node2" in err
    document = json.loads(cli("drift", "--json")[1])["result"]
    assert document["differing"] == ["node1", "node2"]
    assert document["privileges"]["found"][0] == SUDO | {"hosts": ["node1", "node2"]}
    assert document["privileges"]["aside"] == {"node2": ["/data"]}
    assert "Drift: node1, node2 differed on" in cli("status")[1]


def test_drift_leaves_out_what_the_site_means(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    path = ansible.site / "gpuadmin.yml"
    meant = "protected: [ubuntu, jiho]\ndrift: {ignore: [minji in group sudo]}"
    path.write_text(path.read_text().replace("protected: []", meant))
    ansible.answer = on_all(node1=says(found=[SUDO]))
    code, out, _ = cli("drift")
    assert code == 0
    assert "nobody that the site does not declare, on 3 hosts" in out
    assert "1 line hidden by drift.ignore" in out
    # somebody of users.yml is protected from a wipe, and not meant to be root
    assert ansible.asked[-1].variables["gpuadmin_declared"] == ["ubuntu"]


def test_a_host_whose_answer_is_odd_is_unknown_and_the_others_are_not(ansible: Ansible, cli: Cli) -> None:
    odd = HostResult("failed", [], "its answer is not understood: privileges.found: x", {"privileges": None})
    ansible.answer = on_all(node1=odd, node2=says(found=[SUDO]))
    code, out, _ = cli("drift", "--json")
    document = json.loads(out)["result"]
    assert code == 3
    assert document["differing"] == ["node2"]
    assert "is not understood" in document["privileges"]["silent"]["node1"]


def test_of_a_host_that_does_not_say_who_is_root_nobody_knows(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = on_all(node1=HostResult("ok", reports={"privileges": None}))
    code, out, _ = cli("drift")
    assert code == 3
    assert "node1: who is root there is not known: did not say" in out
    assert "nobody that the site does not declare, on 2 hosts" in out
    assert "unknown on node1" in cli("status")[1]


def test_list_users(ansible: Ansible, cli: Cli) -> None:
    entry = {"operations": [], "problem": None}
    ansible.answer = RunResult(
        {
            "node1": HostResult("ok", reports={"users": {"minji": {"status": "ok", **entry}}}),
            "node2": HostResult(
                "ok", reports={"users": {"minji": {"status": "missing", **entry}, "eve": {"status": "unknown"}}}
            ),
            "storage1": HostResult("unreachable"),
        }
    )
    left, out, err = cli("list-users", "--json")
    document = json.loads(out)
    assert left == 4, err
    minji, jiho = document["result"]["users"]
    assert {host: entry["status"] for host, entry in minji["hosts"].items()} == {"node1": "ok", "node2": "missing"}
    assert minji["subids"] == {"first": 2**31, "last": 2**31 + 65535}
    assert jiho["state"] == "locked"
    assert document["result"]["unregistered"] == {"eve": ["node2"]}
    assert document["result"]["not_asked"] == ["storage1"]
    _, out, _ = cli("list-users")
    assert "missing: node2" in out
    assert "Not registered, kept as it is: eve on node2" in out
    ansible.asked.clear()
    left, out, _ = cli("list-users", "--offline", "--json")
    assert left == 0
    assert len(json.loads(out)["result"]["users"]) == 2
    assert ansible.asked == []


def test_a_record_holds_who_when_what_and_no_environment(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s3cret")
    cli("add-user", "yuna", "--yes")
    assert ansible.site is not None
    (directory,) = [path for path in (ansible.site / "runs").iterdir() if path.is_dir()]
    assert directory.stat().st_mode & 0o777 == 0o700
    run = json.loads((directory / "run.json").read_text())
    assert run["arguments"] == ["add-user", "yuna", "--yes"]
    assert run["plan"]["title"] == "Add 1 account to test"
    assert {step["host"] for step in run["plan"]["steps"]} == {"site", "storage1", "node1", "node2"}
    for path in directory.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        assert "s3cret" not in path.read_text()


def test_old_runs_are_pruned(ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    (ansible.site / "gpuadmin.yml").write_text("name: test\nruns: {keep: 2}\n")
    identities = [json.loads(cli("sync-users", "--yes", "--json")[1])["run"] for _ in range(4)]
    left = {path.name for path in (ansible.site / "runs").iterdir() if path.is_dir()}
    assert len(left) == 2
    assert left <= set(identities)
    _, out, _ = cli("runs")
    assert all(identity in out for identity in left)


def test_a_plan_names_hosts_and_what_changes(ansible: Ansible, cli: Cli) -> None:
    _, out, _ = cli("add-user", "yuna", "--key", OTHER, "--expires", "2097-02-28", "--check")
    for words in (
        "users.yml: write yuna",
        "home /srv/storage/homes/yuna, if there is none",
        "node1, node2",
        "account yuna, uid 20003",
        f"subids {2**31 + 3 * 65536}-{2**31 + 4 * 65536 - 1}",
        "valid until 2097-02-28",
        "1 ssh key",
        "nothing will be changed",
    ):
        assert words in " ".join(out.split()), words


@pytest.mark.parametrize("verb", ["lock-user", "unlock-user", "extend-user"])
def test_the_plan_names_every_host_on_which_an_account_changes(ansible: Ansible, cli: Cli, verb: str) -> None:
    more = ["--expires", "2099-02-28"] if verb == "extend-user" else []
    code, out, err = cli(verb, "jiho", *more, "--check", "--json")
    assert code == 0, err
    record = json.loads((ansible.site / "runs" / json.loads(out)["run"] / "run.json").read_text())
    assert {step["host"] for step in record["plan"]["steps"]} >= {"node1", "node2", "storage1"}


def test_what_stays_of_a_removed_person_is_not_what_is_archived(ansible: Ansible, cli: Cli) -> None:
    assert "(uid 20000); home and Docker data stay, what runs goes on" in cli("remove-user", "minji", "--check")[1]
    out = cli("remove-user", "minji", "--archive-home", "--check")[1]
    assert "(uid 20000); Docker data stays, what runs goes on" in out
    assert "home and Docker data stay" not in out


def test_the_storage_host_is_in_the_plan_only_where_it_is_meant(ansible: Ansible, cli: Cli) -> None:
    _, out, _ = cli("add-user", "minji", "--check", "--limit", "node1")
    plan, _, note = out.partition("Host ")[0].partition("left out by --limit")
    assert plan.replace("/srv/storage", "").count("storage") == 1, "the note"
    assert "storage" not in note
    assert ansible.asked[0].hosts == 1


@pytest.mark.parametrize("verb", ["add-user", "lock-user", "change-user --no-docker"])
def test_hosts_that_a_limit_leaves_out_are_named(ansible: Ansible, cli: Cli, verb: str) -> None:
    """users.yml says it, and nobody would notice that a host still lets them in."""
    name, *more = verb.split(" ")
    code, out, err = cli(name, "jiho" if name == "add-user" else "minji", *more, "--check", "--limit", "node1,storage1")
    assert code == 0, err
    assert "node2: left out by --limit" in " ".join((out + err).split())
    _, out, err = cli("lock-user", "minji", "--check")
    assert "left out" not in out + err


def on_a_terminal(*arguments: str, typed: bytes = b"", **environment: str) -> tuple[int, str]:
    """Run gpuadmin on a pseudo terminal; return its exit code and all that the terminal showed."""
    command = [sys.executable, "-m", "gpuadmin", *arguments]
    controller, terminal = pty.openpty()
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "CI")}
    process = subprocess.Popen(
        command, stdin=terminal, stdout=terminal, stderr=terminal, close_fds=True,
        env={**kept, "TERM": "xterm-256color", **environment},
    )  # fmt: skip
    os.close(terminal)
    if typed:
        os.write(controller, typed)
    output = b""
    try:
        while chunk := os.read(controller, 65536):
            output += chunk
    except OSError:  # Linux: EIO when the other side is closed
        pass
    os.close(controller)
    return process.wait(30), output.decode()


COLOUR = re.compile(r"\x1b\[(?:[0-9]+;)*(?:3[0-8]|9[0-7])[;m]")


@pytest.mark.parametrize("arguments", [("check",), ("list-users", "--offline")])
def test_colours_on_a_terminal_only(site: Path, arguments: tuple[str, ...]) -> None:
    (site / "users.yml").write_text(USERS)
    arguments = (*arguments, "--site", str(site))
    assert COLOUR.search(on_a_terminal(*arguments)[1])
    assert not COLOUR.search(on_a_terminal(*arguments, NO_COLOR="1")[1])
    line = [sys.executable, "-m", "gpuadmin", *arguments]
    assert "\x1b" not in subprocess.run(line, capture_output=True, text=True, check=False).stdout


@pytest.mark.holds("nothing is done that was not confirmed")
def test_saying_no_on_a_terminal(site: Path) -> None:
    (site / "users.yml").write_text(USERS)
    code, output = on_a_terminal("lock-user", "minji", "--site", str(site), typed=b"n\n")
    assert code == 5, output
    assert "Go ahead?" in output
    assert "not confirmed; nothing was changed" in output
    assert (site / "users.yml").read_text() == USERS


def test_leaving_at_the_question(site: Path) -> None:
    (site / "users.yml").write_text(USERS)
    code, output = on_a_terminal("lock-user", "minji", "--site", str(site), typed=b"\x04")
    assert code == 130, output
    assert "Traceback" not in output
    assert (site / "users.yml").read_text() == USERS


def test_init_writes_a_site_that_check_accepts(cli: Cli, tmp_path: Path) -> None:
    directory = tmp_path / "cluster"
    code, out, _ = cli("init", str(directory), "--storage", "nas1", "--node", "gpu1", "--node", "gpu2")
    assert code == 0
    assert "\n  gpuadmin bootstrap gpu1 gpu2 nas1 --as USER" in out
    assert "gpuadmin trust --all" in out
    code, out, _ = cli("check", "--site", str(directory), "--json")
    assert code == 0, out
    code, _, err = cli("init", str(directory))
    assert code == 2
    assert "holds a site already" in err


def test_init_replaces_nothing_that_is_there(cli: Cli, tmp_path: Path) -> None:
    """A directory that was one's own before: an inventory of Ansible's, accepted host keys, a .gitignore."""
    mine = {
        "inventory/hosts.yml": "all: {hosts: {gpu7: {}}}\n",
        "known_hosts": "gpu7 ssh-ed25519 AAAA\n",
        ".gitignore": "*.swp",
    }
    for name, text in mine.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    code, _, err = cli("init", str(tmp_path / "several"), "--node", "gpu1,gpu2")
    assert code == 2
    assert "Hint: give --node once for each: --node gpu1 --node gpu2" in err
    code, _, err = cli("init", str(tmp_path), "--node", "gpu1")
    assert (code, "inventory/hosts.yml: is there already" in err) == (2, True), err
    assert {name: (tmp_path / name).read_text() for name in mine} == mine
    (tmp_path / "inventory/hosts.yml").unlink()
    assert cli("init", str(tmp_path), "--node", "gpu1")[0] == 0
    assert (tmp_path / "known_hosts").read_text() == mine["known_hosts"]
    assert (tmp_path / ".gitignore").read_text() == "*.swp\n/runs/\n"


@pytest.mark.parametrize("node", ["-oProxyCommand=id", "a b", "{{ x }}", "../x"])
def test_init_refuses_hostile_hosts(cli: Cli, tmp_path: Path, node: str) -> None:
    code, _, err = cli("init", str(tmp_path / "cluster"), f"--node={node}")
    assert code == 2
    assert "not a host name" in err
    code, _, err = cli("init", str(tmp_path / "cluster"), "--node", "gpu1", f"--admin={node}")
    assert (code, "admin.user: " in err) == (2, True), err
    assert not (tmp_path / "cluster").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(cli: Cli, shell: str) -> None:
    code, out, _ = cli("completion", shell)
    assert code == 0
    assert "_GPUADMIN_COMPLETE" in out
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=out, text=True, check=False).returncode == 0


LOCAL_DOCUMENTS: dict[str, list[str]] = {
    "init": ["new-site", "--node", "gpu1"],
    "schema": ["users.yml"],
    "schema --reference": ["--reference"],
    "completion": ["bash"],
    "man": [],
}


@pytest.mark.parametrize(("verb", "arguments"), LOCAL_DOCUMENTS.items(), ids=LOCAL_DOCUMENTS.keys())
def test_verbs_of_this_machine_have_a_document_too(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, arguments: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    verb = verb.partition(" ")[0]
    plain = cli(verb, *arguments)[1]
    if verb == "init":
        shutil.rmtree(tmp_path / "new-site")
    code, out, err = cli(verb, *arguments, "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert set(document) == DOCUMENT
    assert (document["verb"], document["status"], document["run"]) == (verb, "ok", None)
    result = document["result"]
    if verb == "init":
        assert document["site"] == str(tmp_path / "new-site")
        first, login, *last = result["next"][1:]
        assert (first, last) == ("gpuadmin check", ["gpuadmin provision --check", "gpuadmin provision"])
        assert login.startswith("gpuadmin bootstrap ")
    elif verb == "completion":
        assert (result["shell"], f"{result['script']}\n") == ("bash", plain)
    elif verb == "man":
        assert f"{result['page']}\n" == plain
    elif "--reference" in arguments:
        assert result == {"reference": plain}
    else:
        assert result == {"file": "users.yml", "schema": json.loads(plain)}


def test_the_lab_s_commands_have_a_document_too(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuadmin.lab.cluster.power_cut", lambda name, host: name == "a")
    monkeypatch.setattr("gpuadmin.lab.snapshots.save", lambda name, snapshot, progress, replace: None)
    assert cli("lab", "power-cut", "node1", "--name", "a")[1] == "node1: power cut\n"
    for name, cut in (("a", True), ("b", False)):
        document = json.loads(cli("lab", "power-cut", "node1", "--name", name, "--json")[1])
        assert set(document) == DOCUMENT
        assert (document["verb"], document["result"]) == ("lab power-cut", {"host": "node1", "cut": cut})
    assert json.loads(cli("lab", "save", "clean", "--json")[1])["result"] == {"snapshot": "clean"}


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--version"], 0), (["--help"], 0), ([], 2), (["add-usr"], 2), (["sync-users", "--nothing"], 2),
        (["runs", "--site", "/nowhere"], 2), (["lab", "status", "--name", "no such"], 2), (["lab", "start"], 2),
    ],
)  # fmt: skip
def test_it_looks_the_same_however_it_is_called(arguments: list[str], code: int) -> None:
    """The command, and the module; and every error is `Error:`, with a `Hint:` below it."""
    command = Path(sys.executable).parent / "gpuadmin"
    seen = [
        subprocess.run([*line, *arguments], capture_output=True, text=True, check=False)
        for line in ([str(command)], [sys.executable, "-m", "gpuadmin"])
    ]
    assert [(one.returncode, one.stdout, one.stderr) for one in seen[:1]] == [
        (one.returncode, one.stdout, one.stderr) for one in seen[1:]
    ]
    assert seen[0].returncode == code
    if code and arguments:
        first, *_, last = seen[0].stderr.splitlines()
        assert first.startswith("Error: ")
        assert last.startswith("Hint: ")


def test_verbs_complete() -> None:
    environment = {**os.environ, "_GPUADMIN_COMPLETE": "bash_complete", "COMP_WORDS": "gpuadmin add", "COMP_CWORD": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "gpuadmin"], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.split() == ["plain,add-user"], done.stderr


def test_help_names_every_verb(cli: Cli) -> None:
    code, out, _ = cli("--help")
    assert code == 0
    text = " ".join(out.split())  # long lines are folded
    for verb, words in VERBS.items():
        assert f" {verb} {words}" in text


def document_of(out: str) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(out)
    return value


@pytest.mark.parametrize("verb", ["provision", "drift", "sync-users", "list-images"])
def test_that_there_is_nobody_to_ask_is_not_that_nothing_is_to_be_done(ansible: Ansible, cli: Cli, verb: str) -> None:
    assert ansible.site is not None
    (ansible.site / "inventory/hosts.yml").write_text("all: {}\n")
    code, out, err = cli(verb, "--yes", "--json")
    assert code == 2
    assert set(document_of(out)) == DOCUMENT
    assert "no host is in a group that this works on: gpu, storage" in err
    assert "inventory/hosts.yml" in err
    assert ansible.asked == []


@pytest.mark.parametrize("arguments", [("sync-users", "--yes"), ("add-user", "yuna", "--yes"), ("list-users",)])
def test_a_host_key_that_is_not_pinned_is_not_waited_for(
    ansible: Ansible, cli: Cli, arguments: tuple[str, ...]
) -> None:
    away = HostResult("unreachable", message=UNPINNED)
    ansible.answer, ansible.uids = RunResult({"node1": away, "storage1": away}), away
    code, _, err = cli(*arguments)
    assert code == 4, err
    assert "gpuadmin trust --all" in err.splitlines()[-1]
    assert "when they answer" not in err


@pytest.mark.parametrize("changed", [[], ["write /etc/x"]], ids=["only looked at", "changed before"])
def test_that_nothing_was_changed_is_said_where_nothing_was(ansible: Ansible, cli: Cli, changed: list[str]) -> None:
    held = HostResult("failed", changed, "no room; in the group docker", obstacles=["No room.", "In the group docker."])
    ansible.answer = RunResult({"node1": held, "node2": HostResult("ok")})
    code, out, err = cli("provision", "--yes")
    assert code == 3
    assert "No room." in out
    assert "In the group docker." in out
    assert ("nothing was changed there" in out) == (not changed)
    assert ("nothing was changed on node1" in err) == (not changed)
    document = json.loads(cli("provision", "--yes", "--json")[1])
    assert document["hosts"]["node1"]["obstacles"] == held.obstacles
    assert "In the group docker." in cli("runs", document["run"])[1]
    assert "nothing was changed" not in cli("provision", "--check")[1]


@pytest.mark.parametrize("words", [[""], ["new", "--storage", ""], ["new", "--node", ""], ["new", "--admin", ""]])
def test_init_takes_no_variable_that_is_not_set(
    words: list[str], cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = cli("init", *words)
    assert (code, out, list(tmp_path.iterdir())) == (2, "", []), err
