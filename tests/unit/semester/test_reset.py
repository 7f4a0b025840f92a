"""A reset from its command line to the homes on a btrfs: undisturbed, and cut at every entry of its journal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.semester.journal import PHASES, Journal
from tests.unit.semester.cluster import Cluster

pytestmark = pytest.mark.btrfs
Cli = Callable[..., tuple[int, str, str]]
ENTRIES = 16  # of an undisturbed reset
ALL = ("semester-reset", "--yes", "--term", "2026-2", "--json")


def journal(cluster: Cluster) -> Journal:
    return Journal(cluster.site / "runs", "2026-2")


def test_a_whole_reset(cluster: Cluster, cli: Cli) -> None:
    code, out, err = cli(*ALL)
    assert code == 0, err
    document = json.loads(out)
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
    assert "# now" in (cluster.site / "gpuadmin.yml").read_text()
    folder = cluster.site / "runs/term-2026-2"
    assert (folder / "report.html").read_text().count("<td>wiped") == 2
    assert json.loads((folder / "report.json").read_text())["phases"]["wipe"] == "done"
    assert folder.stat().st_mode & 0o077 == 0
    # its journal is in phases, each begun before it is done
    events = [(entry["event"], entry.get("phase")) for entry in journal(cluster).entries()]
    assert events[0] == ("decided", None)
    assert [phase for event, phase in events if event == "done"] == list(PHASES)
    assert len(events) == ENTRIES


def test_check_says_what_the_reset_then_does(cluster: Cluster, cli: Cli) -> None:
    before = cluster.picture()
    cluster.processes["node1"] = {"minji": 2, "seo": 1}
    code, out, err = cli("semester-reset", "--check", "--json")
    assert code == 0, err
    assert cluster.picture() == before
    assert not journal(cluster).path.exists()
    said = json.loads(out)["result"]["phases"]
    code, out, err = cli(*ALL)
    assert code == 0, err
    done = json.loads(out)["result"]["phases"]
    names = json.loads(out)["result"]["decision"]["backup"], "BACKUP"

    def steps(phases: dict[str, Any], phase: str) -> list[Any]:
        text = json.dumps(phases[phase]["plan"]["steps"])
        import re

        return list(json.loads(re.sub(r"\d{8}T\d{6}Z", "STAMP", text.replace(*names))))

    for phase in PHASES:
        foretold = [step for step in steps(said, phase) if "retire" not in step["action"]]
        happened = [step for step in steps(done, phase) if "retire" not in step["action"]]
        if phase != "wipe":  # there the name of the backup is another
            assert foretold == happened, phase
    assert [step["action"].partition(";")[0] for step in steps(said, "wipe")] == [
        step["action"].partition(";")[0] for step in steps(done, "wipe")
    ]
    assert {"host": "node1", "action": "minji: end 2 processes"} in steps(said, "end-sessions")


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
    code, _out, err = cli(*ALL, *(["--resume"] if journal(cluster).state().open else []))
    assert code == 0, err
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


@pytest.mark.parametrize("phase", ["lock", "end-sessions", "backup", "wipe", "prune", "reopen"])
def test_cut_in_the_middle_of_a_phase(cluster: Cluster, cli: Cli, phase: str) -> None:
    def cut(now: str) -> None:
        if now == phase:
            raise Cut

    cluster.before_phase = cut
    try:
        cli(*ALL)
    except Cut:
        pass
    else:
        assert phase == "prune"  # there was nothing to delete
    cluster.before_phase = lambda now: None
    if journal(cluster).state().open:
        code, _out, err = cli(*ALL, "--resume")
        assert code == 0, err
    check_end(cluster)


def test_a_node_that_is_away_holds_up_what_it_holds(cluster: Cluster, cli: Cli) -> None:
    cluster.away = {"node2"}
    code, _out, err = cli(*ALL)
    assert code == 4
    assert "lock: node2" in err
    assert sorted(cluster.picture()["homes"]) == ["jiho", "minji", "seo", "stranger", "yuna"]
    code, _out, err = cli(*ALL, "--resume", "--leave-pending")
    assert code == 0, err
    picture = cluster.picture()
    assert sorted(picture["homes"]) == ["seo", "stranger", "yuna"]
    assert picture["docker"] == {"node1": ["seo", "yuna"], "node2": ["jiho", "minji", "seo", "yuna"]}
    assert picture["gone"] == []
    report = json.loads((cluster.site / "runs/term-2026-2/report.json").read_text())
    assert report["pending"]["wipe"] == {"node2": "was not reachable, or its sessions had not ended"}
    # it comes back
    cluster.away = set()
    code, _out, err = cli(*ALL, "--resume")
    assert code == 0, err
    check_end(cluster)


def test_a_storage_host_that_is_away(cluster: Cluster, cli: Cli) -> None:
    cluster.away = {"storage1"}
    code, _out, err = cli(*ALL, "--leave-pending")
    assert code != 0
    cluster.away = set()
    code, _out, err = cli(*ALL, "--resume")
    assert code == 0, err
    check_end(cluster)


def test_what_a_storage_host_that_is_away_has_is_not_known(cluster: Cluster, cli: Cli) -> None:
    cluster.away = {"storage1"}
    code, out, err = cli("semester-reset", "--check")
    assert code == 4, err
    assert "minji (uid 20000), whether there is a home is not known" in out
    assert "no home to wipe" not in out
    assert "storage1: which of its backups are old is not known" in out
    code, _out, err = cli(*ALL, "--leave-pending")
    assert code == 4
    assert "backup: which homes and backups there are is not known: storage1 (does not answer (timed out))" in err
    assert "backup" not in journal(cluster).state().begun


def test_a_damaged_journal_stops_everything(cluster: Cluster, cli: Cli) -> None:
    journal(cluster).write("begin", phase="announce")
    for line in ('{"event": "done", "phase": "wipe"}', "[]", '{"event": "decided", "decision": {}}', "{}", "\0"):
        journal(cluster).path.write_text(f"{line}\n")
        code, _out, err = cli(*ALL)
        assert code == 1, line
        assert "journal.jsonl:1: is damaged; nothing is done" in err
    assert cluster.asked == []


def test_who_still_runs_something_is_not_wiped(cluster: Cluster, cli: Cli) -> None:
    def start(now: str) -> None:
        if now == "backup":
            cluster.processes["node2"] = {"jiho": 1}

    cluster.before_phase = start
    code, _out, err = cli(*ALL)
    assert code == 5
    assert "node2: jiho still run something" in err
    assert "jiho" in cluster.picture()["homes"]


def test_somebody_is_extended_after_it_began(cluster: Cluster, cli: Cli) -> None:
    code, _out, err = cli("semester-reset", "--phase", "announce", "--yes")
    assert code == 0, err
    code, _out, err = cli("semester-reset", "--phase", "lock", "--yes")
    assert code == 0, err
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("{name: jiho, uid: 20001", "{name: jiho, uid: 20001, stays: 2026-2"))
    code, _out, err = cli(*ALL, "--resume")
    assert code == 0, err
    assert "jiho" in cluster.picture()["homes"]
    assert cluster.picture()["gone"] == ["minji"]
    # and can log in again
    assert "locked" not in users.read_text()
    assert "jiho" not in cluster.locked


def test_abort_before_and_after_wipe(cluster: Cluster, cli: Cli) -> None:
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("{name: jiho, uid: 20001", "{name: jiho, uid: 20001, locked: true"))
    for phase in ("announce", "lock", "end-sessions", "backup"):
        code, _out, err = cli("semester-reset", "--phase", phase, "--yes")
        assert code == 0, err
    assert cluster.locked == {"minji", "jiho"}
    code, _out, err = cli("semester-reset", "--abort", "--yes")
    assert code == 0, err
    assert cluster.locked == {"jiho"}
    assert users.read_text().count("locked: true") == 1
    code, _out, err = cli(*ALL)
    assert code == 0, err
    code, _out, err = cli("semester-reset", "--abort", "--yes", "--term", "2026-2")
    assert code != 0


REFUSED: dict[str, tuple[list[str], str, str]] = {
    "wipe without its phases": (["--phase", "wipe", "--yes", "--term", "2026-2"], "announce comes before it", ""),
    "yes alone": (["--yes"], "wipe is not confirmed by --yes alone", ""),
    "another term": (["--term", "2025-1", "--yes"], "the running term is 2026-2", ""),
    "a slip in --keep": (["--keep", "minjy", "--yes", "--term", "2026-2"], "not registered", ""),
    "too early": (["--yes", "--term", "2026-2"], "ends on 2099-01-31", "2026-01-31>2099-01-31"),
    "resume of nothing": (["--resume", "--yes"], "no reset of 2026-2 is in the middle", ""),
    "limit": (["--limit", "node1", "--yes"], "all hosts at once", ""),
    "no terminal": ([], "no terminal", ""),
}


@pytest.mark.parametrize(("arguments", "words", "edit"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(cluster: Cluster, cli: Cli, arguments: list[str], words: str, edit: str) -> None:
    if edit:
        path = cluster.site / "gpuadmin.yml"
        path.write_text(path.read_text().replace(*edit.split(">")))
    before = cluster.picture()["homes"]
    code, _out, err = cli("semester-reset", *arguments)
    assert code in (2, 5), err
    assert words in err
    assert cluster.picture()["homes"] == before


@pytest.mark.parametrize(("typed", "code"), [("2026-2", 0), ("2026-1", 5), ("", 5), ("yes", 5)])
def test_wipe_is_confirmed_by_typing_the_term(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch, typed: str, code: int
) -> None:
    asked: list[str] = []
    monkeypatch.setattr("gpuadmin.cli._verb.require_confirmation_possible", lambda options: None)
    monkeypatch.setattr("click.confirm", lambda text, **_more: asked.append(text) or True)
    monkeypatch.setattr("click.prompt", lambda text, **_more: asked.append(text) or typed)
    found, _out, err = cli("semester-reset")
    assert found == code, err
    assert "This wipes 2 homes. Type the term's name (2026-2)" in asked[-1 if code else 3]
    assert ("minji" in cluster.picture()["homes"]) == bool(code)


def test_its_record_is_a_run_s(cluster: Cluster, cli: Cli) -> None:
    cli(*ALL)
    code, out, err = cli("runs", "--json")
    assert code == 0, err
    (run,) = (cluster.site / "runs").glob("*-semester-reset-*")
    code, out, err = cli("runs", run.name)
    assert code == 0, err
    assert "home minji (uid 20000); 2 files, 5.0 kB, in 2" in out


def test_extended_while_the_wipe_is_under_way(cluster: Cluster, cli: Cli) -> None:
    """Whose home is still there may stay, even if the wipe has begun."""

    def refuse(now: str) -> None:
        if now == "wipe":
            raise Cut

    cluster.before_phase = refuse
    with pytest.raises(Cut):
        cli(*ALL)
    cluster.before_phase = lambda now: None
    users = cluster.site / "users.yml"
    users.write_text(users.read_text().replace("{name: jiho, uid: 20001", "{name: jiho, uid: 20001, stays: 2026-2"))
    code, _out, err = cli(*ALL, "--resume")
    assert code == 0, err
    assert sorted(cluster.picture()["homes"]) == ["jiho", "seo", "stranger", "yuna"]


def test_begun_and_not_resumed(cluster: Cluster, cli: Cli) -> None:
    cli("semester-reset", "--phase", "announce", "--yes")
    code, _out, err = cli(*ALL)
    assert code == 5
    assert "next is lock" in err


def test_a_home_that_changed_hands_stays(cluster: Cluster, cli: Cli) -> None:
    def swap(now: str) -> None:
        home = cluster.storage.root / "minji"
        if now == "wipe" and home.exists():
            home.rename(cluster.storage.root / "moved")
            cluster.storage.home("minji", 20000, {"new": b"1"})

    cluster.before_phase = swap
    code, _out, err = cli(*ALL)
    assert code == 3
    assert "another directory than the one that was backed up" in err
    assert (cluster.storage.root / "minji/new").exists()
    assert (cluster.storage.root / "moved/thesis").exists()
    assert "jiho" not in cluster.picture()["homes"]


def test_announce_and_closing_mails(cluster: Cluster, cli: Cli, tmp_path: Path) -> None:
    path = cluster.site / "gpuadmin.yml"
    path.write_text(path.read_text() + "mail: {host: smtp.example.org, sender: gpu@example.org}\n")
    mails = tmp_path / "mails"
    code, out, err = cli(*ALL, "--mail-dir", str(mails))
    assert code == 0, err
    assert json.loads(out)["result"]["phases"]["reopen"]["result"]["without_address"] == ["jiho"]
    (mail,) = mails.iterdir()
    assert "minji@example.org" in mail.read_text()


def test_the_backup_is_named_when_it_is_made(cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Days may pass between announce and the rest; which backup is the newest is told by their names."""
    import gpuadmin.cli._semester as module

    monkeypatch.setattr(module, "_new_backup", lambda term: "20260101T000000Z-reset-2026-2")
    cli("semester-reset", "--phase", "announce", "--yes")
    monkeypatch.setattr(module, "_new_backup", lambda term: "20260202T000000Z-reset-2026-2")
    for phase in ("lock", "end-sessions", "backup"):
        assert cli("semester-reset", "--phase", phase, "--yes")[0] == 0
    monkeypatch.setattr(module, "_new_backup", lambda term: "20260303T000000Z-reset-2026-2")
    assert cli(*ALL, "--resume")[0] == 0
    assert [path.name for path in cluster.storage.directory.iterdir()] == ["20260202T000000Z-reset-2026-2"]
    check_end(cluster)


