"""A reset from its command line to the homes on a btrfs: undisturbed, and cut at every entry of its journal."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import date, datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.accounts import requests as accounts
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.config.load import load_settings
from gpuadmin.config.registry import RegistryFile
from gpuadmin.errors import ConfigError
from gpuadmin.mail.ledger import Ledger
from gpuadmin.plan import Plan
from gpuadmin.rehearsed import VARIABLE
from gpuadmin.results import RunResult
from gpuadmin.semester.journal import Journal
from gpuadmin.semester.machine import PHASES
from tests.support.semester_cluster import Cluster
from tests.support.verbs import fail, succeed

pytestmark = pytest.mark.btrfs
Cli = Callable[..., tuple[int, str, str]]
ENTRIES = 16  # of an undisturbed reset
ALL = ("semester-reset", "--yes", "--term", "2026-2", "--json")


def journal(cluster: Cluster) -> Journal:
    return Journal(cluster.site / "runs", "2026-2")


@pytest.mark.holds("a phase is in the journal before it begins")
def test_a_whole_reset(cluster: Cluster, cli: Cli) -> None:
    document = json.loads(succeed(cli, *ALL))
    report = document["result"]["report"]
    assert [one["name"] for one in report["leaving"]] == ["minji", "jiho"]
    assert {one["home"] for one in report["leaving"]} == {"wiped"}
    assert report["staying"] == {"seo": "extended beyond 2026-2", "yuna": "protected"}
    assert "nobody in users.yml" in report["kept"]["stranger"]
    assert report["bytes_freed"] == 2 * (5000 + 5) - 1 + report["scratch"]["node1"]["bytes"] * 2
    assert set(report["phases"].values()) == {"done"}
    picture = cluster.picture()
    assert sorted(picture["homes"]) == ["seo", "stranger", "yuna"]
    assert picture["docker"] == {"node1": ["seo", "yuna"], "node2": ["seo", "yuna"]}
    assert picture["gone"] == ["jiho", "minji"]
    assert "  # leaves" not in picture["users"]
    assert picture["term"] == "2027-1"
    settings = (cluster.site / "gpuadmin.yml").read_text()
    assert ("# now" in settings, "2025-09-01" in settings) == (True, False), "the day on which the earlier term began"
    folder = cluster.site / "runs/term-2026-2"
    page = (folder / "report.html").read_text()
    assert page.count("<td>wiped") == 2
    entries = journal(cluster).entries()
    assert (report["cluster"], report["begun"], report["who"]) == ("test", entries[0]["at"], [entries[0]["who"]])
    assert "<h1>test: end of 2026-2</h1>" in page
    assert f"Begun {entries[0]['at'][:10]} " in page
    assert f", by {entries[0]['who']}</p>" in page
    assert json.loads((folder / "report.json").read_text())["phases"]["wipe"] == "done"
    assert folder.stat().st_mode & 0o077 == 0
    # its journal is in phases, each begun before it is done
    events = [(entry["event"], entry.get("phase")) for entry in journal(cluster).entries()]
    assert events[0] == ("decided", None)
    assert [phase for event, phase in events if event == "done"] == list(PHASES)
    assert len(events) == ENTRIES


def test_what_restores_made_beside_homes_goes_with_them(cluster: Cluster, cli: Cli) -> None:
    copy, theirs, kept = (f"{name}-20261221T010203Z" for name in ("minji.restored", "seo.restored", "jiho.before"))
    cluster.storage.home(copy, 20000, {"draft": b"12345"})
    cluster.storage.home(theirs, 20002)
    cluster.storage.home(kept, 20003)
    report = json.loads(succeed(cli, *ALL))["result"]["report"]
    assert [(one["name"], one["home"]) for one in report["leaving"]] == [
        ("minji", "wiped"), (copy, "wiped"), ("jiho", "wiped"),
    ]  # fmt: skip
    assert sorted(cluster.picture()["homes"]) == [kept, "seo", theirs, "stranger", "yuna"]
    assert [one["of"] for one in report["leaving"]] == ["minji", "minji", "jiho"], "and a copy is nobody by itself"
    page = (cluster.site / "runs/term-2026-2/report.html").read_text()
    assert f"<td>minji, beside the home: {copy}<td" in page
    assert "belongs to uid 20003, not to jiho" in report["kept"][kept]
    assert "seo's, who stays" in report["kept"][theirs]
    saved = cluster.storage.directory / report["backup"]["name"] / "homes" / copy / "draft"
    assert saved.read_bytes() == b"12345"


@pytest.mark.holds("a reset in check mode writes nothing")
def test_check_says_what_the_reset_then_does(cluster: Cluster, cli: Cli) -> None:
    before = cluster.picture()
    cluster.processes["node1"] = {"minji": 2, "seo": 1}
    out = succeed(cli, "semester-reset", "--check", "--json")
    assert cluster.picture() == before
    assert not journal(cluster).path.exists()
    planned = json.loads(out)["result"]["phases"]
    out = succeed(cli, *ALL)
    done = json.loads(out)["result"]["phases"]
    names = json.loads(out)["result"]["decision"]["backup"], "BACKUP"

    def steps(phases: dict[str, Any], phase: str) -> list[Any]:
        text = json.dumps(phases[phase]["plan"]["steps"])
        return list(json.loads(re.sub(r"\d{8}T\d{6}Z", "STAMP", text.replace(*names))))

    for phase in PHASES:
        predicted = [step for step in steps(planned, phase) if "retire" not in step["action"]]
        happened = [step for step in steps(done, phase) if "retire" not in step["action"]]
        if phase != "wipe":  # there the name of the backup is another
            assert predicted == happened, phase
    assert [step["action"].partition(";")[0] for step in steps(planned, "wipe")] == [
        step["action"].partition(";")[0] for step in steps(done, "wipe")
    ]
    assert {"host": "node1", "action": "minji: end 2 processes"} in steps(planned, "end-sessions")


class Cut(BaseException):
    """The controller's power."""


