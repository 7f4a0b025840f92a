"""The proof: a process in the unit's own cgroup tries. What could not be tried is not called closed."""

import os
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import proof

from tests.support.slices import own_cgroup


def test_what_cannot_be_tried_is_not_closed(tmp_path: Path) -> None:
    """This is not a cgroup: it has no cgroup.procs, so nobody was moved."""
    with pytest.raises(OSError, match="no process could be put"):
        proof.opens(str(tmp_path), ["/dev/null"])


@pytest.mark.root
def test_what_can_be_opened_from_a_cgroup(tmp_path: Path) -> None:
    own = own_cgroup()
    try:
        (own / proof.NAME).mkdir()  # left by one that was killed
        assert proof.opens(str(own), ["/dev/null", str(tmp_path / "none")]) == ["/dev/null"]
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
            proof.opens(str(own), ["/dev/null"], 0.3)
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
    monkeypatch.setattr(proof.os, "access", lambda path, way: way == os.R_OK)
    try:
        assert proof.opens(str(own), ["/dev/null"]) == ["/dev/null"]
    finally:
        own.rmdir()


@pytest.mark.holds("a process that the kernel does not let go holds up nobody")
def test_a_process_that_does_not_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def waitpid(pid: int, how: int) -> tuple[int, int]:
        asked.append(pid)
        assert len(asked) < 5000
        return 0, 0

    monkeypatch.setattr(proof.os, "waitpid", waitpid)
    proof._reap(1)


@pytest.mark.holds("nobody has a trial ended by using up their memory")
def test_a_trial_is_not_what_the_kernel_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files stand in for the cgroup and the kernel's."""
    procs, spared = tmp_path / proof.NAME / "cgroup.procs", tmp_path / "oom_score_adj"
    procs.parent.mkdir()
    for one in (procs, spared):
        one.touch()
    monkeypatch.setattr(proof, "SPARED", str(spared), raising=False)
    assert proof.opens(str(tmp_path), ["/dev/null"]) == ["/dev/null"]
    assert spared.read_text() == "-1000"
    assert spared.stat().st_mtime_ns <= procs.stat().st_mtime_ns, "before it is in the cgroup"
    monkeypatch.setattr(proof, "SPARED", str(tmp_path / "none"))
    assert proof.opens(str(tmp_path), ["/dev/null"]) == ["/dev/null"]
