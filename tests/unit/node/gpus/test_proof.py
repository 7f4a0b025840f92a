"""The proof: a process in the unit's own cgroup tries. What could not be tried is not called closed."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import proof

BASES = ("/sys/fs/cgroup/unified", "/sys/fs/cgroup")


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
    base = next((one for one in BASES if Path(one, "cgroup.controllers").exists()), None)
    if base is None:
        pytest.skip("this machine mounts no cgroup v2")
    try:
        own = Path(base) / f"gpuadmin-test-{os.getpid()}"
        own.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error.strerror}")
    try:
        (own / proof.NAME).mkdir()  # left by one that was killed
        assert proof.opens(str(own), ["/dev/null", str(tmp_path / "none")]) == ["/dev/null"]
        assert list(own.glob("*/")) == [], "nothing of it is left"
    finally:
        own.rmdir()