@pytest.mark.parametrize("moment", ["before", "after", "torn"])
@pytest.mark.parametrize("number", range(ENTRIES))
def test_cut_at_every_entry_of_the_journal(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch, number: int, moment: str
) -> None:
    """Whenever the controller dies, running again ends in the state of an undisturbed run."""
    real, count = Journal.write, [0]

    def write(self: Journal, event: str, **more: Any) -> None:
        count[0] += 1
        if count[0] - 1 != number:
            return real(self, event, **more)
        if moment == "after":
            real(self, event, **more)
        if moment == "torn":
            self.directory.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab") as stream:
                stream.write(b'{"at": "2026-12')
        raise Cut

    monkeypatch.setattr(Journal, "write", write)
    cut = False
    try:
        cli(*ALL)
    except Cut:
        cut = True
    monkeypatch.setattr(Journal, "write", real)
    assert cut
    protected = {name: cluster.picture()["homes"][name] for name in ("seo", "yuna", "stranger")}
    assert all("thesis" in files for _uid, files in protected.values())
    succeed(cli, *ALL, *(["--resume"] if journal(cluster).state().open else []))
    check_end(cluster)


def check_end(cluster: Cluster) -> None:
    """The state that an undisturbed reset ends in."""
    picture = cluster.picture()
    assert picture["homes"] == {
        "seo": (20002, ["data", "data/set", "thesis"]),
        "stranger": (29999, ["thesis"]),
        "yuna": (20003, ["data", "data/set", "thesis"]),
    }
    assert picture["docker"] == {"node1": ["seo", "yuna"], "node2": ["seo", "yuna"]}
    assert picture["gone"] == ["jiho", "minji"]
    assert picture["term"] == "2027-1"
    backup = cluster.storage.directory
    (name,) = [path.name for path in backup.iterdir()]
    for person in ("minji", "jiho"):
        assert (backup / name / "homes" / person / "thesis").read_bytes() == person.encode()


def fingerprint(cluster: Cluster, host: str) -> dict[str, Any]:
    """What a phase may change on one host."""
    storage = cluster.picture()["homes"], sorted(path.name for path in cluster.storage.directory.glob("*"))
    return {
        "shadow": cluster.entries(host, "shadow"), "running": dict(cluster.processes.get(host, {})),
        "data": storage if host == "storage1" else sorted(path.name for path in cluster.docker(host).iterdir()),
    }  # fmt: skip


@pytest.mark.parametrize("begun", [False, True], ids=["before any host", "after the first host"])
@pytest.mark.parametrize("phase", ["lock", "end-sessions", "backup", "wipe", "prune", "reopen"])
def test_cut_in_the_middle_of_a_phase(cluster: Cluster, cli: Cli, phase: str, begun: bool) -> None:
    """The controller dies when no host, or when one of them has done its part and no other one has."""
    hosts = ("storage1", "node1", "node2")
    for host in hosts:
        cluster.processes[host] = {"minji": 1}
    old = cluster.storage.backup("20200101T000000Z-reset-2019-2", verify=[])  # something to prune
    document = cluster.storage.directory / old.name / "backup.json"
    document.write_text(re.sub(r'"created": "[^"]+"', '"created": "2020-01-01T00:00:00Z"', document.read_text()))
    seen: dict[str, dict[str, Any]] = {}
    reached: list[str] = []

    def before(now: str, check: bool) -> None:
        if now == phase and not check:
            seen.update({host: fingerprint(cluster, host) for host in hosts})
            if not begun:
                raise Cut

    def after(now: str, host: str, check: bool) -> None:
        if now == phase and not check:
            reached.append(host)
            raise Cut

    cluster.before_run, cluster.after_host = before, after
    with pytest.raises(Cut):
        cli(*ALL)
    changed = [host for host in hosts if fingerprint(cluster, host) != seen[host]]
    assert changed == reached
    assert len(changed) == int(begun)
    cluster.before_run, cluster.after_host = lambda *_: None, lambda *_: None
    assert journal(cluster).state().open
    succeed(cli, *ALL, "--resume")
    check_end(cluster)
    assert not any(cluster.processes.values())


def test_a_node_that_is_away_holds_up_what_it_holds(cluster: Cluster, cli: Cli) -> None:
    cluster.away = {"node2"}
    assert "lock: node2" in fail(cli, 4, *ALL)
    assert sorted(cluster.picture()["homes"]) == ["jiho", "minji", "seo", "stranger", "yuna"]
    succeed(cli, *ALL, "--resume", "--leave-pending")
    picture = cluster.picture()
    assert sorted(picture["homes"]) == ["seo", "stranger", "yuna"]
    assert picture["docker"] == {"node1": ["seo", "yuna"], "node2": ["jiho", "minji", "seo", "yuna"]}
    assert picture["gone"] == []
    report = json.loads((cluster.site / "runs/term-2026-2/report.json").read_text())
    assert report["pending"]["wipe"] == {"node2": "was not reachable, or its sessions had not ended"}
    # it comes back
    cluster.away = set()
    succeed(cli, *ALL, "--resume")
    check_end(cluster)


