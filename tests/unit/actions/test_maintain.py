"""maintain: a window is announced, held by Slurm and by nodes, moved, called off, and begun."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuadmin import records
from gpuadmin.announcements import Announcements
from gpuadmin.errors import RefusedError, UnreachableError
from gpuadmin.lock import site_lock
from gpuadmin.results import HostResult, RunResult
from gpuadmin.site_history import NOT_YET
from gpuadmin.who import who
from tests.support.fake_ansible import Ansible, Cli, ansible

__all__ = ["ansible"]

TIMES = ("--from", "2099-01-01 18:00", "--until", "2099-01-01 20:00")
WINDOW = ("maintain", *TIMES, "--reason", "new {driver}", "--yes", "node1")
JOB = {"id": "4", "user": "minji", "nodes": "node1", "place": 0, "end": 4_100_000_000}


def prepare(ansible: Ansible, *, queue: bool = True) -> Path:
    """A site with node1 and node2, and a queue on storage1; a job runs on node1 for a very long time."""
    assert ansible.site is not None
    (ansible.site / "gpuadmin.yml").write_text("name: test\n" + ("slurm: {}\n" if queue else ""))
    (ansible.site / "inventory/queue.yml").write_text("slurm: {hosts: {storage1: {}}}\n" if queue else "")

    report = {"queue": {"jobs": [JOB], "nodes": [], "reservations": []}} if queue else {}
    hosts = {"storage1": HostResult("changed", reports=report)} if queue else {}
    ansible.answer = RunResult({**hosts, "node1": HostResult("changed"), "node2": HostResult("changed")})
    return ansible.site


def lines(ansible: Ansible) -> list[str]:
    """What the queue's host was told."""
    return [one.variables["command_line"] for one in ansible.asked if one.playbook == "run"]


def shown(cli: Cli) -> list[dict[str, Any]]:
    """The windows that are announced."""
    found = json.loads(cli("maintain", "--json")[1])["result"]["announcements"]
    return [{**one, **one["window"]} for one in found if one["state"] == "announced"]


@pytest.mark.holds("nobody is told of a window that is not held")
def test_it_is_held_before_anybody_is_told(ansible: Ansible, cli: Cli) -> None:
    prepare(ansible)
    code, out, err = cli(*WINDOW, "--", "reboot", "node1")
    assert code == 0, err
    assert "minji's job 4 on node1 goes on until" in out
    assert "Announce on test: Maintenance of node1" in out, "admins read English"
    assert "gpuadmin reboot node1 (gpuadmin maintain --begin" in out
    assert [one.playbook for one in ansible.asked] == ["queue", "run", "announce"]
    (line,) = lines(ansible)
    begin = int(time.mktime((2099, 1, 1, 18, 0, 0, 0, 0, -1)))
    (window,) = shown(cli)
    assert f"ReservationName=gpuadmin-window-{window['id']} Users=root Nodes=node1 StartTime=uts{begin}" in line
    assert f"EndTime=uts{begin + 7200} Flags=MAINT,IGNORE_JOBS" in line
    (entry,) = ansible.asked[-1].variables["gpuadmin_announcements"]["node1"]
    assert (entry["closed_from"], entry["closed_until"]) == (begin, begin + 7200)
    assert "Maintenance of node1: 2099-01-01 18:00 to 2099-01-01 20:00\nnew {driver}\n" in entry["text"]
    assert "점검: node1" in entry["text"]
    assert (window["verb"], window["reason"], window["hosts"]) == (["reboot", "node1"], "new {driver}", ["node1"])
    # one that Slurm refuses is announced to nobody
    ansible.asked.clear()
    ansible.answer = RunResult({"storage1": HostResult("failed", message="no")})
    assert cli(*WINDOW[:-1], "node2")[0] == 3
    assert {one.playbook for one in ansible.asked} == {"queue", "run"}
    assert len(shown(cli)) == 1


