"""Whether a device can be opened from within a unit, and where people run outside of every unit with a gate."""

import os
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import trials

from tests.support.slices import own_cgroup


def test_what_cannot_be_tried_is_not_closed(tmp_path: Path) -> None:
    """This is not a cgroup: it has no cgroup.procs, so nobody was moved."""
    with pytest.raises(OSError, match="no process could be put"):
        trials.opens(str(tmp_path), ["/dev/null"])


@pytest.mark.root
def test_what_can_be_opened_from_a_cgroup(tmp_path: Path) -> None:
    own = own_cgroup()
    try:
        (own / trials.NAME).mkdir()  # left by one that was killed
        assert trials.opens(str(own), ["/dev/null", str(tmp_path / "none")]) == ["/dev/null"]
        assert list(own.glob("*/")) == [], "nothing of it is left"
    finally:
        own.rmdir()


@pytest.mark.root
@pytest.mark.holds("a trial that hangs holds up nobody")
def test_a_trial_in_a_frozen_cgroup_ends(tmp_path: Path) -> None:
    own = own_cgroup()
    try:
        (own / "cgroup.freeze").write_text("1")
        began = time.monotonic()
        with pytest.raises(OSError, match=r"no answer in"):
            trials.opens(str(own), ["/dev/null"], 0.3)
        assert time.monotonic() - began < 5
        assert list(own.glob("*/")) == [], "nothing of it is left"
    finally:
        (own / "cgroup.freeze").write_text("0")
        own.rmdir()


@pytest.mark.root
@pytest.mark.holds("what can only be read, or only be written, is open")
def test_what_can_only_be_read_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver answers whoever has a device open, whatever for."""
    own = own_cgroup()
    monkeypatch.setattr(trials.os, "access", lambda path, way: way == os.R_OK)
    try:
        assert trials.opens(str(own), ["/dev/null"]) == ["/dev/null"]
    finally:
        own.rmdir()


@pytest.mark.holds("a process that the kernel does not let go holds up nobody")
def test_a_process_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def waitpid(pid: int, how: int) -> tuple[int, int]:
        asked.append(pid)
        assert len(asked) < 5000
        return 0, 0

    monkeypatch.setattr(trials.os, "waitpid", waitpid)
    trials._reap(1)


@pytest.mark.holds("nobody has a trial ended by using up their memory")
def test_a_trial_is_not_what_the_kernel_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files stand in for the cgroup and the kernel's."""
    procs, spared = tmp_path / trials.NAME / "cgroup.procs", tmp_path / "oom_score_adj"
    procs.parent.mkdir()
    for one in (procs, spared):
        one.touch()
    monkeypatch.setattr(trials, "SPARED", str(spared), raising=False)
    assert trials.opens(str(tmp_path), ["/dev/null"]) == ["/dev/null"]
    assert spared.read_text() == "-1000"
    assert spared.stat().st_mtime_ns <= procs.stat().st_mtime_ns, "before it is in the cgroup"
    monkeypatch.setattr(trials, "SPARED", str(tmp_path / "none"))
    assert trials.opens(str(tmp_path), ["/dev/null"]) == ["/dev/null"]


NAMES = {20000: "minji", 20001: "jiho", 1000: "admin", 61500: "a-service", 999: "daemon", 0: "root"}


@pytest.mark.holds(
    "a process's name that is not a text stops nothing",
    "nobody is taken for root by what they call their process",
    "what somebody calls a cgroup of theirs stops nothing",
)
def test_only_people_outside_of_all_slices_and_units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trials, "find_name", NAMES.get)
    cgroups = {
        11: (20000, "/user.slice/user-20000.slice/session-1.scope"),
        12: (20001, "/user.slice/user-20000.slice/session-1.scope"),  # by su: closed as minji is
        13: (20000, "/system.slice/cron.service"),
        14: (20000, "/system.slice/system-ssh.slice/ssh@1.service/x"),
        15: (1000, "/system.slice/a.service"),
        16: (61500, "/system.slice/b.service"),
        17: (999, "/system.slice/c.service"),
        18: (524288, "/machine.slice/x.service"),  # nobody's name
        19: (20000, "/system.slice/hub.service"),
        20: (20001, "/system.slice/hub.service"),
        21: (20001, "/"),
    }
    for pid, (uid, cgroup) in cgroups.items():
        own = tmp_path / str(pid)
        own.mkdir()
        (own / "status").write_text(f"Name:\tx\\nUid:\t0\nUid:\t{uid}\t0\t0\t0\n")
        (own / "cgroup").write_text(f"0::{cgroup}\n")
    (tmp_path / "22").mkdir()  # it has just ended
    # people name their processes and cgroups as they like
    odd = tmp_path / "23"
    odd.mkdir()
    (odd / "status").write_bytes(b"Name:\t\xff\rUid:\t0\nUid:\t20001\t0\t0\t0\n")
    (odd / "cgroup").write_bytes("0::/odd/ñ\n".encode())
    found = trials.of_people(["cron.service", "ssh@1.service"], [0, 1000], str(tmp_path))
    assert set(found) == {"/system.slice/hub.service", "/", "/odd/\ufffd\ufffd"}
    assert found["/system.slice/hub.service"] in (20000, 20001)
