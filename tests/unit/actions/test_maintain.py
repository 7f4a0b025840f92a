"""maintain: a window is announced, held by Slurm and by nodes, moved, called off, and begun."""

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.announcements import Announcements
from gpuadmin.results import HostResult, RunResult
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
    assert "gpuadmin reboot node1 (gpuadmin maintain --begin" in out
    assert [one.playbook for one in ansible.asked] == ["queue", "run", "announce"]
    (line,) = lines(ansible)
    begin = int(time.mktime((2099, 1, 1, 18, 0, 0, 0, 0, -1)))
    (window,) = shown(cli)
    assert f"create reservation ReservationName=gpuadmin-window-{window['id']} Nodes=node1 StartTime=uts{begin}" in line
    assert f"EndTime=uts{begin + 7200} Users=root Flags=MAINT,IGNORE_JOBS" in line
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


@pytest.mark.holds("nothing is done at another time than people were told")
@pytest.mark.holds("a window stays where its verb fails")
def test_its_verb_runs_at_its_time(ansible: Ansible, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    prepare(ansible)
    assert cli(*WINDOW, "--", "reboot", "node1")[0] == 0
    (one,) = shown(cli)
    ran: list[list[str]] = []
    status = [1]

    def run(command: list[str], check: bool, stdout: object) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        return subprocess.CompletedProcess(command, status[0])

    monkeypatch.setattr(subprocess, "run", run)
    code, _, err = cli("maintain", "--begin", one["id"], "--yes")
    assert (code, "the window is from 2099-01-01 18:00" in err, ran) == (5, True, [])
    monkeypatch.setattr(time, "time", lambda: one["begin"] + 1)
    assert cli("maintain", "--begin", one["id"], "--yes")[0] == 1
    assert len(shown(cli)) == 1
    status[0] = 0
    assert cli("maintain", "--begin", one["id"], "--yes")[0] == 0
    assert ran[-1][4:5] + ran[-1][-2:] == ["reboot", "--yes", "node1"]
    assert shown(cli) == []


def test_a_site_without_a_queue(ansible: Ansible, cli: Cli) -> None:
    prepare(ansible, queue=False)
    code, out, err = cli(*WINDOW)
    assert code == 0, err
    assert "no grant of a GPU is kept that would run into it" in out
    assert [one.playbook for one in ansible.asked] == ["announce"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (
            ("--from", "tomorrow", "--until", "2099-01-01", "--reason", "x", "node1"),
            "isoformat string: 'tomorrow'",
        ),
        (("--from", "2099-01-02", "--until", "2099-01-01", "--reason", "x", "node1"), "before --from, or past"),
        (("--from", "2020-01-01", "--until", "2020-01-02", "--reason", "x", "node1"), "before --from, or past"),
        ((*TIMES, "--reason", "{{ x }}", "node1"), "--reason: holds the template marker"),
        ((*TIMES, "--reason", "x", "storage1"), "this names no node"),
        ((*TIMES, "--reason", "x", "node1", "--", "rebot", "node1"), "rebot is no verb of gpuadmin"),
        ((*TIMES, "--reason", "x", "node1", "--", "reboot", "--idle", "node1"), "No such option '--idle'"),
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
