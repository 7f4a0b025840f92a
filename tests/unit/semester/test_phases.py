"""A phase is one object: what a check asks of hosts is what the run asks of them, and a check changes nothing."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.actions.semester.data import Backup, Prune, Wipe
from gpuadmin.actions.semester.hosts import persons
from gpuadmin.actions.semester.phase import Outcome
from gpuadmin.actions.semester.reopen import Reopen
from gpuadmin.actions.semester.reset import Request
from gpuadmin.ansible.runner import Invocation
from gpuadmin.errors import ExitCode, UnreachableError
from gpuadmin.results import HostResult, RunResult
from gpuadmin.semester.journal import Journal
from gpuadmin.semester.machine import ANNOUNCE, BACKUP, END_SESSIONS, LOCK, PHASES, PRUNE, REOPEN, WIPE, State
from tests.support.semester_cluster import Cluster
from tests.support.sites import SETTINGS
from tests.support.verbs import succeed

pytestmark = pytest.mark.btrfs
Cli = Callable[..., tuple[int, str, str]]
ALL = ("semester-reset", "--yes", "--term", "2026-2", "--json")
MADE = "20260202T000000Z-reset-2026-2"
OLD = "20200101T000000Z-reset-2019-2"
COPY = "minji.restored-20261221T010203Z"
Question = tuple[str | None, dict[str, Any]]
OLD_JOURNALS = Path(__file__).parent / "journals"


class Heard:
    """What the cluster was asked in check mode and for real: by part, whom with which variables, and the answers."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.asked: dict[bool, dict[str, Question]] = {True: {}, False: {}}
        self.answers: dict[bool, dict[str, dict[str, list[str]]]] = {True: {}, False: {}}

    def run(self, invocation: Invocation, **callbacks: object) -> RunResult:
        result = self.cluster.run(invocation, **callbacks)
        part = str(invocation.variables["gpuadmin_phase"])
        variables = {
            name: one for name, one in invocation.variables.items() if name != "gpuadmin_run_id"
        }  # each has its own
        self.asked[invocation.check][part] = invocation.limit, variables
        self.answers[invocation.check][part] = {name: host.changed for name, host in result.hosts.items()}
        return result


