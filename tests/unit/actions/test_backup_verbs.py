"""The verbs about backups, from their command line to what Ansible would be asked."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult

pytestmark = pytest.mark.holds("a restore is of a home", "a restore is of what is in the home")


Cli = Callable[..., tuple[int, str, str]]
HOME = {"uid": 20000, "files": 2, "bytes": 3000, "checksum": "c", "verified": "2026-12-21T01:02:03Z", "inode": 1}
SET = {
    "name": "20261221T010203Z-manual", "created": "2026-12-21T01:02:03Z", "homes": {"minji": HOME}, "problems": {},
    "copies": {},
}  # fmt: skip


@pytest.fixture
def asked(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[Invocation]:
    """What Ansible was asked; the storage host answers with one backup."""
    found: list[Invocation] = []

    def run(invocation: Invocation, **_callbacks: object) -> RunResult:
        found.append(invocation)
        reports = {"facts": {"backups": [SET]}, "backup": SET, "restored": {"target": "/x"}}
        return RunResult({"storage1": HostResult("changed", reports=reports)})

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    (site / "users.yml").write_text(
        "users:\n  - {name: minji, uid: 20000}\nretired:\n  - {name: junho, uid: 20001, removed: 2026-02-01}\n"
    )
    return found


RESTORE = {"user": "minji", "backup": "", "mode": "beside", "path": "", "target": None, "uid": 20000,
           "subids": [2147483648, 65536, 20000]}  # fmt: skip

CALLS: dict[str, tuple[list[str], dict[str, Any]]] = {
    "verify": (["verify-backup"], {}),
    "verify one": (["verify-backup", "X", "--user", "minji"], {"name": "X", "users": ["minji"]}),
    "restore": (["restore-home", "minji"], {"restore": RESTORE}),
    "restore a part": (["restore-home", "minji", "--path", "a/b"], {"restore": {**RESTORE, "path": "a/b"}}),
    "restore in place": (["restore-home", "minji", "--in-place"], {"restore": {**RESTORE, "mode": "in-place"}}),
    "restore an older one": (
        ["restore-home", "minji", "--from", "20261221T010203Z-x"],
        {"restore": {**RESTORE, "backup": "20261221T010203Z-x"}},
    ),
    "restore elsewhere": (
        ["restore-home", "minji", "--to", "/srv/x"],
        {"restore": {**RESTORE, "mode": "directory", "target": "/srv/x"}},
    ),
    "restore of somebody who is gone": (
        ["restore-home", "junho"],
        {"restore": {**RESTORE, "user": "junho", "uid": None, "mode": "attic"}},
    ),
}


@pytest.mark.parametrize(("arguments", "wanted"), CALLS.values(), ids=CALLS.keys())
def test_what_ansible_is_asked(asked: list[Invocation], cli: Cli, arguments: list[str], wanted: dict[str, Any]) -> None:
    code, _out, err = cli(*arguments, "--yes")
    assert code == 0, err
    cli(*arguments, "--check")
    done, predicted = asked
    assert (done.playbook, done.check, predicted.check) == (arguments[0], False, True)
    assert done.variables["gpuadmin_backup"] == predicted.variables["gpuadmin_backup"] == wanted
    assert done.variables["gpuadmin_run_id"] != predicted.variables["gpuadmin_run_id"], "each run has a word of its own"


def test_a_backup_has_a_name_of_its_own(asked: list[Invocation], cli: Cli) -> None:
    code, out, err = cli("backup", "--label", "before-move", "--no-verify", "--yes", "--json")
    assert code == 0, err
    wanted = asked[0].variables["gpuadmin_backup"]
    assert wanted["name"].endswith("Z-before-move")
    assert wanted["users"] == []
    assert json.loads(out)["result"]["backup"]["name"] == SET["name"]
    for label in ("daily", "../x", "Ä", ""):
        assert cli("backup", "--label", label, "--yes")[0] == 2


def test_list_backups(asked: list[Invocation], cli: Cli) -> None:
    code, out, _err = cli("list-backups", "--json")
    assert code == 0
    (row,) = json.loads(out)["result"]["backups"]
    assert (row["name"], row["until"], row["homes"]["minji"]["files"]) == (SET["name"], "2027-06-22", 2)
    assert "20261221T010203Z-manual" in cli("list-backups")[1]
    assert "No backup of junho" in cli("list-backups", "junho")[1]
    assert all(invocation.check for invocation in asked)


def test_a_name_that_nobody_has_is_no_answer(asked: list[Invocation], cli: Cli) -> None:
    code, out, err = cli("list-backups", "minjii")
    assert (code, out) == (2, ""), out
    assert "not registered: 'minjii'" in err
    assert "did you mean 'minji'?" in err


def test_a_restore_that_no_host_can_do_says_where_backups_are_listed(
    asked: list[Invocation], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same again would be the same."""
    missing = RunResult({"storage1": HostResult("failed", message="there is no complete backup")})
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda *_given, **_more: missing)
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    for more in ([], ["--yes"]):
        _, _, err = cli("restore-home", "minji", "--from", "20261221T010203Z-x", *more)
        assert "which backups there are: gpuadmin list-backups minji" in err
        assert "run it again" not in err
        assert "Hint: the table says why; " in err, "the way out comes before the log"


