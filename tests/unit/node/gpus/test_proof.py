"""The proof: a process in the unit's own cgroup tries. What could not be tried is not called closed."""

import os
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import proof

from tests.support.slices import own_cgroup


def test_where_a_unit_s_cgroup_is(tmp_path: Path) -> None:
    (tmp_path / "user.slice/user-20000.slice").mkdir(parents=True)
    (tmp_path / "system.slice/ssh.service").mkdir(parents=True)
    bases = (str(tmp_path / "none"), str(tmp_path))
    assert proof.cgroup_of("user-20000.slice", bases) == str(tmp_path / "user.slice/user-20000.slice")
    assert proof.cgroup_of("ssh.service", bases) == str(tmp_path / "system.slice/ssh.service")
    assert proof.cgroup_of("cron.service", bases) is None
    instance = tmp_path / "system.slice/system-ssh.slice/ssh@1-[::1]:22.service"
    instance.mkdir(parents=True)
    assert proof.cgroup_of("ssh@1-[::1]:22.service", bases) == str(instance)
    assert proof.cgroup_of("ssh@2.service", bases) is None


@pytest.mark.parametrize(
    ("events", "there"), [("populated 0\nfrozen 0\n", False), ("populated 1\nfrozen 0\n", True), (None, True)]
)
def test_whether_somebody_is_in_a_cgroup(tmp_path: Path, events: str | None, there: bool) -> None:
    if events is not None:
        (tmp_path / "cgroup.events").write_text(events)
    assert proof.populated(str(tmp_path)) is there


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
