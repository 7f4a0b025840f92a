"""One run at a time, and a record of each."""

import json
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuadmin.actions.runs import outcome
from gpuadmin.actions.runs import runs as show_all
from gpuadmin.errors import ConfigError, GpuadminError, RefusedError
from gpuadmin.lock import HANDED_ON, site_lock
from gpuadmin.records import Record, list_runs, moment, prune_runs, receive, show_run
from gpuadmin.terminal import SafeConsole

pytestmark = pytest.mark.holds("one run at a time changes a site")


PLAN = {"title": "Add minji", "steps": [], "warnings": [], "destroys": False}


def _hold(runs: Path, ready: object, seconds: float) -> None:
    with site_lock(runs, "add-user"):
        ready.set()
        time.sleep(seconds)  # it holds the lock as long as that


def held_elsewhere(runs: Path, seconds: float = 60) -> multiprocessing.Process:
    """Another process that holds the site's lock."""
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=_hold, args=(runs, ready, seconds), daemon=True)
    process.start()
    assert ready.wait(10)
    return process


def test_the_second_is_told_who_holds_the_lock_and_since_when(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    other = held_elsewhere(runs)
    try:
        with pytest.raises(RefusedError) as caught, site_lock(runs, "remove-user"):
            pass
    finally:
        other.kill()
        other.join()
    assert f"runs add-user since {time.strftime('%Y-%m-%d')}" in caught.value.message
    assert f"(process {other.pid})" in caught.value.message
    assert "@" in caught.value.message
    assert caught.value.exit_code == 5


def test_a_lock_is_its_owners_and_goes_with_its_run(tmp_path: Path) -> None:
    """Whoever could open it could hold it. What the last run wrote into it says nothing of this one."""
    runs, before = tmp_path / "runs", os.umask(0)
    try:
        with site_lock(runs, "a-verb-of-a-long-name"):
            pass
    finally:
        os.umask(before)
    assert [path.stat().st_mode & 0o777 for path in (runs, runs / ".lock")] == [0o700, 0o600]
    held = pytest.raises(RefusedError, match=r"runs grant since .* \(process \d+\)")
    with site_lock(runs, "grant"), held, site_lock(runs, "grant"):
        pass


TRIES = (
    "import pathlib, sys; from gpuadmin.lock import site_lock\n"
    "with site_lock(pathlib.Path(sys.argv[1]), 'reboot'): pass"
)


@pytest.mark.holds("nobody but the verb of a window goes on beside its lock")
@pytest.mark.parametrize(
    ("handed", "number"),
    [
        (False, "{lock}"),  # a child of the run that has it, or in another container of one with the same number
        (True, "0"),
        (False, "none"),
        (True, "{other}"),  # the file, opened once more
    ],
)
def test_nobody_goes_on_beside_a_lock_that_was_not_handed_on(tmp_path: Path, handed: bool, number: str) -> None:
    with site_lock(tmp_path, "maintain") as lock, (tmp_path / ".lock").open() as file:
        assert lock is not None
        given = {**os.environ, HANDED_ON: number.format(lock=lock, other=file.fileno())}
        passed = [file.fileno()] if handed else []
        command = [sys.executable, "-c", TRIES, str(tmp_path)]
        done = subprocess.run(
            command, env=given, pass_fds=passed, capture_output=True, text=True, check=False, input=""
        )
    assert "RefusedError: the site is locked" in done.stderr


def test_a_killed_run_leaves_no_lock(tmp_path: Path) -> None:
    other = held_elsewhere(tmp_path / "runs")
    other.kill()
    other.join()
    with site_lock(tmp_path / "runs", "add-user"):
        pass


def test_a_lock_file_with_nonsense_in_it(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    (runs / ".lock").write_text("[1]")
    with site_lock(runs, "add-user"):
        holder = json.loads((runs / ".lock").read_text())
    assert holder["verb"] == "add-user"
    assert holder["pid"] == os.getpid()


def test_a_pipe_in_place_of_the_lock_is_an_error_in_words(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".lock")
    with pytest.raises(GpuadminError, match=r"\.lock: is not a regular file"), site_lock(tmp_path, "status"):
        pytest.fail("it is not a lock")


def test_a_site_that_cannot_be_written_is_an_error_in_words(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(GpuadminError, match="runs: File exists"), site_lock(tmp_path / "runs", "add-user"):
        pass


def record(runs: Path, verb: str = "add-user") -> Record:
    return Record.begin(runs, verb, arguments=["add-user", "minji"], check=False, plan=PLAN)


def test_a_run_is_recorded_from_its_beginning_to_its_end(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    begun = record(runs)
    assert list_runs(runs)[0]["status"] == "unfinished"
    begun.finish({"status": "failed", "hosts": {}}, 3)
    (run,) = list_runs(runs)
    assert run["id"] == begun.id
    assert run["arguments"] == ["add-user", "minji"]
    assert run["plan"] == PLAN
    assert (run["status"], run["exit_code"]) == ("failed", 3)
    assert "@" in run["who"]
    assert run["started"] <= run["ended"]


@pytest.mark.holds("a run's log is its owner's alone")
def test_nobody_else_reads_it(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        begun = record(tmp_path / "runs")
        begun.heading("a playbook")
        begun.finish({"status": "ok"}, 0)
    finally:
        os.umask(old)
    assert begun.directory.parent.stat().st_mode & 0o777 == 0o700
    assert begun.directory.stat().st_mode & 0o777 == 0o700
    assert {path.name: path.stat().st_mode & 0o777 for path in begun.directory.iterdir()} == {
        "run.json": 0o600,
        "result.json": 0o600,
        "log.txt": 0o600,
    }


def test_a_run_is_shown_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    first, second = record(runs), record(runs, "sync-users")
    second.log.write_text("PLAY\n")
    run, result, log = show_run(runs, second.id[:-2])
    assert (run["verb"], result, log) == ("sync-users", None, "PLAY\n")
    for identity in (first.id[:8], "", "../..", "nothing", "../" + first.id):
        with pytest.raises(ConfigError):
            show_run(runs, identity)


def test_an_id_is_in_one_piece_on_80_columns(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = record(site / "runs", "import-applications")
    monkeypatch.setattr(
        "gpuadmin.actions.runs.make_console", lambda json: SafeConsole(file=sys.stdout, width=80, highlight=False)
    )
    assert show_all(str(site), None, log=False, as_json=False) == 0
    out = capsys.readouterr().out
    assert one.id in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize(
    ("arguments", "check", "words"),
    [
        (["drift", "--check"], True, "done (check)"),
        (["notify", "--preview"], True, "done (check)"),
        (["drift"], True, "done"),  # a look, which is no check
        (["run", "gpu1", "--", "program", "--check"], False, "done"),
    ],
)
def test_what_changed_nothing_says_so(arguments: list[str], check: bool, words: str) -> None:
    assert outcome({"exit_code": 0, "arguments": arguments, "check": check}) == words


def test_only_runs_are_pruned_and_the_newest_stay(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    names = [f"202611{day:02}T000000-add-user-000{day % 10}" for day in range(1, 10)]
    for name in names:
        (runs / name).mkdir()
    (runs / "notes").mkdir()
    (runs / "20261101T000000.txt").write_text("")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "thesis").write_text("")
    (runs / "20260101T000000-add-user-0000").symlink_to(elsewhere)
    assert sorted(prune_runs(runs, 3)) == names[:6]
    left = {path.name for path in runs.iterdir()}
    assert left == {*names[6:], "notes", "20261101T000000.txt", "20260101T000000-add-user-0000"}
    assert (elsewhere / "thesis").exists()


@pytest.mark.holds("records of other machines push out none of this one")
def test_records_of_other_machines_push_out_none_of_this_one(tmp_path: Path) -> None:
    """A storage host that somebody has taken may send as many as it likes, of any day."""
    runs = tmp_path / "runs"
    mine = record(runs)
    mine.finish({"status": "ok"}, 0)
    for number in range(5):
        receive(runs, f"99991231T235959-add-user-000{number}", {"run.json": "{}"})
    assert len(prune_runs(runs, 3)) == 2
    assert mine.directory.exists()


@pytest.mark.parametrize("when", ["0001-01-01T00:00:00", "9999-12-31T23:59:59-12:00"])
def test_a_moment_that_no_clock_here_has_ends_no_list(tmp_path: Path, when: str) -> None:
    runs, path = tmp_path / "runs", tmp_path / "runs/20260101T000000-add-user-0000"
    mine = record(runs)
    mine.finish({"status": "ok"}, 0)
    run = json.loads((mine.directory / "run.json").read_text())
    receive(runs, path.name, {"run.json": json.dumps({**run, "started": when})})
    shown = [(one["status"], moment(one["started"]) != "") for one in list_runs(runs)]
    assert shown == [("ok", True), ("damaged", True)]
    assert moment(when) == ""


@pytest.mark.holds("the record of a run that goes on is not deleted")
def test_the_record_of_a_run_that_goes_on_stays(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    going = record(runs, "a-reset")
    for _ in range(3):
        record(runs, "list-users").finish({"status": "ok"}, 0)
    assert going.id not in prune_runs(runs, 1)
    going.heading("the second phase")
    going.plan(PLAN)
    going.finish({"status": "ok"}, 0)
    going.finish({"status": "failed"}, 1)  # an error may come after it was finished
    record(runs, "list-users").finish({"status": "ok"}, 0)
    assert going.id in prune_runs(runs, 1)


def test_a_killed_run_is_pruned(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    killed = os.fork()
    if not killed:
        held = record(runs, "a-reset")
        os.kill(os.getpid(), 9)
        held.finish({}, 0)
    os.waitpid(killed, 0)
    (name,) = [path.name for path in runs.iterdir()]
    record(runs).finish({"status": "ok"}, 0)
    assert prune_runs(runs, 1) == [name]


def test_two_who_tidy_up_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = tmp_path / "runs"
    for _ in range(3):
        record(runs).finish({"status": "ok"}, 0)
    unlink = os.unlink

    def other_was_faster(*given: object, **more: object) -> None:
        unlink(*given, **more)
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(os, "unlink", other_was_faster)
    assert len(prune_runs(runs, 1)) == 2


def test_damaged_records_do_not_hide_the_others(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    good, bad = record(runs), record(runs)
    (bad.directory / "run.json").write_text("{")
    third = record(runs)
    (third.directory / "result.json").write_text("[" * 9000)
    found = {run["id"]: run["status"] for run in list_runs(runs)}
    assert found == {good.id: "unfinished", bad.id: "damaged", third.id: "damaged"}
    for one in (bad, third):
        with pytest.raises(ConfigError, match=r"json: is damaged"):
            show_run(runs, one.id)
    assert list_runs(tmp_path / "none") == []


RUN = {"id": "x", "verb": "v", "arguments": [], "check": False, "who": "w", "started": "2026-11-22T15:40:17+00:00"}
PLAN = {"title": "t", "steps": [{"host": "h", "action": "a"}], "warnings": []}
RESULT = {"status": "ok", "exit_code": 0, "ended": "2026-11-22T15:40:17+00:00"}


@pytest.mark.parametrize(
    ("name", "whole", "odd"),
    [
        ("run.json", {**RUN, "plan": PLAN}, {"arguments": 7}),
        ("run.json", {**RUN, "plan": PLAN}, {"started": "x"}),
        ("run.json", {**RUN, "plan": PLAN}, {"plan": {**PLAN, "steps": [{"host": "h"}]}}),
        ("run.json", {**RUN, "plan": PLAN}, {"plan": {}}),
        ("result.json", {**RESULT, "hosts": {}}, {"hosts": []}),
        ("result.json", {**RESULT, "hosts": {}}, {"hosts": {"h": {"status": "ok"}}}),
        ("result.json", {**RESULT, "hosts": {}}, {"ended": "yesterday"}),
    ],
)
def test_a_record_with_odd_fields_is_damaged(
    tmp_path: Path, name: str, whole: dict[str, object], odd: dict[str, object]
) -> None:
    """It is shown by code that takes the fields as they are."""
    runs = tmp_path / "runs"
    one = record(runs)
    (one.directory / name).write_text(json.dumps(whole))
    assert [run["status"] for run in list_runs(runs)] == ["ok" if name == "result.json" else "unfinished"]
    (one.directory / name).write_text(json.dumps({**whole, **odd}))
    assert [run["status"] for run in list_runs(runs)] == ["damaged"]
    with pytest.raises(ConfigError, match=f"{name}: is damaged"):
        show_run(runs, one.id)


@pytest.mark.holds("a run is newer than those before it, whatever the clock says")
def test_a_clock_that_was_set_back_hides_no_run(tmp_path: Path) -> None:
    """One that had begun in a wrong future was the newest for years: what was interrupted after it did not pend, and
    the record of a run was the first to be deleted.
    """
    first = Record.begin(tmp_path, "sync-users", arguments=[], check=False, plan=PLAN)
    future = "20990101T000000-sync-users-0000"
    first.directory.rename(tmp_path / future)
    second = Record.begin(tmp_path, "sync-users", arguments=[], check=False, plan=PLAN)
    assert second.id.startswith("20990101T000001-sync-users-")
    assert not second.started.startswith("2099"), "it began when the clock says"
    assert list_runs(tmp_path)[0]["started"] == second.started
    for odd in ("99999999T999999-status-0000", "99991231T235959-status-0000"):
        (tmp_path / odd).mkdir()
        assert Record.begin(tmp_path, "status", arguments=[], check=True, plan=PLAN).directory.is_dir()