def test_a_storage_host_that_is_away(cluster: Cluster, cli: Cli) -> None:
    cluster.away = {"storage1"}
    code, _out, _err = cli(*ALL, "--leave-pending")
    assert code != 0
    cluster.away = set()
    succeed(cli, *ALL, "--resume")
    check_end(cluster)


@pytest.mark.holds("a backup is not made where homes are not known")
def test_what_a_storage_host_that_is_away_has_is_not_known(cluster: Cluster, cli: Cli) -> None:
    cluster.away = {"storage1"}
    code, out, err = cli("semester-reset", "--check")
    assert code == 4, err
    assert "minji (uid 20000), whether there is a home is not known" in out
    assert "no home to wipe" not in out
    assert "storage1: which of its backups are old is not known" in out
    err = fail(cli, 4, *ALL, "--leave-pending")
    assert "backup: which homes and backups there are is not known: storage1 (does not answer (timed out))" in err
    assert "backup" not in journal(cluster).state().begun


@pytest.mark.holds("a damaged entry of the journal stops")
def test_a_damaged_journal_stops_everything(cluster: Cluster, cli: Cli) -> None:
    journal(cluster).write("begin", phase="announce")
    for line in ('{"event": "done", "phase": "wipe"}', "[]", '{"event": "decided", "decision": {}}', "{}", "\0"):
        journal(cluster).path.write_text(f"{line}\n")
        code, _out, err = cli(*ALL)
        assert code == 2, line
        assert "journal.jsonl:1: is damaged; nothing is done" in err
    assert cluster.asked == []


@pytest.mark.holds("before a wipe it is asked who runs something", "before a wipe the hosts are looked at again")
def test_who_still_runs_something_is_not_wiped(cluster: Cluster, cli: Cli) -> None:
    def start(now: str) -> None:
        if now == "backup":
            cluster.processes["node2"] = {"jiho": 1}

    cluster.before_phase = start
    assert "node2: jiho still run something" in fail(cli, 5, *ALL)
    assert "jiho" in cluster.picture()["homes"]


def test_somebody_is_extended_after_it_began(cluster: Cluster, cli: Cli) -> None:
    succeed(cli, "semester-reset", "--phase", "announce", "--yes")
    succeed(cli, "semester-reset", "--phase", "lock", "--yes")
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("{name: jiho, uid: 20001", "{name: jiho, uid: 20001, stays: 2026-2"))
    succeed(cli, *ALL, "--resume")
    assert "jiho" in cluster.picture()["homes"]
    assert cluster.picture()["gone"] == ["minji"]
    # and can log in again
    assert "locked" not in users.read_text()
    assert "jiho" not in cluster.locked


def test_abort_before_and_after_wipe(cluster: Cluster, cli: Cli) -> None:
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("{name: jiho, uid: 20001", "{name: jiho, uid: 20001, locked: true"))
    for phase in ("announce", "lock", "end-sessions", "backup"):
        succeed(cli, "semester-reset", "--phase", phase, "--yes")
    assert cluster.locked == {"minji", "jiho"}
    succeed(cli, "semester-reset", "--abort", "--yes")
    assert cluster.locked == {"jiho"}
    assert users.read_text().count("locked: true") == 1
    succeed(cli, *ALL)
    code, _out, _err = cli("semester-reset", "--abort", "--yes", "--term", "2026-2")
    assert code != 0


def test_a_phase_that_was_taken_back_is_done_again(cluster: Cluster, cli: Cli) -> None:
    """Nobody is locked out any more, so nothing is backed up as if they were."""
    for phase in ("announce", "lock", "end-sessions"):
        assert cli("semester-reset", "--phase", phase, "--yes")[0] == 0
    assert cli("semester-reset", "--abort", "--yes")[0] == 0
    before = journal(cluster).entries()
    err = fail(cli, 5, "semester-reset", "--phase", "backup", "--yes")
    assert "announce comes before it" in err
    assert "--resume" not in err, "there is nothing to resume"
    assert journal(cluster).entries() == before
    # who is locked by the admin afterwards is not let in, by a look at the next reset
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("uid: 20001", "uid: 20001, locked: true, stays: 2026-2"))
    assert "release" not in json.loads(succeed(cli, "semester-reset", "--check", "--json"))["result"]["phases"]


REFUSED: dict[str, tuple[list[str], str, str]] = {
    "wipe without its phases": (["--phase", "wipe", "--yes", "--term", "2026-2"], "announce comes before it", ""),
    "yes alone": (["--yes"], "wipe is not confirmed by --yes alone", ""),
    "another term": (["--term", "2025-1", "--yes"], "the running term is 2026-2", ""),
    "a slip in --keep": (["--keep", "minjy", "--yes", "--term", "2026-2"], "did you mean 'minji'?", ""),
    "too early": (["--yes", "--term", "2026-2"], "ends on 2099-01-31", "2026-01-31>2099-01-31"),
    "resume of nothing": (["--resume", "--yes"], "no reset of 2026-2 is under way here", ""),
    "limit": (["--limit", "node1", "--yes"], "all hosts at once", ""),
    "no terminal": ([], "no terminal", ""),
}


