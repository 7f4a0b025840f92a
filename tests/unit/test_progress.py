"""What is shown while a run goes on: what is done, for whom it waits, since when and until when; and its log."""

import errno
import re
import time

import pytest

from gpuadmin.display import make_console
from gpuadmin.progress import Progress, slow

AT = r"\d\d:\d\d:\d\d"


@pytest.fixture(autouse=True)
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "SPARING", 0.04)


def test_a_wait_says_on_whom_since_when_and_until_when(capsys: pytest.CaptureFixture[str]) -> None:
    notes: list[str] = []
    with Progress(make_console(json=False), verbose=0, note=notes.append) as progress:
        trial = "Reboot, and wait for the outcome of the trial"
        progress.task(trial)
        for host in ("node1", "node2", "node3"):
            progress.host(host, "limit", "90")
            progress.host(host, "begun", trial)
        progress.host("node1", "done", "")
        progress.host("node2", "progress", "waits for minji")
        deadline = time.monotonic() + 30
        while len(notes) < 4 and time.monotonic() < deadline:
            time.sleep(0.01)  # the clock of the progress is a thread of its own
        assert re.fullmatch(
            "Reboot, and wait for the outcome of the trial: waiting for node2 \\(waits for minji\\), node3 "
            f"since {AT}, until {AT} at the latest",
            progress.waiting(),
        )
    out = capsys.readouterr().out
    assert "  working     node2: waits for minji" in out
    assert re.search(f"(?m)^… Reboot.*: waiting for .*node3 since {AT}, until {AT} at the latest$", out)
    assert re.match(f"{AT} Reboot", notes[0])


def test_who_has_done_it_is_not_waited_for() -> None:
    with Progress(make_console(json=False), verbose=0) as progress:
        progress.host("node1", "begun", "")
        assert "waiting for node1" in progress.waiting()
        progress.host("node1", "done", "")
        assert progress.waiting() == "Starting"


def test_hosts_that_are_at_different_tasks_are_named_with_theirs() -> None:
    """As with Ansible's free strategy: a host begins its task when another host's task has been announced already."""
    with Progress(make_console(json=False), verbose=0) as progress:
        progress.task("Install the NFS server")
        progress.task("Install Docker")
        progress.host("storage1", "begun", "Install the NFS server")
        for node in ("node1", "node2"):
            progress.host(node, "limit", "600")
            progress.host(node, "begun", "Install Docker")
        assert re.fullmatch(
            f"Install the NFS server: waiting for storage1 since {AT}; "
            f"Install Docker: waiting for node1, node2 since {AT}, until {AT} at the latest",
            progress.waiting(),
        )
        progress.host("node1", "begun", "Start Docker")
        assert re.search(f"Start Docker: waiting for node1 since {AT};", progress.waiting()), "it was for one task"


def test_a_look_does_not_say_what_it_does_not_do(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(make_console(json=False), verbose=0, doing="Looking at the hosts") as progress:
        progress.task("Make the homes")
        progress.host("storage1", "begun", "")
        assert re.fullmatch(f"Looking at the hosts: waiting for storage1 since {AT}", progress.waiting())
    assert "Make" not in capsys.readouterr().out


def test_what_ansible_checks_by_itself_is_not_shown(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(make_console(json=False), verbose=1) as progress:
        progress.task("Make the homes")
        progress.task("Validating arguments against arg spec apply - Homes")
        assert progress.waiting() == "Make the homes"
    assert capsys.readouterr().out == "… Make the homes\n"


def test_a_table_that_follows_says_it_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(make_console(json=False), verbose=0, quiet=True) as progress:
        progress.host("node1", "unreachable", "does not answer")
    assert capsys.readouterr().out == ""


def test_a_task_that_every_host_passes_over_is_not_what_goes_on() -> None:
    """The last task of a backup sends it to a second host, where there is one."""
    with Progress(make_console(json=False), verbose=0) as progress:
        progress.task("Read the backup again")
        progress.host("storage1", "begun", "")
        progress.host("storage1", "done", "")
        progress.task("Send the backup to the host of the second copies")
        progress.host("storage1", "begun", "")
        assert "Send" in progress.waiting()
        progress.host("storage1", "skipped", "")
        assert progress.waiting() == "Read the backup again"
        progress.host("storage2", "begun", "")
        assert "Send" in progress.waiting()
        progress.host("storage2", "done", "")
        assert progress.waiting() == "Send the backup to the host of the second copies"


def test_what_is_slow_before_there_is_a_log_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with slow("reading the site"):
        pass
    assert capsys.readouterr().err == ""
    with slow("reading the site", seconds=0.02):
        said, deadline = "", time.monotonic() + 30
        while not said and time.monotonic() < deadline:
            time.sleep(0.01)  # until its clock, a thread of its own, has spoken
            said = capsys.readouterr().err
    assert re.match(r"… reading the site takes long: \d+ s so far\n", said)


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_full_disk_takes_the_log_s_lines_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """The thread ended with a traceback in the middle of the screen, and no wait was shown any more."""
    tried: list[str] = []

    def full(line: str) -> None:
        tried.append(line)
        raise OSError(errno.ENOSPC, "No space left on device")

    with Progress(make_console(json=False), verbose=0, note=full) as progress:
        progress.task("Wait")
        deadline = time.monotonic() + 30
        while len(tried) < 3 and progress._clock.is_alive() and time.monotonic() < deadline:
            time.sleep(0.01)  # the clock of the progress is a thread of its own
    assert len(tried) >= 3
    assert capsys.readouterr().out.startswith("… Wait\n")
