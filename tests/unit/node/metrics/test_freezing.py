"""A person's slice stands still, and goes on in any case: real cgroups, real processes."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import freezing
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.freezing import frozen

from tests.support.slices import own_slice

pytestmark = pytest.mark.root
UID = 47001


@pytest.fixture
def slice_(request: pytest.FixtureRequest) -> Iterator[Path]:
    with own_slice(UID) as path:
        yield path


def state(slice_: Path) -> str:
    return (slice_ / "cgroup.freeze").read_text().strip()


def test_it_stands_still_and_goes_on(slice_: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as running:
        (slice_ / "cgroup.procs").write_text(str(running.pid))
        with frozen(UID, str(slice_.parents[1])):
            assert "frozen 1\n" in (slice_ / "cgroup.events").read_text()
        assert state(slice_) == "0"
        with pytest.raises(RuntimeError, match="x"), frozen(UID, str(slice_.parents[1])):
            raise RuntimeError("x")
        assert state(slice_) == "0"
        running.kill()


def test_it_goes_on_when_whoever_froze_it_is_killed(slice_: Path) -> None:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        with frozen(UID, str(slice_.parents[1])):
            os.write(writer, b"x")
            time.sleep(60)  # until it is killed
    assert os.read(reader, 1) == b"x"
    assert state(slice_) == "1"
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    end = time.monotonic() + 5
    while state(slice_) == "1" and time.monotonic() < end:
        time.sleep(0.02)  # a process of another one's child does it
    assert state(slice_) == "0"


def test_it_goes_on_after_a_while_in_any_case(slice_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezing, "LONGEST", 0.2)
    monkeypatch.setattr(freezing, "PATIENCE", 0.1)
    with frozen(UID, str(slice_.parents[1])):
        time.sleep(1)  # five times as long
        assert state(slice_) == "0"


def test_whoever_runs_it_is_not_frozen(slice_: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(freezing, "find_owner", lambda pid: UID)
    with frozen(UID, str(slice_.parents[1])):
        assert state(slice_) == "0"


def test_where_there_is_no_slice_nothing_is_done(tmp_path: Path) -> None:
    with frozen(UID, str(tmp_path)):
        assert list(tmp_path.iterdir()) == []