@pytest.mark.holds(
    "--limit is refused",
    "--yes alone wipes nothing",
    "a phase needs those before it",
    "nobody is locked out before the last day",
    "what is known to refuse a reset refuses it before anything is done",
)
@pytest.mark.parametrize(("arguments", "words", "edit"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(cluster: Cluster, cli: Cli, arguments: list[str], words: str, edit: str) -> None:
    if edit:
        path = cluster.site / "gpuadmin.yml"
        path.write_text(path.read_text().replace(*edit.split(">")))
    before = cluster.picture()
    code, _out, err = cli("semester-reset", *arguments)
    assert code == 2 if "--keep" in arguments else code in (2, 5), err
    assert words in err
    assert cluster.picture() == before
    # refused before anything was done, so nothing was begun that would have to go on
    assert not list((cluster.site / "runs").glob("term-*"))
    assert cluster.locked == set()
    assert not Ledger.of(cluster.site).path.exists()


@pytest.mark.holds("what is known to refuse a reset refuses it before anything is done")
def test_what_was_refused_as_too_early_is_not_begun(cluster: Cluster, cli: Cli) -> None:
    path = cluster.site / "gpuadmin.yml"
    path.write_text(path.read_text().replace("2026-01-31", "2099-01-31"))
    assert cli(*ALL)[0] == 5
    succeed(cli, *ALL, "--early")


@pytest.mark.holds("nobody is locked out where no backup can be")
def test_homes_that_have_no_snapshots_lock_nobody_out(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(path: str) -> str:
        raise NodeError(f"{path} is not on btrfs")

    people = (cluster.site / "users.yml").read_text()
    with monkeypatch.context() as patched:
        patched.setattr(btrfs, "holder", none)
        assert "is not on btrfs" in fail(cli, 5, *ALL)
        assert not journal(cluster).state().begun
        assert "is not on btrfs" in "".join(cli("semester-reset", "--check")[1:])
        succeed(cli, *ALL, "--phase", "announce")
        assert "is not on btrfs" in fail(cli, 5, *ALL, "--phase", "lock")
        assert (cluster.site / "users.yml").read_text() == people
    succeed(cli, *ALL, "--resume")


@pytest.mark.parametrize("phase", ["lock", "end-sessions", "wipe"])
def test_a_reset_that_was_begun_early_goes_on_by_resume(cluster: Cluster, cli: Cli, phase: str) -> None:
    """People are locked out, and the hint of whatever interrupted it names nothing else."""
    path = cluster.site / "gpuadmin.yml"
    path.write_text(path.read_text().replace("2026-01-31", "2099-01-31"))

    def cut(now: str) -> None:
        if now == phase:
            raise Cut

    cluster.before_phase = cut
    with pytest.raises(Cut):
        cli(*ALL, "--early")
    cluster.before_phase = lambda now: None
    succeed(cli, *ALL, "--resume")
    assert journal(cluster).state().finished


def test_one_that_was_taken_back_is_not_begun_early_again(cluster: Cluster, cli: Cli) -> None:
    path = cluster.site / "gpuadmin.yml"
    path.write_text(path.read_text().replace("2026-01-31", "2099-01-31"))
    for name in ("announce", "lock"):
        assert cli("semester-reset", "--phase", name, "--early", "--yes")[0] == 0
    assert cli("semester-reset", "--abort", "--yes")[0] == 0
    assert "ends on 2099-01-31" in fail(cli, 5, *ALL)


@pytest.mark.parametrize(("part", "hint"), [("facts", "run it again"), ("lock", "semester-reset --resume")])
def test_the_hint_of_an_interruption_is_a_command_that_works(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch, part: str, hint: str
) -> None:
    """Nothing is under way yet that could be resumed, while a first run looks at the hosts."""
    run = cluster.run

    def interrupted(invocation: Invocation, **callbacks: object) -> RunResult:
        found = run(invocation, **callbacks)
        return replace(found, interrupted=invocation.variables["gpuadmin_phase"] == part and not invocation.check)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", interrupted)
    assert hint in fail(cli, 130, *ALL)


def test_a_letter_that_cannot_be_written_stops_the_reset_before_anybody_is_mailed(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_given: object) -> None:
        raise ConfigError("templates/mail/closing.en.j2: unexpected end")

    monkeypatch.setattr("gpuadmin.actions.semester.closing.Closing.of", broken)
    fail(cli, 2, *ALL)
    assert not list((cluster.site / "runs").glob("term-*"))


@pytest.mark.holds("the term's name is typed before a wipe")
@pytest.mark.parametrize(("typed", "code"), [("2026-2", 0), ("2026-1", 5), ("", 5), ("yes", 5)])
def test_wipe_is_confirmed_by_typing_the_term(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("click.confirm", lambda text, **_more: asked.append(text) or True)
    monkeypatch.setattr("click.prompt", lambda text, **_more: asked.append(text) or typed)
    found, _out, err = cli("semester-reset")
    assert found == code, err
    assert "This wipes 2 homes. Type the term's name (2026-2)" in asked[-1 if code else 3]
    assert ("minji" in cluster.picture()["homes"]) == bool(code)


@pytest.mark.holds("a no does not deny what was done before")
def test_a_no_to_a_later_phase_does_not_say_that_nothing_was_changed(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = iter([True, True, False])
    monkeypatch.setattr("gpuadmin.session.Session.require_confirmation_possible", lambda session: None)
    monkeypatch.setattr("click.confirm", lambda text, **_more: next(said))
    err = fail(cli, 5, "semester-reset")
    assert cluster.locked
    assert "nothing was changed" not in err


def test_its_record_is_a_run_s(cluster: Cluster, cli: Cli) -> None:
    cli(*ALL)
    succeed(cli, "runs", "--json")
    (run,) = (cluster.site / "runs").glob("*-semester-reset-*")
    assert "home minji (uid 20000); 2 files, 5.0 kB, in 2" in succeed(cli, "runs", run.name)


def cut_and_extend_jiho(cluster: Cluster, cli: Cli, phase: str) -> None:
    """A reset loses its power before a phase; then users.yml says that jiho stays."""

    def cut(now: str) -> None:
        if now == phase:
            raise Cut

    cluster.before_phase = cut
    with pytest.raises(Cut):
        cli(*ALL)
    cluster.before_phase = lambda now: None
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("{name: jiho, uid: 20001", "{name: jiho, uid: 20001, stays: 2026-2"))


@pytest.mark.holds("who was extended meanwhile stays")
def test_extended_while_the_wipe_is_under_way(cluster: Cluster, cli: Cli) -> None:
    """Whose home is still there may stay, even if the wipe has begun."""
    cut_and_extend_jiho(cluster, cli, "wipe")
    succeed(cli, *ALL, "--resume")
    assert sorted(cluster.picture()["homes"]) == ["jiho", "seo", "stranger", "yuna"]


@pytest.mark.holds("for whom it is too late to stay is not guessed")
def test_extended_after_the_wipe_while_the_storage_host_is_away(cluster: Cluster, cli: Cli) -> None:
    """Whose home may be gone is not let in to none, nor left out of what a resume still has to do for them."""
    cut_and_extend_jiho(cluster, cli, "prune")
    cluster.away, lines = {"storage1"}, journal(cluster).path.read_bytes()
    err = fail(cli, 4, *ALL, "--resume", "--leave-pending")
    assert "semester-reset: which homes and backups there are is not known" in err
    assert (cluster.locked, journal(cluster).path.read_bytes()) == ({"minji", "jiho"}, lines)
    cluster.away = set()
    succeed(cli, *ALL, "--resume")
    check_end(cluster)


@pytest.mark.holds("a reset that was begun is not begun again")
def test_begun_and_not_resumed(cluster: Cluster, cli: Cli) -> None:
    cli("semester-reset", "--phase", "announce", "--yes")
    assert "next is lock" in fail(cli, 5, *ALL)


@pytest.mark.holds("a reset that was rehearsed is the one that is done")
def test_a_reset_that_was_not_rehearsed_so_is_not_begun(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rehearsed = tmp_path / "plan.json"
    rehearsed.write_text(json.dumps(Plan("End of 2026-2").document()))  # in which nobody leaves
    monkeypatch.setenv(VARIABLE, str(rehearsed))
    before = cluster.picture()
    assert "this is not what was rehearsed" in fail(cli, 5, *ALL)
    assert (cluster.picture(), cluster.locked, journal(cluster).path.exists()) == (before, set(), False)


@pytest.mark.holds("a check begins no term")
def test_a_check_of_a_reset_that_is_done_begins_no_term(cluster: Cluster, cli: Cli) -> None:
    """As after a cut between the report and the next term."""
    path = cluster.site / "gpuadmin.yml"
    before = path.read_text()
    assert cli(*ALL)[0] == 0
    after = path.read_text()
    path.write_text(before)
    code, out, err = cli("semester-reset", "--check")
    assert (code, path.read_text()) == (0, before), err
    assert "The reset of 2026-2 is done" in out
    assert cli("semester-reset", "--yes", "--term", "2026-2")[0] == 0
    assert path.read_text() == after


@pytest.mark.holds("a reset does not go on from another term's journal")
@pytest.mark.parametrize(
    "options", [["--resume"], ["--phase", "lock"], ["--abort"], ["--check"]], ids=lambda one: one[0]
)
def test_another_term_whose_directory_has_the_same_name(cluster: Cluster, cli: Cli, options: list[str]) -> None:
    """Its people were decided for another day, and some may be back."""
    assert cli("semester-reset", "--phase", "announce", "--yes")[0] == 0
    path = cluster.site / "gpuadmin.yml"
    path.write_text(path.read_text().replace("name: 2026-2\n", "name: 2026 2\n"))
    before, lines = cluster.picture(), journal(cluster).path.read_bytes()
    assert "belongs to 2026-2" in fail(cli, 2, "semester-reset", "--yes", "--term", "2026 2", *options)
    assert (cluster.picture(), journal(cluster).path.read_bytes()) == (before, lines)


def test_a_home_that_changed_hands_stays(cluster: Cluster, cli: Cli) -> None:
    def swap(now: str) -> None:
        home = cluster.storage.root / "minji"
        if now == "wipe" and home.exists():
            home.rename(cluster.storage.root / "moved")
            cluster.storage.home("minji", 20000, {"new": b"1"})

    cluster.before_phase = swap
    assert "another directory than the one that was backed up" in fail(cli, 3, *ALL)
    assert (cluster.storage.root / "minji/new").exists()
    assert (cluster.storage.root / "moved/thesis").exists()
    assert "jiho" not in cluster.picture()["homes"]


@pytest.mark.holds("a check of a reset sends no mail")
def test_a_check_sends_no_mail(cluster: Cluster, cli: Cli, tmp_path: Path) -> None:
    path, mails = cluster.site / "gpuadmin.yml", tmp_path / "mails"
    text = path.read_text().replace("2026-01-31", f"{date.today() + timedelta(days=3)}")
    path.write_text(text + "mail: {host: smtp.example.org, sender: gpu@example.org}\n")
    succeed(cli, "semester-reset", "--check", "--mail-dir", str(mails))
    assert not mails.exists()
    succeed(cli, "semester-reset", "--phase", "announce", "--yes", "--mail-dir", str(mails))
    assert len(list(mails.iterdir())) == 1


def test_the_backup_is_named_when_it_is_made(cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days may pass between announce and the rest; which backup is the newest is told by their names."""
    import gpuadmin.actions.semester.reset as module

    monkeypatch.setattr(module, "_new_backup", lambda term: "20260101T000000Z-reset-2026-2")
    cli("semester-reset", "--phase", "announce", "--yes")
    monkeypatch.setattr(module, "_new_backup", lambda term: "20260202T000000Z-reset-2026-2")
    for phase in ("lock", "end-sessions", "backup"):
        assert cli("semester-reset", "--phase", phase, "--yes")[0] == 0
    monkeypatch.setattr(module, "_new_backup", lambda term: "20260303T000000Z-reset-2026-2")
    assert cli(*ALL, "--resume")[0] == 0
    assert [path.name for path in cluster.storage.directory.iterdir()] == ["20260202T000000Z-reset-2026-2"]
    check_end(cluster)


@pytest.mark.holds("whom a directory ends is in users.yml no more")
def test_people_of_a_directory(cluster: Cluster, cli: Cli) -> None:
    """Their uids are asked for on the hosts, their accounts are left alone, and all the rest is the same."""
    (cluster.site / "users.yml").write_text(
        "users: [{name: minji, email: minji@example.org}, {name: jiho, uid: 20001, stays: 2026-2}]\n"
    )
    settings = cluster.site / "gpuadmin.yml"
    settings.write_text(settings.read_text().replace("source: registry", "source: directory"))
    succeed(cli, *ALL)
    picture = cluster.picture()
    assert sorted(picture["homes"]) == ["jiho", "seo", "stranger", "yuna"]
    assert picture["docker"]["node1"] == ["jiho", "seo", "yuna"]
    assert picture["gone"] == []
    assert "locked" not in picture["users"]
    # whose account the directory ends is not mailed next term's reminders, and is known when they apply again
    registry = load_registry(cluster)
    assert [user.name for user in registry.registry.users] == ["jiho"]
    assert [(one.name, one.uid, one.email) for one in registry.registry.retired] == [
        ("minji", 20000, "minji@example.org")
    ]
    back = accounts.add(registry, load_settings(cluster.site), [accounts.Request("minji")])
    assert [(user.name, user.uid) for user in back.registry.users] == [("jiho", 20001), ("minji", 20000)]
    assert not any(one.variables["gpuadmin_phase"] == "reopen" for one in cluster.asked)
    asked = [one.variables["gpuadmin_term"] for one in cluster.asked if one.variables["gpuadmin_phase"] == "facts"]
    assert asked[0]["people"] == []
    assert {one["name"]: one["uid"] for one in asked[1]["people"]} == {"minji": 20000, "jiho": 20001}


def load_registry(cluster: Cluster) -> RegistryFile:
    return RegistryFile.load(cluster.site / "users.yml", load_settings(cluster.site))


@pytest.mark.holds("what is left beside a home keeps the account")
def test_who_has_something_left_beside_the_home_keeps_the_account_too(cluster: Cluster, cli: Cli) -> None:
    copy = "minji.restored-20261221T010203Z"
    cluster.storage.home(copy, 20000, {"draft": b"12345"})

    def write(phase: str) -> None:
        if phase == "wipe":
            (cluster.storage.root / copy / "draft").write_bytes(b"one more line")

    cluster.before_phase = write
    report = json.loads(succeed(cli, *ALL))["result"]["report"]
    assert {one["name"]: one["home"] for one in report["leaving"]} == {"minji": "wiped", copy: "kept", "jiho": "wiped"}
    done = {entry["phase"]: entry["result"] for entry in journal(cluster).entries() if entry["event"] == "done"}
    assert done["reopen"]["retired"] == ["jiho"]


def test_what_the_backup_lacks_is_reported_until_it_is_cleared(cluster: Cluster, cli: Cli) -> None:
    """minji's program still wrote into an open file when the backup was made."""

    def write(phase: str) -> None:
        if phase == "wipe":
            (cluster.storage.root / "minji/thesis").write_bytes(b"one more line")

    cluster.before_phase = write
    document = json.loads(succeed(cli, *ALL))["result"]
    report, name = document["report"], document["decision"]["backup"]
    (minji,) = [one for one in report["leaving"] if one["name"] == "minji"]
    assert minji["home"] == "kept"
    assert report["leftovers"] == [f"{name}/minji"]
    assert "clear-leftovers" in (cluster.site / "runs/term-2026-2/report.html").read_text()
    assert (cluster.storage.root / ".gpuadmin-wiping" / name / "minji/thesis").read_bytes() == b"one more line"
    # who has something left keeps the account, and the next term's reset says why
    cluster.before_phase = lambda phase: None
    settings = cluster.site / "gpuadmin.yml"
    settings.write_text(settings.read_text().replace("2099-06-30", "2026-02-28"))
    warnings = json.loads(cli("semester-reset", "--check", "--json")[1])["result"]["phases"]["decision"]["plan"]
    assert any("minji" in one and "clear-leftovers" in one for one in warnings["warnings"])


def until(cluster: Cluster, cli: Cli, last: str) -> None:
    """Do the phases up to one."""
    for phase in PHASES[: PHASES.index(last) + 1]:
        succeed(cli, "semester-reset", "--phase", phase, "--yes")


@pytest.mark.holds("before a wipe the backup is looked for")
def test_a_backup_that_is_gone_wipes_nothing(cluster: Cluster, cli: Cli) -> None:
    until(cluster, cli, "backup")
    (made,) = cluster.storage.directory.iterdir()
    (made / "backup.json").rename(made / "backup.json.lost")
    before = cluster.picture()
    assert f"there is no complete backup {made.name}; nothing is wiped" in fail(cli, 5, *ALL, "--resume")
    assert cluster.picture() == before
    assert not any(one.variables["gpuadmin_phase"] == "wipe" for one in cluster.asked)


@pytest.mark.holds("a plan that waited too long for its yes wipes nothing")
def test_a_plan_that_waited_too_long_wipes_nothing(cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """The question stood on a screen for an hour before somebody typed yes."""
    import gpuadmin.actions.semester.data as module

    until(cluster, cli, "backup")

    class Later(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:
            return datetime.now(tz) + timedelta(hours=1)

    monkeypatch.setattr(module, "datetime", Later)
    before = cluster.picture()
    assert "or too old; nothing is wiped" in fail(cli, 5, *ALL, "--resume")
    assert cluster.picture() == before


@pytest.mark.holds("a node that is away blocks the wipe")
def test_a_node_that_goes_away_before_the_wipe_blocks_it(cluster: Cluster, cli: Cli) -> None:
    until(cluster, cli, "backup")
    cluster.away = {"node2"}
    before = cluster.picture()
    assert "wipe: node2: not reachable" in fail(cli, 5, *ALL, "--resume")
    assert cluster.picture() == before
    succeed(cli, *ALL, "--resume", "--leave-pending")
    assert cluster.picture()["docker"]["node2"] == ["jiho", "minji", "seo", "yuna"]
    assert cluster.picture()["docker"]["node1"] == ["seo", "yuna"]
    assert cluster.picture()["gone"] == []


@pytest.mark.holds(
    "a node that blocks the wipe loses nothing",
    "sessions that are not known to have ended block the wipe of their node",
)
def test_a_node_whose_sessions_did_not_end_loses_nothing(cluster: Cluster, cli: Cli) -> None:
    """It answers, and is seen to be empty later; but that the sessions had ended was never shown."""
    cluster.processes["node2"] = {"minji": 1}
    cluster.stuck = {"minji"}
    assert "still runs train" in fail(cli, 3, *ALL)
    assert sorted(cluster.picture()["homes"]) == ["jiho", "minji", "seo", "stranger", "yuna"]

    def end(phase: str) -> None:
        if phase == "backup":
            cluster.processes["node2"] = {}

    cluster.before_phase = end
    succeed(cli, *ALL, "--resume", "--leave-pending")
    assert cluster.picture()["docker"]["node2"] == ["jiho", "minji", "seo", "yuna"]
    assert cluster.picture()["docker"]["node1"] == ["seo", "yuna"]


@pytest.mark.holds("a backup that failed ends the reset")
def test_a_backup_that_fails_ends_the_reset(cluster: Cluster, cli: Cli) -> None:
    """--leave-pending lets hosts pend, never the backup."""

    def spoil(phase: str) -> None:
        if phase == "backup" and not cluster.storage.directory.exists():
            cluster.storage.directory.write_text("no directory")

    cluster.before_phase = spoil
    assert "backup: storage1" in fail(cli, 3, *ALL, "--leave-pending")
    assert sorted(cluster.picture()["homes"]) == ["jiho", "minji", "seo", "stranger", "yuna"]
    assert not any(one.variables["gpuadmin_phase"] == "wipe" for one in cluster.asked)


def test_a_lock_that_does_not_hold_everywhere_wipes_nothing(cluster: Cluster, cli: Cli) -> None:
    """On one node the name has another uid: that account is not touched, and the lock is not shown there."""
    passwd = cluster.base / "node1/etc/passwd"
    passwd.write_text(passwd.read_text().replace("minji:x:20000:20000", "minji:x:20777:20777"))
    assert "lock: node1" in fail(cli, 3, *ALL)
    assert not cluster.locked_on("node1", "minji")
    assert sorted(cluster.picture()["homes"]) == ["jiho", "minji", "seo", "stranger", "yuna"]


@pytest.mark.holds("a wipe that was begun is not taken back")
def test_a_wipe_that_was_begun_is_not_taken_back(cluster: Cluster, cli: Cli) -> None:
    """People would be let in to homes that are half gone."""

    def cut(phase: str, host: str, check: bool) -> None:
        if phase == "wipe" and not check:
            raise Cut

    cluster.after_host = cut
    with pytest.raises(Cut):
        cli(*ALL)
    before = cluster.picture(), cluster.locked
    assert "homes are being wiped; this cannot be taken back" in fail(cli, 5, "semester-reset", "--abort", "--yes")
    assert (cluster.picture(), cluster.locked) == before


@pytest.mark.holds("without a terminal and without --yes no reset begins")
def test_without_a_terminal_no_host_is_asked_and_nothing_is_begun(cluster: Cluster, cli: Cli) -> None:
    assert "no terminal" in fail(cli, 5, "semester-reset")
    assert cluster.asked == []
    assert not journal(cluster).path.exists()


@pytest.mark.holds("a phase that is pending somewhere holds up the next")
def test_a_phase_that_is_pending_somewhere_holds_up_the_next(cluster: Cluster, cli: Cli) -> None:
    """The node is back, but nobody was locked out of it."""
    assert cli("semester-reset", "--phase", "announce", "--yes")[0] == 0
    cluster.away = {"node2"}
    assert cli("semester-reset", "--phase", "lock", "--leave-pending", "--yes")[0] == 0
    cluster.away = set()
    err = fail(cli, 5, "semester-reset", "--phase", "end-sessions", "--yes")
    assert "end-sessions: lock is not done everywhere: node2" in err
    assert not cluster.locked_on("node2", "minji")
    assert cli("semester-reset", "--phase", "lock", "--yes")[0] == 0
    assert cluster.locked_on("node2", "minji")
    assert cli("semester-reset", "--phase", "end-sessions", "--yes")[0] == 0


@pytest.mark.holds("who was locked before a reset is not let in by it")
def test_who_was_locked_before_it_is_not_let_in(cluster: Cluster, cli: Cli) -> None:
    """Somebody stays, and was locked for another reason."""
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("{name: seo,", "{name: seo, locked: true,"))
    for phase in ("announce", "lock", "end-sessions"):
        succeed(cli, "semester-reset", "--phase", phase, "--yes")
    assert "unlock" not in parts(cluster)
    assert users.read_text().count("locked: true") == 3


@pytest.mark.holds("who was locked before is written down once")
def test_who_was_locked_before_is_known_from_the_first_lock(cluster: Cluster, cli: Cli) -> None:
    """Locked again, because a node was away the first time: all are locked by then, by the reset itself."""
    assert cli("semester-reset", "--phase", "announce", "--yes")[0] == 0
    cluster.away = {"node2"}
    assert cli("semester-reset", "--phase", "lock", "--yes")[0] == 4
    cluster.away = set()
    assert cli("semester-reset", "--phase", "lock", "--yes")[0] == 0
    assert cluster.locked == {"minji", "jiho"}
    assert cli("semester-reset", "--abort", "--yes")[0] == 0
    assert cluster.locked == set()


@pytest.mark.holds("who was locked before is in the journal")
def test_who_was_locked_before_is_written_down_before_anybody_is_locked(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else nobody would know after a cut whom an abort lets in again."""
    assert cli("semester-reset", "--phase", "announce", "--yes")[0] == 0
    users, real = (cluster.site / "users.yml").read_text(), Journal.write

    def write(self: Journal, event: str, **more: Any) -> None:
        if event == "unlocked-before":
            raise Cut
        real(self, event, **more)

    monkeypatch.setattr(Journal, "write", write)
    with pytest.raises(Cut):
        cli("semester-reset", "--phase", "lock", "--yes")
    assert (cluster.site / "users.yml").read_text() == users


@pytest.mark.holds("an abort that did not reach all hosts is not done")
def test_an_abort_that_did_not_reach_all_is_not_done(cluster: Cluster, cli: Cli) -> None:
    for phase in ("announce", "lock"):
        assert cli("semester-reset", "--phase", phase, "--yes")[0] == 0
    cluster.away = {"node2"}
    assert "node2" in fail(cli, 3, "semester-reset", "--abort", "--yes")
    assert journal(cluster).state().open
    cluster.away = set()
    assert cli("semester-reset", "--abort", "--yes")[0] == 0
    assert not journal(cluster).state().open
    assert cluster.locked == set()


@pytest.mark.holds("an abort before the lock asks no host", "an abort before the lock unlocks nobody")
def test_an_abort_before_anybody_was_locked_asks_no_host_for_anything(cluster: Cluster, cli: Cli) -> None:
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("{name: jiho, uid: 20001", "{name: jiho, uid: 20001, locked: true"))
    before = users.read_text()
    assert cli("semester-reset", "--phase", "announce", "--yes")[0] == 0
    assert cli("semester-reset", "--abort", "--yes")[0] == 0
    assert parts(cluster) == {"facts"}
    assert users.read_text() == before


def parts(cluster: Cluster) -> set[str]:
    """What hosts were asked for, but in check mode."""
    return {str(one.variables["gpuadmin_phase"]) for one in cluster.asked if not one.check}


def test_the_dashboard_is_behind(cluster: Cluster, cli: Cli) -> None:
    """It has the term from `provision`; drift would find it there after each reset, and say nothing of why."""
    says = "the dashboard has 2027-1 after gpuadmin provision --limit storage1"
    settings, inventory = cluster.site / "gpuadmin.yml", cluster.site / "inventory/monitor.yml"

    def warnings() -> list[str]:
        phases = json.loads(succeed(cli, "semester-reset", "--check", "--json"))["result"]["phases"]
        return list(phases["reopen"]["plan"]["warnings"])

    assert says not in warnings()
    inventory.write_text("monitor: {hosts: {storage1: {}}}\n")
    assert says in warnings()
    settings.write_text(settings.read_text() + "metrics: {dashboard: {enabled: false}}\n")
    assert says not in warnings()