@pytest.fixture
def heard(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Heard:
    """A cluster with something for each phase to do, and backups that have the same name whenever they are made."""
    heard = Heard(cluster)
    monkeypatch.setattr("gpuadmin.ansible.runner.run", heard.run)
    monkeypatch.setattr("gpuadmin.actions.semester.reset._new_backup", lambda term: MADE)
    cluster.processes["node1"] = {"minji": 2, "seo": 1}
    cluster.storage.home(COPY, 20000, {"draft": b"12345"})
    old = cluster.storage.backup(OLD, verify=[])
    document = cluster.storage.directory / old.name / "backup.json"
    document.write_text(re.sub(r'"created": "[^"]+"', '"created": "2020-01-01T00:00:00Z"', document.read_text()))
    return heard


@pytest.mark.holds("a phase in check mode changes nothing on hosts")
def test_a_check_asks_what_the_run_asks(cluster: Cluster, cli: Cli, heard: Heard) -> None:
    before = cluster.picture()
    out = succeed(cli, "semester-reset", "--check", "--json")
    assert cluster.picture() == before
    phases = json.loads(out)["result"]["phases"]
    assert {name: phases[name]["foreseen"] for name in PHASES} == {ANNOUNCE: {}, **heard.answers[True]}
    succeed(cli, *ALL)
    predicted, done = heard.asked[True], heard.asked[False]
    assert set(predicted) == {LOCK, END_SESSIONS, BACKUP, WIPE, PRUNE, REOPEN}
    for part in (LOCK, END_SESSIONS, BACKUP, REOPEN):
        assert predicted[part] == done[part], part
        if part != REOPEN:  # an account that was locked before has more to remove
            assert heard.answers[True][part] == heard.answers[False][part], part
    assert done[BACKUP][1]["gpuadmin_backup"]["users"] == ["minji", COPY, "jiho"]
    # no host can say what of a home goes before its backup is there: nodes are asked for the rest
    assert predicted[WIPE][0] == "node1,node2"
    wanted = done[WIPE][1]["gpuadmin_term"]
    assert predicted[WIPE][1]["gpuadmin_term"] == {**wanted, "wipe": []}


def test_a_check_asks_for_homes_when_their_backup_is_there(cluster: Cluster, cli: Cli, heard: Heard) -> None:
    for phase in PHASES[: PHASES.index(BACKUP) + 1]:
        assert cli("semester-reset", "--phase", phase, "--yes")[0] == 0
    before, written = cluster.picture(), (cluster.site / "runs/term-2026-2/journal.jsonl").read_bytes()
    succeed(cli, "semester-reset", "--check", "--phase", WIPE)
    assert cluster.picture() == before
    assert (cluster.site / "runs/term-2026-2/journal.jsonl").read_bytes() == written
    succeed(cli, *ALL, "--resume")
    assert heard.asked[True][WIPE] == heard.asked[False][WIPE]
    assert heard.answers[True][WIPE] == heard.answers[False][WIPE]
    assert {one["name"] for one in heard.asked[False][WIPE][1]["gpuadmin_term"]["wipe"]} == {"minji", "jiho", COPY}


@pytest.mark.holds("only backups that were shown are named to be deleted")
def test_only_those_backups_are_deleted_that_were_shown(cluster: Cluster, cli: Cli, heard: Heard) -> None:
    phase = json.loads(succeed(cli, *ALL))["result"]["phases"][PRUNE]
    assert [step["action"] for step in phase["plan"]["steps"]] == [f"delete the backup {OLD}"]
    assert heard.asked[False][PRUNE][0] == "storage1"
    assert heard.asked[False][PRUNE][1]["gpuadmin_backup"] == {"only": {"storage1": [OLD]}}
    assert phase["result"]["deleted"] == {"storage1": [OLD]}
    asked = [one for one in cluster.asked if one.variables["gpuadmin_phase"] == PRUNE]
    assert [one.check for one in asked] == [True, False], "hosts are asked once which are old"


@pytest.mark.holds("a check of a reset in which a host failed does not end well")
def test_a_check_in_which_a_host_fails(cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is shown is not what the run would do: a script must not take the check for a good one."""

    def fail(*_: object) -> None:
        raise NodeError("no")

    monkeypatch.setattr(cluster, "_wipe", fail)
    code, out, err = cli("semester-reset", "--check", "--json")
    assert (code, json.loads(out)["status"]) == (3, "failed")
    assert "wipe: node1: no" in err


def test_a_check_says_that_the_day_has_not_come(cluster: Cluster, cli: Cli) -> None:
    settings = cluster.site / "gpuadmin.yml"
    settings.write_text(settings.read_text().replace("2026-01-31", "2098-01-31"))
    note = "2026-2 ends on 2098-01-31; lock waits for that day"
    assert note in succeed(cli, "semester-reset", "--check")
    assert note not in cli("semester-reset", "--check", "--early")[1]


@pytest.mark.holds("a phase in check mode writes nothing on this machine")
@pytest.mark.parametrize("how", ["extended", "aborted"])
def test_a_check_of_letting_people_in_again(cluster: Cluster, cli: Cli, heard: Heard, how: str) -> None:
    for phase in (ANNOUNCE, LOCK):
        assert cli("semester-reset", "--phase", phase, "--yes")[0] == 0
    users = cluster.site / "users.yml"
    if how == "extended":
        users.write_text(users.read_text().replace("{name: jiho, uid: 20001", "{name: jiho, uid: 20001, stays: 2026-2"))
    options = ["--phase", END_SESSIONS] if how == "extended" else ["--abort"]
    text = users.read_text()
    out = succeed(cli, "semester-reset", "--check", "--json", *options)
    assert users.read_text() == text
    assert cluster.locked == {"minji", "jiho"}
    again = {"jiho"} if how == "extended" else {"minji", "jiho"}
    phases = json.loads(out)["result"]["phases"]
    predicted = phases["release" if how == "extended" else "abort"]["foreseen"]
    assert predicted == heard.answers[True]["unlock"]
    assert set(predicted) == {"storage1", "node1", "node2"}
    succeed(cli, "semester-reset", "--yes", *options)
    assert cluster.locked == {"minji", "jiho"} - again
    assert heard.asked[True]["unlock"] == heard.asked[False]["unlock"]
    assert heard.answers[True]["unlock"] == heard.answers[False]["unlock"]


class Playing:
    """A reset as the phase `backup` sees it, with a host of the group `backup`; `bad`: the parts that fail there."""

    def __init__(self, *bad: str, leave_pending: bool = False) -> None:
        self.bad, self.played = bad, list[str]()
        self.decision = SimpleNamespace(backup=MADE, going=())
        self.request = Request(leave_pending=leave_pending)

    def named(self, *groups: str) -> list[str]:
        return [{"storage": "storage1", "backup": "backup1"}[group] for group in groups]

    def play(self, part: str, **_given: Any) -> RunResult:
        self.played.append(part)
        return RunResult({"storage1": HostResult("failed" if part in self.bad else "ok", message="is full")})


@pytest.mark.holds(
    "what is out of sight and not deleted yet is named again", "what is out of sight is somebody's by the whole name"
)
def test_what_is_out_of_sight_is_somebodys_by_the_whole_name() -> None:
    facts = SimpleNamespace(waiting=lambda: [f"{MADE}/{name}" for name in ("minji", COPY, "minji2")] + [f"{OLD}/minji"])
    reset: Any = SimpleNamespace(decision=SimpleNamespace(backup=MADE), facts=facts)
    assert Wipe(reset)._waiting("minji") == ["minji", COPY]
    assert Wipe(reset)._waiting("min") == []


@pytest.mark.holds("a backup that failed is not copied")
def test_a_backup_that_failed_is_not_copied_and_ends_the_reset() -> None:
    reset: Any = Playing("backup", leave_pending=True)
    assert Backup(reset).run(check=False).code == ExitCode.HOST_FAILED
    assert reset.played == ["backup"]


@pytest.mark.holds("a check copies no backup", "a second copy that failed is pending")
def test_a_second_copy_that_failed_is_pending() -> None:
    reset: Any = Playing("copy")
    outcome = Backup(reset).run(check=False)
    assert (outcome.code, outcome.pending) == (ExitCode.HOST_FAILED, {"storage1": "is full"})
    reset = Playing("copy", leave_pending=True)
    outcome = Backup(reset).run(check=False)
    assert (outcome.code, outcome.pending) == (ExitCode.DONE, {"storage1": "is full"})
    reset = Playing()
    assert Backup(reset).run(check=True).code == ExitCode.DONE
    assert reset.played == ["backup"], "what is to be copied is not there in a check"


def wiped(name: str, uid: int) -> SimpleNamespace:
    return SimpleNamespace(name=name, uid=uid, directories=(name,))


@pytest.mark.holds("accounts of a directory are not removed", "whose home was kept keeps the account on hosts")
def test_whose_home_was_kept_keeps_the_account_on_hosts_too() -> None:
    reset: Any = SimpleNamespace(
        state=State(done={WIPE: {"kept": {"jiho": "was given away"}}}),
        decision=SimpleNamespace(leaving=[wiped("minji", 20000), wiped("jiho", 20001)]), by_registry=True,
        named=lambda *_groups: ["node1"],
    )  # fmt: skip
    assert Reopen(reset).variables(check=False) == {"gpuadmin_absent": [{"name": "minji", "uid": 20000}]}
    assert Reopen(reset).hosts(check=False) == ["node1"]
    reset.by_registry = False
    assert Reopen(reset).hosts(check=False) == [], "accounts of a directory are not ours to remove"


@pytest.mark.holds("a home that a host has not wiped is kept")
def test_a_home_that_a_host_has_not_wiped_is_kept() -> None:
    reset: Any = SimpleNamespace(
        decision=SimpleNamespace(backup=MADE, leaving=[wiped("minji", 20000)]), named=lambda *_groups: [],
        facts=SimpleNamespace(backups=list, waiting=list, hosts={}), state=SimpleNamespace(pending={}),
        request=Request(leave_pending=True),
    )  # fmt: skip
    homes = {"homes": {"minji": {"problem": "was given away"}}}
    outcome = Wipe(reset).result(RunResult({"storage1": HostResult("failed", reports=homes)}))
    assert outcome.result["kept"] == {"minji": "was given away"}


@pytest.mark.holds("a wipe is refused where homes are not known")
def test_a_wipe_is_refused_where_homes_are_not_known() -> None:
    reset: Any = SimpleNamespace(look=lambda: None, facts=SimpleNamespace(homes_unknown="storage1 does not answer"))
    with pytest.raises(UnreachableError, match="storage1 does not answer; nothing is done"):
        Wipe(reset).require()


@pytest.mark.holds("a host that did not say which backups are old is pending")
def test_a_host_that_did_not_say_which_backups_are_old_is_pending() -> None:
    reset: Any = SimpleNamespace(named=lambda *_groups: ["storage1"], request=Request(leave_pending=True))
    prune = Prune(reset)
    prune.predicted = Outcome(hosts={"storage1": HostResult("unreachable", message="is away")})
    assert prune.hosts(check=False) == []
    assert prune.result(RunResult({})).pending == {"storage1": "is away"}


@pytest.mark.holds("a uid that is not a person's is told to no host")
def test_a_uid_that_is_not_a_person_s_is_told_to_no_host() -> None:
    assert [one["name"] for one in persons({"minji": 20000, "root": 0, "postgres": 999}, SETTINGS)] == ["minji"]


def old(name: str) -> list[str]:
    """The lines of a journal that the version before phases were objects wrote."""
    return (OLD_JOURNALS / f"{name}.jsonl").read_text().splitlines(keepends=True)


@pytest.mark.parametrize("lines", range(1, 12))
def test_a_reset_that_an_older_version_began_is_gone_on_with(cluster: Cluster, cli: Cli, lines: int) -> None:
    """Up to where the hosts themselves would have to be as that version left them: the end of sessions."""
    journal = Journal(cluster.site / "runs", "2026-2")
    journal.directory.mkdir(parents=True)
    journal.path.write_text("".join(old("pending")[:lines]))
    before = journal.state()
    assert before.open
    succeed(cli, *ALL, "--resume")
    assert journal.state().finished
    assert "".join(old("pending")[:lines]) == "".join(journal.path.read_text().splitlines(keepends=True)[:lines])
    picture = cluster.picture()
    assert sorted(picture["homes"]) == ["seo", "stranger", "yuna"]
    assert picture["gone"] == ["jiho", "minji"]
    assert picture["term"] == "2027-1"