def test_a_check_changes_nothing(ansible: Ansible, cli: Cli) -> None:
    prepare(ansible)
    assert cli(*WINDOW, "--check")[0] == 0 or cli("maintain", "--check", *TIMES, "--reason", "x", "node1")[0] == 0
    assert all(one.check for one in ansible.asked)
    assert shown(cli) == []


@pytest.mark.holds("a window whose nodes stay closed is not called off")
def test_it_is_moved_and_called_off(ansible: Ansible, cli: Cli) -> None:
    site = prepare(ansible)
    assert cli(*WINDOW)[0] == 0
    (old,) = shown(cli)
    later = ("--from", "2099-01-02 18:00", "--until", "2099-01-02 20:00")
    assert cli("maintain", "--move", old["id"], *TIMES, "--yes")[0] == 2, "it is at that time already"
    assert cli("maintain", "--move", old["id"], *later, "--check")[0] == 0
    assert shown(cli) == [old]
    code, _, err = cli("maintain", "--move", old["id"], *later, "--yes")
    assert code == 0, err
    (new,) = shown(cli)
    assert (new["id"] != old["id"], new["begin"] - old["begin"]) == (True, 86400)
    assert f"gpuadmin-window-{old['id']}" in lines(ansible)[-1], "what was held is held no longer"
    (entry,) = ansible.asked[-1].variables["gpuadmin_announcements"]["node1"]
    assert entry["closed_from"] == new["begin"]
    answer, ansible.answer = ansible.answer, RunResult({"storage1": HostResult("failed", message="no")})
    assert cli("maintain", "--cancel", new["id"], "--yes")[0] == 3
    assert ansible.asked[-1].playbook == "run", "logins still show it"
    assert shown(cli) == [new]
    ansible.answer = answer
    assert cli("maintain", "--cancel", new["id"], "--yes")[0] == 0
    assert f"gpuadmin-window-{new['id']}" in lines(ansible)[-1]
    assert "create" not in lines(ansible)[-1]
    assert shown(cli) == []
    assert [one.window is not None for one in Announcements.of(site)] == [True, True]


@pytest.mark.holds("a window's verb names no node that nobody announced")
@pytest.mark.parametrize("verb", [["reboot", "node2"], ["reboot", "all"], ["provision", "--limit=gpu"]], ids=" ".join)
def test_a_verb_for_nodes_that_nobody_announced_is_refused(ansible: Ansible, cli: Cli, verb: list[str]) -> None:
    prepare(ansible)
    code, _, err = cli(*WINDOW, "--", *verb)
    assert (code, "node2 would be in no window" in err, ansible.asked) == (2, True, []), err
    out = cli(*WINDOW, "--", "push-image", "trixie")[1]
    assert "gpuadmin push-image trixie names none of these nodes: it acts on all that it finds" in out


@pytest.mark.holds("what runs in a window is what was asked for")
def test_the_same_window_with_another_verb_is_said(ansible: Ansible, cli: Cli) -> None:
    prepare(ansible)
    assert cli(*WINDOW, "--", "reboot", "node1")[0] == 0
    assert cli(*WINDOW, "--", "reboot", "node1")[0] == 0, "it goes on where it was cut off"
    code, _, err = cli(*WINDOW, "--", "upgrade", "node1")
    assert (code, "is announced already, with gpuadmin reboot node1" in err) == (2, True)
    assert [one["verb"] for one in shown(cli)] == [["reboot", "node1"]]