def test_people_of_a_directory(cluster: Cluster, cli: Cli) -> None:
    """Their uids are asked for on the hosts, their accounts are left alone, and all the rest is the same."""
    (cluster.site / "users.yml").write_text("users: [{name: minji}, {name: jiho, uid: 20001, stays: 2026-2}]\n")
    settings = cluster.site / "gpuadmin.yml"
    settings.write_text(settings.read_text().replace("source: registry", "source: directory"))
    code, _out, err = cli(*ALL)
    assert code == 0, err
    picture = cluster.picture()
    assert sorted(picture["homes"]) == ["jiho", "seo", "stranger", "yuna"]
    assert picture["docker"]["node1"] == ["jiho", "seo", "yuna"]
    assert picture["gone"] == []
    assert "locked" not in picture["users"]
    asked = [one.variables["gpuadmin_term"] for one in cluster.asked if one.variables["gpuadmin_phase"] == "facts"]
    assert asked[0]["people"] == []
    assert {one["name"]: one["uid"] for one in asked[1]["people"]} == {"minji": 20000, "jiho": 20001}


def test_the_command_line_knows_the_phases() -> None:
    from gpuadmin.cli import semester_reset
    from gpuadmin.cli._semester_phases import HANDLERS

    assert tuple(semester_reset.PHASES) == PHASES == tuple(HANDLERS)


def test_what_the_backup_lacks_is_reported_until_it_is_cleared(cluster: Cluster, cli: Cli) -> None:
    """minji's program still wrote into an open file when the backup was made."""

    def write(phase: str) -> None:
        if phase == "wipe":
            (cluster.storage.root / "minji/thesis").write_bytes(b"one more line")

    cluster.before_phase = write
    code, out, err = cli(*ALL)
    assert code == 0, err
    document = json.loads(out)["result"]
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
