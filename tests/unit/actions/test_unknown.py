"""What is not known is not taken for nothing: a registry that is lost, a host that does not answer."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.answers import Answers
from gpuadmin.config.load import load_site
from gpuadmin.config.memory import Memory, owners, recall
from gpuadmin.errors import ExitCode, GpuadminError
from gpuadmin.mail.ledger import Ledger
from gpuadmin.results import HostResult, RunResult
from gpuadmin.semester.journal import Journal
from tests.support.fake_ansible import USERS, Ansible, ansible
from tests.support.image_cluster import Cluster, cluster
from tests.support.sites import UIDS, registry

pytestmark = pytest.mark.holds(
    "a host that could not begin has not said anything",
    "a registry that is empty is not nobody",
    "a store that did not answer is not an empty one",
    "a uid that something carries is given to nobody",
    "a uid that something carries is not forgotten",
    "a verb is refused where users.yml contradicts the memory",
    "hosts that did not answer are in the exit code",
    "no uid is given before the storage host has spoken",
    "what cannot be looked at is not absent",
    "what lies behind a link that leads nowhere is not absent",
)


__all__ = ["ansible", "cluster"]
Cli = Callable[..., tuple[int, str, str]]
AWAY = HostResult("unreachable", message="does not answer (timed out)")
EVERYTHING_AWAY = RunResult(dict.fromkeys(("storage1", "node1", "node2"), AWAY))


def site_of(ansible: Ansible) -> Path:
    assert ansible.site is not None
    return ansible.site


def users_yml(ansible: Ansible) -> Path:
    return site_of(ansible) / "users.yml"


def remove(path: Path) -> None:
    path.unlink()


def dangle(path: Path) -> None:
    path.rename(path.with_name("elsewhere.yml"))
    path.symlink_to("gone/users.yml")


def empty(path: Path) -> None:
    path.write_text("")


def only_comments(path: Path) -> None:
    path.write_text("# People.\n")


@pytest.mark.parametrize("lose", [remove, dangle, empty, only_comments])
@pytest.mark.parametrize(
    "verb", [["check"], ["add-user", "yuna", "--yes"], ["list-users", "--offline"], ["sync-users"]]
)
def test_a_registry_that_is_not_there_is_not_an_empty_one(
    ansible: Ansible, cli: Cli, lose: Callable[[Path], None], verb: list[str]
) -> None:
    lose(users_yml(ansible))
    code, out, err = cli(*verb)
    assert code == ExitCode.USAGE, out
    assert "users.yml: " in err
    assert "restore it from version control or a copy" in err
    assert "0 people" not in out
    assert ansible.asked == []


def test_hosts_of_one_reason_are_named_together() -> None:
    off = {name: HostResult("unreachable", message="is off") for name in ("node1", "node2")}
    assert Answers.of(off, off, "accounts").summary == "node1, node2 (is off)"


def test_a_new_site_has_nobody_and_says_so(cli: Cli, tmp_path: Path) -> None:
    assert cli("init", str(tmp_path / "new"), "--storage", "nas1", "--node", "gpu1")[0] == 0
    assert cli("check", "--site", str(tmp_path / "new"))[0] == 0


LOST = {
    "everybody": "users: []\nretired: []\n",
    "somebody": USERS.replace("jiho", "other").replace("20001", "20009"),
    "who was removed": USERS.replace("  - {name: old, uid: 20002, removed: 2026-02-01}\n", "  []\n"),
}


@pytest.mark.parametrize("text", LOST.values(), ids=LOST.keys())
def test_people_that_users_yml_has_lost(ansible: Ansible, cli: Cli, text: str) -> None:
    assert cli("sync-users", "--yes")[0] == 0
    assert recall(site_of(ansible)).uids == {20000: "minji", 20001: "jiho", 20002: "old"}
    ansible.asked.clear()
    users_yml(ansible).write_text(text)
    for arguments in (["add-user", "yuna", "--yes"], ["add-user", "yuna", "--check"], ["sync-users", "--yes"]):
        code, _, err = cli(*arguments)
        assert code == ExitCode.REFUSED
        assert "is neither under `users` nor under `retired` any more" in err
        assert "remove-user --forget" in err
    assert ansible.asked == []
    assert users_yml(ansible).read_text() == text
    code, out, _ = cli("check")
    assert code == ExitCode.USAGE
    assert "is neither under `users`" in out
    assert cli("list-users", "--offline")[0] == 0


def test_a_uid_that_is_somebody_elses_now(ansible: Ansible, cli: Cli) -> None:
    cli("sync-users", "--yes")
    users_yml(ansible).write_text(USERS.replace("name: jiho", "name: yuna"))
    code, _, err = cli("sync-users", "--yes")
    assert code == ExitCode.REFUSED
    assert "uid 20001 was jiho's, and is yuna's now" in err


def test_who_was_moved_to_retired_by_hand_is_no_contradiction(ansible: Ansible, cli: Cli) -> None:
    cli("sync-users", "--yes")
    text = USERS.replace("  - name: jiho\n    uid: 20001\n    locked: true\n", "")
    users_yml(ansible).write_text(text + "  - {name: jiho, uid: 20001, removed: 2026-03-01}\n")
    assert cli("sync-users", "--yes")[0] == 0
    assert cli("check")[0] == 0


def test_every_verb_that_writes_remembers(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = EVERYTHING_AWAY
    assert cli("add-user", "yuna", "--yes")[0] == ExitCode.HOST_UNREACHABLE
    assert recall(site_of(ansible)).uids[20003] == "yuna"
    document = json.loads((site_of(ansible) / "runs" / "uids.json").read_text())
    assert (document["highest"], document["users.yml"]["people"]) == (20003, 3)
    assert (site_of(ansible) / "runs" / "uids.json").stat().st_mode & 0o777 == 0o600


@pytest.mark.holds("what no host has taken is not remembered")
def test_what_was_not_brought_to_the_hosts_is_not_remembered(ansible: Ansible, cli: Cli) -> None:
    """A slip in users.yml that no host has taken can be corrected."""
    ansible.answer = EVERYTHING_AWAY
    users_yml(ansible).write_text(USERS.replace("uid: 20000", "uid: 20009"))
    assert cli("sync-users", "--yes")[0] == ExitCode.HOST_UNREACHABLE
    assert 20009 not in recall(site_of(ansible)).uids


@pytest.mark.parametrize("text", ["{", "[]", '{"uids": []}', '{"uids": {"x": "a"}}', "", "null", "[" * 9000])
def test_a_memory_that_cannot_be_read_stops_and_says_where(ansible: Ansible, cli: Cli, text: str) -> None:
    (site_of(ansible) / "runs" / "uids.json").write_text(text)
    for verb in (["add-user", "yuna", "--yes"], ["check"]):
        code, _, err = cli(*verb)
        assert code == ExitCode.USAGE
        assert "uids.json: is damaged" in err
        assert "delete it" in err
    assert ansible.asked == []


@pytest.mark.holds("records that are somewhere else are not none")
@pytest.mark.parametrize("verb", [["add-user", "yuna", "--check"], ["check"], ["runs"]])
@pytest.mark.parametrize("link", [True, False])
def test_records_that_are_somewhere_else_are_not_none(ansible: Ansible, cli: Cli, verb: list[str], link: bool) -> None:
    runs = site_of(ansible) / "runs"
    runs.rename(runs.with_name("elsewhere"))
    if link:
        runs.symlink_to("gone")
    else:
        runs.write_text("")
    code, _, err = cli(*verb)
    assert code == ExitCode.USAGE
    assert "runs: is not a directory, or a broken link" in err
    assert ansible.asked == []


def test_forgetting(ansible: Ansible, cli: Cli) -> None:
    cli("sync-users", "--yes")
    ansible.uids = HostResult("ok", reports={"uids": {**UIDS, "memory": {"20002": "old"}}})
    code, out, err = cli("remove-user", "--forget", "old", "--yes")
    assert code == 0, err
    assert "forget whose uid was old's" in out
    assert ansible.asked[-1].variables["gpuadmin_forget"] == ["old"]
    assert load_site(str(site_of(ansible))).registry.registry.retired == []
    assert 20002 not in recall(site_of(ansible)).uids
    ansible.uids = HostResult("ok", reports={"uids": UIDS})
    assert cli("add-user", "yuna", "--uid", "20002", "--yes")[0] == 0
    code, _, err = cli("remove-user", "--forget", "minji", "--yes")
    assert code == ExitCode.USAGE
    assert "gpuadmin remove-user minji" in err


def test_a_uid_that_something_carries_is_not_forgotten(ansible: Ansible, cli: Cli) -> None:
    seen = {"20002": "/srv/storage/archive/old-20002-20260101T000000Z.tar.zst"}
    ansible.uids = HostResult("ok", reports={"uids": {**UIDS, "seen": seen}})
    code, _, err = cli("remove-user", "--forget", "old", "--yes")
    assert code == ExitCode.REFUSED
    assert "uid 20002 was old's, and is carried by storage1: /srv/storage/archive/old-20002" in err
    assert users_yml(ansible).read_text() == USERS


def test_somebody_who_is_lost_from_users_yml_is_let_go_by_name(ansible: Ansible, cli: Cli) -> None:
    cli("sync-users", "--yes")
    users_yml(ansible).write_text(LOST["who was removed"])
    assert cli("sync-users", "--yes")[0] == ExitCode.REFUSED
    assert cli("remove-user", "--forget", "old", "--yes")[0] == 0
    assert cli("sync-users", "--yes")[0] == 0


STORAGE: dict[str, tuple[HostResult, ExitCode, str]] = {
    "does not answer": (
        AWAY,
        ExitCode.HOST_UNREACHABLE,
        "uids are taken is not known: storage1 (does not answer",
    ),
    "fails": (HostResult("failed", message="the disk is not mounted"), ExitCode.HOST_FAILED, "the disk is not mounted"),
    "could not begin": (HostResult("failed", reports={"uids": {}}), ExitCode.HOST_FAILED, "is not known"),
    "does not say": (HostResult("ok"), ExitCode.HOST_FAILED, "which uids are taken is not known"),
    "has a damaged memory": (
        HostResult("ok", reports={"uids": {"memory": None, "seen": {}, "problem": "/x.json is damaged"}}),
        ExitCode.HOST_FAILED,
        "/x.json is damaged",
    ),
    "remembers somebody else": (
        HostResult("ok", reports={"uids": {**UIDS, "memory": {"20003": "dana"}}}),
        ExitCode.REFUSED,
        "what storage1 remembers: dana (uid 20003) is neither",
    ),
    "remembers another owner": (
        HostResult("ok", reports={"uids": {**UIDS, "memory": {"20001": "dana"}}}),
        ExitCode.REFUSED,
        "uid 20001 was dana's, and is jiho's now",
    ),
}


@pytest.mark.parametrize(("answer", "code", "words"), STORAGE.values(), ids=STORAGE.keys())
def test_no_uid_is_given_before_the_storage_host_has_spoken(
    ansible: Ansible, cli: Cli, answer: HostResult, code: ExitCode, words: str
) -> None:
    ansible.uids = answer
    for mode in ("--yes", "--check"):
        found, _, err = cli("add-user", "yuna", mode, "--limit", "gpu,storage")
        assert found == code
        assert words in err
    assert all(one.check for one in ansible.asked), "a check looks at all hosts at once"
    assert users_yml(ansible).read_text() == USERS


@pytest.mark.holds("no uid is given that the storage host would not learn")
def test_no_uid_is_given_that_the_storage_host_would_not_learn(ansible: Ansible, cli: Cli) -> None:
    """A second copy of the site would give it again."""
    for mode in ("--yes", "--check"):
        code, _, err = cli("add-user", "yuna", mode, "--limit", "node1")
        assert code == ExitCode.USAGE
        assert "--limit node1,storage1" in err
    assert ansible.asked == []
    assert users_yml(ansible).read_text() == USERS
    assert cli("add-user", "minji", "--yes", "--limit", "node1")[0] == 0  # has one


def test_a_uid_that_a_home_carries_is_given_to_nobody(ansible: Ansible, cli: Cli) -> None:
    seen = {"20003": "/srv/storage/homes/dana", "20004": "/srv/storage/archive/seo-20004-20260101T000000Z.tar.gz"}
    ansible.uids = HostResult("ok", reports={"uids": {**UIDS, "seen": seen}})
    assert cli("add-user", "yuna", "--yes")[0] == 0
    assert ansible.asked[-1].variables["gpuadmin_users"][0]["uid"] == 20005
    code, _, err = cli("add-user", "kim", "--uid", "20003", "--yes")
    assert code == ExitCode.REFUSED
    assert "is carried by storage1: /srv/storage/homes/dana" in err
    assert cli("add-user", "dana", "--uid", "20003", "--yes")[0] == 0


def test_nobody_is_asked_where_no_uid_is_given(ansible: Ansible, cli: Cli) -> None:
    ansible.uids = AWAY
    assert cli("add-user", "minji", "--yes")[0] == 0
    assert cli("lock-user", "minji", "--yes")[0] == 0
    assert ansible.looked == 0


def test_owners_and_contradictions() -> None:
    file = registry("users:\n  - {name: a, uid: 20000}\nretired:\n  - {name: b, uid: 20001, removed: 2026-01-01}\n")
    assert owners(file.registry) == {20000: "a", 20001: "b"}
    assert Memory({20000: "a", 20001: "b"}).contradictions(file.registry) == []
    memory = Memory({20000: "x", 20001: "b", 20007: "c"})
    assert [words.split(" ")[0] for words in memory.contradictions(file.registry)] == ["uid", "c"]
    assert memory.contradictions(file.registry, but=["x", "c"]) == []


def test_answers() -> None:
    hosts = {
        "good": HostResult("ok", reports={"x": {}}),
        "conflict": HostResult("failed", reports={"x": {"a": 1}}, message="a: conflict"),
        "not begun": HostResult("failed", reports={"x": {}}, message="no disk"),
        "away": AWAY,
    }
    found = Answers.of(hosts, [*hosts, "nobody"], "x")
    assert set(found.known) == {"good", "conflict"}
    assert found.unknown == {
        "not begun": "no disk", "away": "does not answer (timed out)", "nobody": "did not answer",
    }  # fmt: skip
    assert found.failed == {"not begun"}
    assert (found.code, found.among(["away"]).code, found.among(["good"]).code) == (3, 4, 0)


# --- verbs that look at hosts ---


@pytest.mark.parametrize("arguments", [[], ["minji"]])
def test_backups_of_a_host_that_does_not_answer(ansible: Ansible, cli: Cli, arguments: list[str]) -> None:
    ansible.answer = RunResult({"storage1": AWAY})
    code, out, _ = cli("list-backups", *arguments)
    assert code == ExitCode.HOST_UNREACHABLE
    assert "storage1: which backups it has is not known: does not answer (timed out)" in out
    assert "no backup" not in out.casefold()
    code, out, _ = cli("list-backups", *arguments, "--json")
    assert json.loads(out)["result"] == {"backups": [], "unknown": {"storage1": "does not answer (timed out)"}}


@pytest.mark.parametrize(
    "arguments",
    [["list-backups"], ["verify-backup", "--yes"], ["restore-home", "minji", "--yes"], ["backup", "--yes"],
     ["clear-leftovers", "--yes"], ["list-images", "a"], ["list-images", "a", "--verify"]],
)  # fmt: skip
def test_asking_nobody_is_not_an_answer(ansible: Ansible, cli: Cli, arguments: list[str]) -> None:
    code, out, err = cli(*arguments, "--limit", "node1")
    assert code == ExitCode.USAGE, out
    assert "--limit leaves out the storage host" in err
    assert ansible.asked == []


def without_storage(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, *away: str) -> None:
    answer = cluster.run

    def run(invocation: Any, **callbacks: object) -> RunResult:
        result = answer(invocation, **callbacks)
        return RunResult({**result.hosts, **dict.fromkeys(away, AWAY)})

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)


@pytest.mark.parametrize(
    "arguments",
    [["list-images", "b"], ["push-image", "b", "--yes"], ["push-image", "b", "--check"], ["build-image", "c", "--yes"]],
)  # fmt: skip
def test_a_store_that_nobody_could_look_at(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    cluster.store = {}
    without_storage(cluster, monkeypatch, "storage1")
    code, out, err = cli(*arguments)
    assert code == ExitCode.HOST_UNREACHABLE, (out, err)
    assert "is not known: storage1 (does not answer (timed out))" in err
    assert "no complete image" not in err
    assert [one.playbook for one in cluster.changing if not one.check] == []


def test_the_list_of_images_says_what_is_not_known(cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    without_storage(cluster, monkeypatch, "storage1", "node2")
    cluster.answer = {}
    code, out, _ = cli("list-images")
    assert code == ExitCode.HOST_UNREACHABLE
    assert "What the store has is not known: storage1 (does not answer" in out
    assert "Not known what they run: node2 (does not answer" in out


@pytest.mark.parametrize(
    "arguments", [["push-image", "b"], ["rollback-image"], ["prune-images"]], ids=["push", "rollback", "prune"]
)
def test_nothing_to_do_on_nodes_that_nobody_could_look_at(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    without_storage(cluster, monkeypatch, "node1", "node2")
    code, out, _ = cli(*arguments, "--yes")
    assert code == ExitCode.HOST_UNREACHABLE
    assert "Not known: node1 (does not answer" in out
    assert cluster.changing == []


def test_one_node_that_is_away_is_in_the_exit_code(cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    without_storage(cluster, monkeypatch, "node2")
    answer = cluster.run

    def run(invocation: Any, **callbacks: object) -> RunResult:
        if invocation.playbook == "push-image":
            assert invocation.limit == "node1"
            return RunResult({"node1": HostResult("changed")})
        hosts = {**answer(invocation, **callbacks).hosts, "node2": AWAY}
        return RunResult(hosts)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    assert cli("push-image", "b", "--yes")[0] == ExitCode.HOST_UNREACHABLE
    assert cli("push-image", "b", "--yes", "--limit", "node1")[0] == ExitCode.DONE


def test_an_image_that_the_store_says_nothing_of_is_not_right(ansible: Ansible, cli: Cli) -> None:
    ansible.answer = RunResult({"storage1": HostResult("ok", reports={"verified": {}})})
    code, out, _ = cli("list-images", "b", "--verify")
    assert code == ExitCode.ERROR
    assert "the store did not say anything of it" in out


def test_people_on_a_node_that_did_not_say(ansible: Ansible, cli: Cli) -> None:
    answered = {"users": {"minji": {"status": "ok", "operations": [], "problem": None}}}
    ansible.answer = RunResult(
        {
            "node1": HostResult("ok", reports=answered),
            "node2": HostResult("failed", reports={"users": {}}),
            "storage1": AWAY,
        }
    )
    code, out, _ = cli("list-users")
    assert code == ExitCode.HOST_FAILED
    assert "wherever it is known" in out
    assert "everywhere" not in out
    assert "Which accounts they have is not known: node2 (did not say), storage1 (does not answer" in out


READERS: dict[str, Callable[[Path], object]] = {
    "memory": recall,
    "journal": lambda site: Journal(site / "runs", "x").entries(),
    "ledger": lambda site: list(Ledger(site / "runs" / "mails.jsonl")),
}


@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
@pytest.mark.parametrize("target", ["runs", "nowhere"])
def test_what_cannot_be_looked_at_is_not_nothing(tmp_path: Path, read: Callable[[Path], object], target: str) -> None:
    """A link to itself, and one that leads nowhere, in place of the directory that holds a file."""
    for name in ("runs", "runs/term-x"):
        assert read(tmp_path) in ([], Memory()), "a new site has none of them"
        (tmp_path / name).mkdir()
    assert read(tmp_path) in ([], Memory())
    (tmp_path / "runs/term-x").rmdir()
    (tmp_path / "runs/term-x").symlink_to("term-x" if target == "runs" else target)
    if read is not READERS["journal"]:
        (tmp_path / "runs/term-x").unlink()
        (tmp_path / "runs").rmdir()
        (tmp_path / "runs").symlink_to(target)
    with pytest.raises(GpuadminError):
        read(tmp_path)


@pytest.mark.root
@pytest.mark.parametrize("read", READERS.values(), ids=READERS.keys())
def test_another_admin_s_runs_are_not_an_empty_site_s(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """runs/ is its maker's alone; somebody else who works in the same directory was told that nothing is there."""
    for parent in (tmp_path, *tmp_path.parents[:2]):
        parent.chmod(stat.S_IMODE(parent.stat().st_mode) | 0o055)  # with --basetemp below /tmp, one of them is /tmp
    (tmp_path / "runs" / "term-x").mkdir(parents=True)
    for name in ("uids.json", "term-x/journal.jsonl", "mails.jsonl"):
        (tmp_path / "runs" / name).write_text("{}\n")
    (tmp_path / "runs").chmod(0o700)
    os.seteuid(65534)
    try:
        with pytest.raises(GpuadminError, match="Permission denied"):
            read(tmp_path)
    finally:
        os.seteuid(0)