def test_two_places_at_once(asked: list[Invocation], cli: Cli) -> None:
    assert cli("restore-home", "minji", "--to", "/x", "--in-place")[0] == 2
    assert asked == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["ghost"], "ghost: nobody by that name is or was registered"),
        (["minji", "--path", "../jiho"], "is not a path inside of the home"),
        (["minji", "--path", "/etc"], "is not a path inside of the home"),
        (["../minji"], "is not the name of a home"),
        (["minji", "--from", "yesterday"], "--from 'yesterday': is not the name of a backup"),
        (["minjii"], "did you mean 'minji'?"),
    ],
)
def test_what_no_backup_can_have_is_refused_before_a_host_is_asked(
    asked: list[Invocation], cli: Cli, arguments: list[str], words: str
) -> None:
    code, _out, err = cli("restore-home", *arguments, "--yes")
    assert code == 2
    assert words in err
    assert asked == []


def test_who_names_the_backup_has_looked(asked: list[Invocation], cli: Cli) -> None:
    """A backup can be older than what the site remembers."""
    code, _out, err = cli("restore-home", "ghost", "--from", "20261221T010203Z-x", "--yes")
    assert (code, len(asked)) == (0, 1), err


def test_a_list_comes_before_what_is_missing_in_it(
    asked: list[Invocation], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table says which host did not answer, and why; after it comes what to do."""
    away = RunResult({"storage1": HostResult("unreachable", message="does not answer (timed out)")})
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda *_given, **_more: away)
    words = {
        "list-backups": "storage1: which backups it has is not known: does not answer",
        "list-images": "What the store has is not known: storage1 (does not answer",
        "list-users": "storage1 (does not answer (timed out))",
    }
    for verb, sentence in words.items():
        code, out, err = cli(verb)
        assert code == 4
        assert sentence in out
        assert "Hint: when they answer: run it again" in err


def test_after_an_account_that_is_not_everywhere_one_verb_brings_it(
    asked: list[Invocation], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts = {name: HostResult("ok") for name in ("storage1", "node1")}
    away = RunResult({**hosts, "node2": HostResult("unreachable", message="does not answer (timed out)")})
    monkeypatch.setattr("gpuadmin.ansible.runner.run", lambda *_given, **_more: away)
    code, _out, err = cli("lock-user", "minji", "--yes")
    assert code == 4
    assert "Hint: when they answer: gpuadmin sync-users" in err
    assert "--log" not in err
    code, _out, err = cli("remove-user", "minji", "--archive-home", "--yes")
    assert "Hint: when they answer: run it again" in err, "sync-users moves no home"


def test_a_day_that_is_past_is_in_the_plan(asked: list[Invocation], cli: Cli) -> None:
    _code, out, _err = cli("extend-user", "minji", "--expires", "2020-01-01", "--check")
    assert "Note: minji: valid until 2020-01-01, which is past: the account is closed" in out
    assert "past" not in cli("extend-user", "minji", "--expires", "2099-01-01", "--check")[1]


def test_a_number_is_called_a_number(asked: list[Invocation], cli: Cli) -> None:
    for given, words in (("x", "'x' is not a whole number"), ("0", "0 is not a number of at least 1")):
        code, _out, err = cli("prune-images", "--keep", given)
        assert code == 2
        assert words in err
        assert "INTEGER" not in err


AWAY = HostResult("unreachable", message="timed out")
OLDER, NEWER = "20261220T010203Z-daily", "20261222T010203Z-daily"
#: The storage host has minji's, and a newer one that nobody verified; the backup host also jiho's.
SETS = {
    "storage1": [
        SET,
        {**SET, "name": NEWER, "created": "2026-12-22T01:02:03Z", "homes": {
            "minji": {**HOME, "verified": None}, "new": {**HOME, "uid": 20004, "verified": None}}}],
    "backup1": [{**SET, "name": OLDER, "created": "2026-12-20T01:02:03Z", "homes": {
        "minji": HOME, "jiho": {**HOME, "uid": 20002}, "sora": {**HOME, "uid": 777}, "_slurm": {**HOME, "uid": 0},
        "junho": {**HOME, "uid": 20001}, "minji.restored-20261219T010203Z": HOME}}],
}  # fmt: skip


@pytest.fixture
def lost(site: Path, monkeypatch: pytest.MonkeyPatch) -> list[Invocation]:
    """A site whose storage host is new: what Ansible is asked. jiho's home there is used, minji's is not there."""
    found: list[Invocation] = []

    def run(invocation: Invocation, **_callbacks: object) -> RunResult:
        found.append(invocation)
        if invocation.playbook == "list-backups":
            return RunResult(
                {host: HostResult("ok", reports={"facts": {"backups": one}}) for host, one in SETS.items()}
            )
        homes = invocation.variables["gpuadmin_backup"]["restore_all"]["homes"]
        why = {name: "there is a home that somebody has used" if name == "jiho" else "" for name in homes}
        return RunResult({"storage1": HostResult("changed", reports={"restored_homes": why})})

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    inventory = site / "inventory/hosts.yml"
    inventory.write_text(inventory.read_text().replace("backup: {hosts: {}}", "backup: {hosts: {backup1: {}}}"))
    people = ((20000, "minji"), (20002, "jiho"), (20003, "sora"), (20004, "new"))
    users = "".join(f"  - {{name: {name}, uid: {uid}}}\n" for uid, name in people)
    (site / "users.yml").write_text(f"users:\n{users}retired:\n  - {{name: junho, uid: 20001, removed: 2026-02-01}}\n")
    return found


@pytest.mark.holds("restore-home --all asks before it does something")
def test_all_homes_in_one_plan(lost: list[Invocation], cli: Cli) -> None:
    code, out, err = cli("restore-home", "--all", "--check")
    assert code == 0, err
    assert "1 home as of 2026-12-21" in out
    assert ": minji; compared with the backup" in out
    assert "Note: left out: jiho: there is a home that somebody has used" in out
    assert "Note: left out: new: there is no copy" in out
    assert "left out: sora: the copy is of uid 777, not 20003: gpuadmin restore-home sora" in " ".join(out.split())
    assert f"minji: {NEWER} is newer, and not verified (restore-home minji --from {NEWER})" in " ".join(out.split())
    assert f"new: {NEWER} is newer, and not verified" in " ".join(out.split()), "it is all that there is"
    assert "junho" not in out
    assert "_slurm" not in out
    assert all(one.check for one in lost)
    assert cli("restore-home", "--all")[0] == 5, "nobody confirmed it"
    assert all(one.check for one in lost)
    lost.clear()
    code, out, err = cli("restore-home", "--all", "--yes", "--json")
    assert code == 0, err
    assert json.loads(out)["result"]["homes"] == {"minji": SET["name"]}
    done = lost[-1]
    assert (done.playbook, done.check, done.limit) == ("restore-home", False, "storage1")
    wanted = done.variables["gpuadmin_backup"]["restore_all"]
    assert (wanted["homes"], wanted["uids"]["minji"], wanted["skeleton"]) == (
        {"minji": SET["name"]},
        20000,
        "/etc/skel",
    )


@pytest.mark.parametrize("more", [["minji"], ["--path", "x"], ["--in-place"], ["--to", "/x"], ["--from", NEWER]])
def test_all_homes_have_no_options(lost: list[Invocation], cli: Cli, more: list[str]) -> None:
    assert cli("restore-home", "--all", *more)[0] == 2
    assert cli("restore-home")[0] == 2
    assert lost == []


@pytest.mark.holds("no home is restored where it is not known which are there")
def test_all_homes_of_a_storage_host_that_does_not_answer(
    lost: list[Invocation], cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(invocation: Invocation, **_callbacks: object) -> RunResult:
        lost.append(invocation)
        found = HostResult("ok", reports={"facts": {"backups": SETS["storage1"]}})
        looked = invocation.playbook == "list-backups"
        return RunResult({"storage1": found, "backup1": AWAY} if looked else {"storage1": AWAY})

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    code, out, _err = cli("restore-home", "--all", "--yes")
    assert code == 4
    for host in ("storage1", "backup1"):
        assert f"{host} does not say what it has" in " ".join(out.split())
    assert all(one.check for one in lost)