def test_what_a_file_calls_a_window_is_no_program(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    """The line is for root's shell on the queue's host; whoever writes into the site's repository wrote the name."""
    site = prepare(ansible)
    assert cli(*WINDOW)[0] == 0
    (one,) = shown(cli)
    odd, record = f"x$(touch {tmp_path}/ran)", site / "announcements.jsonl"
    record.write_text(record.read_text().replace(one["id"], odd))
    assert cli("maintain", "--cancel", odd, "--yes")[0] == 0
    (tmp_path / "scontrol").write_text(f"#!/bin/sh\necho \"$*\" >>{tmp_path}/asked\necho 'ReservationName='\n")
    (tmp_path / "scontrol").chmod(0o755)
    subprocess.run(["sh", "-c", lines(ansible)[-1]], check=True, env={"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("verb", ["windows", "notify"])
def test_who_begins_it(ansible: Ansible, cli: Cli, verb: str) -> None:
    settings = prepare(ansible) / "gpuadmin.yml"
    settings.write_text(f"{settings.read_text()}timers: {{verbs: [{verb}]}}\nruns: {{shared: false}}\n")
    out = cli(*WINDOW, "--check", "--", "reboot", "node1")[1]
    assert ("(the monitor host begins it)" in out, "(gpuadmin maintain --begin" in out) == (
        verb == "windows", verb != "windows",
    )  # fmt: skip


@dataclass
class Verbs:
    """The verbs that windows ran, which end as `code` says."""

    ran: list[list[str]] = field(default_factory=list)
    code: int = 0


@pytest.fixture
def verbs(monkeypatch: pytest.MonkeyPatch) -> Verbs:
    found = Verbs()

    class Process:
        """It is interrupted once; it ends what it does."""

        def __init__(self, command: list[str], **_: object) -> None:
            found.ran.append(command[4:])
            self.interrupted = False

        def __enter__(self) -> "Process":
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def wait(self) -> int:
            if not self.interrupted:
                self.interrupted = True
                raise KeyboardInterrupt
            return found.code

    monkeypatch.setattr("gpuadmin.actions.maintain.Popen", Process)
    return found


def announced(ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch, *, now: bool = True) -> dict[str, Any]:
    """A window of node1 that has a verb; its time has come."""
    prepare(ansible, queue=False)
    assert cli(*WINDOW, "--", "reboot", "node1")[0] == 0
    (one,) = shown(cli)
    if now:
        monkeypatch.setattr(time, "time", lambda: one["begin"] + 1)
    return one


def states(cli: Cli) -> list[str]:
    return [one["state"] for one in json.loads(cli("maintain", "--json")[1])["result"]["announcements"]]


@pytest.mark.holds("nothing is done at another time than people were told")
@pytest.mark.holds("a window stays where its verb fails")
def test_its_verb_runs_at_its_time(ansible: Ansible, cli: Cli, verbs: Verbs, monkeypatch: pytest.MonkeyPatch) -> None:
    one = announced(ansible, cli, monkeypatch, now=False)
    code, _, err = cli("maintain", "--begin", one["id"], "--yes")
    assert (code, "the window is from 2099-01-01 18:00" in err, verbs.ran) == (5, True, [])
    assert cli("maintain", "--due")[0] == 0
    assert verbs.ran == []
    monkeypatch.setattr(time, "time", lambda: one["begin"] + 1)
    verbs.code = 3
    assert cli("maintain", "--begin", one["id"], "--yes")[0] == 3
    assert states(cli) == [f"begun by {who()}: failed"]
    verbs.code = 0
    assert cli("maintain", "--begin", one["id"], "--check")[0] == 0
    assert verbs.ran[-1] == ["reboot", "--site", str(ansible.site), "--check", "node1"]
    assert states(cli) == [f"begun by {who()}: failed"]
    assert cli("maintain", "--begin", one["id"], "--yes")[0] == 0
    assert verbs.ran[-1] == ["reboot", "--site", str(ansible.site), "--yes", "node1"]
    assert states(cli) == ["done"]
    assert ansible.asked[-1].variables["gpuadmin_announcements"] == {"node1": []}
    assert cli("maintain", "--begin", one["id"], "--yes")[0] == 2, "it is over"


VERB = """
import os, pathlib, sys, time
from gpuadmin.lock import site_lock
site = pathlib.Path(sys.argv[sys.argv.index("--site") + 1])
with site_lock(site / "runs", "reboot") as lock:
    (site / "verb").write_text(f"{os.getpid()} {lock}")
    time.sleep(60)
"""


@pytest.mark.holds("a verb whose window was killed keeps the site's lock, here and on the storage host")
def test_a_window_that_is_killed_leaves_the_lock_to_its_verb(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is short of memory kills a process; its verb goes on, and nobody else may begin."""
    one, site = announced(ansible, cli, monkeypatch), Path(str(ansible.site))
    read, write = os.pipe()  # the storage host's side ends, and with it the lock, when nobody has this open any more
    history = SimpleNamespace(keep=lambda identity: None, hold=lambda verb: None, fileno=lambda: write)
    monkeypatch.setattr("gpuadmin.session._locked_everywhere", lambda session, stack: history)
    program = site / "python"
    program.write_text(f'#!/bin/sh\nshift 2\nexec "{sys.executable}" {site}/verb.py "$@"\n')
    program.chmod(0o755)
    (site / "verb.py").write_text(VERB)
    monkeypatch.setattr("gpuadmin.actions.maintain.sys.executable", str(program))
    killed = os.fork()
    if killed == 0:
        cli("maintain", "--begin", one["id"], "--yes")
        os._exit(1)
    os.close(write)
    for _ in range(300):
        if (site / "verb").exists() and (site / "verb").read_text():
            break
        time.sleep(0.1)  # two interpreters start
    number, lock = (site / "verb").read_text().split()
    try:
        os.kill(killed, signal.SIGKILL)
        os.waitpid(killed, 0)
        assert lock == "None"
        with pytest.raises(RefusedError), site_lock(site / "runs", "provision"):
            pass
        os.set_blocking(read, False)
        with pytest.raises(BlockingIOError):
            os.read(read, 1)
    finally:
        os.kill(int(number), signal.SIGKILL)
        os.close(read)


@pytest.mark.holds("a window is not begun a second time by itself")
def test_one_that_is_due_begins_by_itself(
    ansible: Ansible, cli: Cli, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What did not come to its end is said each time, also when its time is over; the site's files stay as they are."""
    one = announced(ansible, cli, monkeypatch)
    before = (Path(str(ansible.site)) / "announcements.jsonl").read_bytes()
    verbs.code = 3
    assert cli("maintain", "--due", "--yes")[0] == 3
    for moment in (one["begin"] + 300, one["until"] + 1):
        monkeypatch.setattr(time, "time", lambda moment=moment: moment)
        code, _, err = cli("maintain", "--due", "--yes")
        assert (code, "was begun by" in err, "did not succeed (run " in err) == (5, True, True), err
    assert len(verbs.ran) == 1
    assert (Path(str(ansible.site)) / "announcements.jsonl").read_bytes() == before


@pytest.mark.holds("what stays of one window keeps no other from its time")
def test_a_window_that_nobody_began_in_time(
    ansible: Ansible, cli: Cli, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = announced(ansible, cli, monkeypatch)
    later = ("--from", "2099-01-01 19:00", "--until", "2099-01-01 23:00")
    monkeypatch.setattr(time, "time", lambda: one["begin"] - 1)
    assert cli("maintain", *later, "--reason", "x", "--yes", "node1", "--", "upgrade", "node1")[0] == 0
    monkeypatch.setattr(time, "time", lambda: one["until"] + 1)
    assert cli("maintain", "--due", "--yes")[0] == 0
    assert [ran[0] for ran in verbs.ran] == ["upgrade"]
    code, _, err = cli("maintain", "--due", "--yes")
    assert (code, f"window {one['id']} was not begun by 2099-01-01 20:00" in err) == (5, True)


def test_what_is_told_again_somewhere_is_over_only_where_all_have_it(
    ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A node that still shows a window has it; the records of all machines say so."""
    one = announced(ansible, cli, monkeypatch, now=False)
    code, out, _ = cli("maintain", "--cancel", one["id"], "--limit", "node2", "--yes", "--json")
    assert (code, json.loads(out)["result"]["over"], shown(cli)) == (0, [], [one])
    ansible.answer = RunResult({"node1": HostResult("failed", message="no")})
    later = ("--from", "2099-01-02 18:00", "--until", "2099-01-02 20:00")
    code, out, _ = cli("maintain", "--move", one["id"], *later, "--yes", "--json")
    assert (code, json.loads(out)["result"].get("over"), one in shown(cli)) == (3, None, True)


def test_what_is_left_alone_when_its_time_comes(
    ansible: Ansible, cli: Cli, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A window without a verb is somebody's work by hand, and goes on; one of another day is over."""
    prepare(ansible, queue=False)
    assert cli(*WINDOW)[0] == 0
    (one,) = shown(cli)
    monkeypatch.setattr(time, "time", lambda: one["begin"] + 1)
    assert cli("maintain", "--due", "--yes")[0] == 0
    assert shown(cli) == [one]
    assert cli(*WINDOW[:-1], "node2", "--", "reboot", "node2")[0] == 0

    class Later(date):
        @classmethod
        def today(cls) -> date:
            return date(2099, 1, 3)

    monkeypatch.setattr(time, "time", lambda: one["begin"] + 2 * 86400)
    monkeypatch.setattr("gpuadmin.actions.maintain.date", Later)
    assert cli("maintain", "--due", "--yes")[0] == 0, "it is not told for ever"
    assert verbs.ran == []


def test_a_window_whose_nodes_slurm_keeps_is_not_over(
    ansible: Ansible, cli: Cli, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare(ansible)
    assert cli(*WINDOW)[0] == 0
    (one,) = shown(cli)
    monkeypatch.setattr(time, "time", lambda: one["begin"] + 1)
    ansible.answer = RunResult({"storage1": HostResult("failed", message="no")})
    assert cli("maintain", "--begin", one["id"], "--yes")[0] == 3
    assert ansible.asked[-1].playbook == "run", "logins still show it"
    assert states(cli) == [f"begun by {who()}: failed"]


def other_machine(site: Path, run: dict[str, Any], result: dict[str, Any] | None) -> None:
    """Write the record of another machine's run, as the storage host gives it."""
    name = "20990101T090100-maintain-abcd"
    whole = {"id": name, "verb": "maintain", "arguments": [], "check": False, "who": "kim@laptop", "plan": {
        "title": "x", "steps": [], "warnings": []}, "started": "2099-01-01T09:01:00+00:00"} | run  # fmt: skip
    found = {"run.json": json.dumps(whole)}
    if result is not None:
        ended = {"status": "ok", "exit_code": 0, "ended": whole["started"], "result": result}
        found["result.json"] = json.dumps(ended)
    records.receive(site / "runs", name, found)


@pytest.mark.holds("a window that another machine ended or called off is over")
@pytest.mark.holds("what became of a window that was announced again counts for that one no more")
def test_what_another_machine_did_of_it(
    ansible: Ansible, cli: Cli, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = announced(ansible, cli, monkeypatch)
    site = Path(str(ansible.site))
    title = {
        "title": f"Window {one['id']}: {next(iter(one['texts'].values())).splitlines()[0]}",
        "steps": [],
        "warnings": [],
    }
    other_machine(site, {"plan": title}, None)
    code, _, err = cli("maintain", "--due", "--yes")
    assert (code, "was begun by kim@laptop, and that was cut off" in err, verbs.ran) == (5, True, [])
    # an odd record, a check, and one from before it was announced say nothing
    for run, result in (({}, {"over": 3}), ({"check": True}, {"over": [one["id"]]}),
                        ({"started": "2001-01-01T00:00:00+00:00"}, {"over": [one["id"]]})):  # fmt: skip
        other_machine(site, run, result)
        assert states(cli) == ["announced"], (run, result)
    other_machine(site, {}, {"over": [one["id"]]})
    assert states(cli) == ["taken back"]
    assert cli("maintain", "--due", "--yes")[0] == 0
    assert verbs.ran == []


@pytest.mark.holds("a window that somebody was calling off when their run was cut is not begun by itself")
def test_a_window_whose_calling_off_was_cut(
    ansible: Ansible, cli: Cli, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its nodes may take jobs again by then. Who only looked has called nothing off."""
    one = announced(ansible, cli, monkeypatch)
    title = f"Take back: {one['texts']['en'].splitlines()[0]}"
    plan = {"plan": {"title": title, "steps": [], "warnings": []}}
    site = Path(str(ansible.site))
    for run, result in ((plan | {"check": True}, None), (plan, {"over": []})):
        other_machine(site, run, result)
        assert states(cli) == ["announced"]
    (site / "runs/20990101T090100-maintain-abcd/result.json").unlink()
    code, _, err = cli("maintain", "--due", "--yes")
    assert (code, "was called off by kim@laptop, and that was cut off" in err, verbs.ran) == (5, True, []), err


@pytest.mark.holds("a window whose beginning nobody else can read is not begun")
def test_a_storage_host_that_is_lost_meanwhile(
    ansible: Ansible, cli: Cli, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = announced(ansible, cli, monkeypatch)

    class Lost:
        def keep(self, identity: str) -> None:
            raise UnreachableError("storage1: timed out")

    monkeypatch.setattr("gpuadmin.session._locked_everywhere", lambda session, stack: Lost())
    assert cli("maintain", "--begin", one["id"], "--yes")[0] == 4
    assert verbs.ran == []


@pytest.mark.holds("no window begins by itself where nobody says what other machines did of it")
def test_a_storage_host_that_lost_the_history(
    ansible: Ansible, cli: Cli, verbs: Verbs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after it was installed again: any other run goes on and brings it back."""
    announced(ansible, cli, monkeypatch)
    (Path(str(ansible.site)) / "gpuadmin.yml").write_text("name: test\nruns: {shared: true}\n")

    def lost(site: object, host: object) -> None:
        raise UnreachableError(f"storage1: {NOT_YET}")

    monkeypatch.setattr("gpuadmin.session.SiteHistory", lost)
    code, _, err = cli("maintain", "--due", "--yes")
    assert (code, "what other machines did" in err, verbs.ran) == (5, True, [])


def test_a_site_without_a_queue(ansible: Ansible, cli: Cli) -> None:
    prepare(ansible, queue=False)
    code, out, err = cli(*WINDOW)
    assert code == 0, err
    assert "no grant of a GPU is kept that would run into it" in out
    assert [one.playbook for one in ansible.asked] == ["announce"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--from", "tomorrow", *TIMES[2:], "--reason", "x", "node1"), "'tomorrow' is not a time\nHint: write it"),
        ((*TIMES[:2], "--until", "2099-02-30", "--reason", "x", "node1"), "--until '2099-02-30' is not a time\nHint: "),
        ((*TIMES, "--reason", "", "node1"), "--reason is empty: people read why"),
        ((*TIMES, "--reason", "x", "node9"), "HOSTS node9: names no host of this site"),
        (("--from", "2099-01-02", "--until", "2099-01-01", "--reason", "x", "node1"), "01: is not after --from"),
        (
            ("--from", "2020-01-01", "--until", "2020-01-02", "--reason", "x", "node1"),
            "2020-01-02: is in the past\nHint",
        ),
        ((*TIMES, "--reason", "{{ x }}", "node1"), "--reason: holds the template marker"),
        ((*TIMES, "--reason", "x", "storage1"), "this names no node\nHint: HOSTS names nodes"),
        ((*TIMES, "--reason", "x", "node1", "--", "rebot", "node1"), "rebot is not a verb of gpuadmin"),
        ((*TIMES, "--reason", "x", "node1", "--", "reboot", "--idle", "node1"), "No such option '--idle'"),
        ((*TIMES, "--reason", "x", "node1", "--", "check"), "No such option '--yes'"),  # nobody is there to agree
        ((*TIMES, "node1"), "HOSTS need --from, --until and --reason"),
        (TIMES, "which nodes?"),
        (("--cancel", "x", "--move", "y"), "one of them"),
        (("--cancel", "x"), "there is no announcement 'x'"),
    ],
)
def test_what_is_refused(ansible: Ansible, cli: Cli, words: tuple[str, ...], why: str) -> None:
    prepare(ansible)
    code, _, err = cli("maintain", *words)
    assert (code != 0, why in err) == (True, True), err
