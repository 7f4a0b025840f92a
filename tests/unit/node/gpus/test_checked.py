"""What the last check of modules and libraries found, and when it is not asked any more."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import checked, kernels
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.judge import Expected, judge
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Places, look

from tests.support.gpu_kernels import NEW, OLD, VERSION, Root, read, whole
from tests.support.gpu_node import DIRECTORY


@pytest.fixture
def root(tmp_path: Path) -> Root:
    made = Root(tmp_path / "root")
    made.kernel(OLD)
    made.kernel(NEW)
    whole(made)
    return made


class Counted:
    """Reads a module's version, and counts how often."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, path: str) -> str | None:
        self.times += 1
        return read(path)


def upgraded(root: Root, version: str = "560.35.03") -> None:
    """Libraries of another version, as an upgrade brings them whose module could not be built."""
    root.library(version)
    root.library(version, "libcuda.so.1")


def test_what_was_found_is_kept_while_the_files_are_the_same(root: Root) -> None:
    place, reader = str(root.path), Counted()
    assert checked.check(place, reader) == []
    assert reader.times == 2
    assert checked.problems(place, reader) == []
    assert reader.times == 2, "nobody unpacks the modules again"
    record = root.path / checked.RECORD
    assert stat.S_IMODE(record.stat().st_mode) == 0o600
    assert stat.S_IMODE(record.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    "change",
    [
        upgraded,
        lambda root: (root.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko").unlink(),
        lambda root: (root.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko").write_text("550.1"),
        lambda root: root.kernel("6.12.99+deb13-cloud-amd64"),
    ],
    ids=["libraries", "deleted", "built again", "kernel"],
)
def test_what_was_kept_is_not_told_when_something_is_another_file(root: Root, change: object) -> None:
    place = str(root.path)
    assert checked.check(place, read) == []
    assert callable(change)
    change(root)
    wrong = kernels.problems(kernels.look(place, read))
    assert wrong
    assert checked.problems(place, read) == wrong
    # and when it is as it should be again, nothing of it is left
    assert checked.check(place, read) == wrong
    assert checked.problems(place, lambda _: pytest.fail("it was checked")) == wrong


def _replaced(path: Path, facts: os.stat_result) -> None:
    """By another file, as long and as old."""
    other = path.with_name("new")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(facts.st_atime_ns, facts.st_mtime_ns))
    other.rename(path)


def _shortened(path: Path, facts: os.stat_result) -> None:
    """In place, and as old: a copy that was cut off, and given its time."""
    os.truncate(path, facts.st_size - 1)
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def _written(path: Path, facts: os.stat_result) -> None:
    """In place, and as long."""
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1))


@pytest.mark.parametrize("change", [_replaced, _shortened, _written])
def test_each_way_to_be_another_file_is_seen(root: Root, change: Callable[[Path, os.stat_result], None]) -> None:
    module = root.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko"
    before = checked.files(str(root.path))
    change(module, module.stat())
    assert checked.files(str(root.path)) != before


def test_repaired_by_hand_it_is_not_wrong_any_more(root: Root) -> None:
    place = str(root.path)
    module = root.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko"
    module.unlink()
    assert len(checked.check(place, read)) == 1
    module.write_text(VERSION)
    assert checked.problems(place, read) == []


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"files": 1, "problems": []}', '{"files": []}'])
def test_without_a_record_that_can_be_read_it_looks(root: Root, text: str | None) -> None:
    upgraded(root)
    if text is not None:
        (root.path / "run/gpuadmin").mkdir(parents=True)
        (root.path / checked.RECORD).write_text(text)
    assert len(checked.problems(str(root.path), read)) == 2


def test_what_changes_while_it_looks_is_looked_at_again(root: Root) -> None:
    """A package manager works on: what is kept must be of the files that are there at the end."""
    once = iter([lambda: upgraded(root)])

    def reading(path: str) -> str | None:
        next(once, lambda: None)()
        return read(path)

    wrong = checked.check(str(root.path), reading)
    assert [one for one in wrong if "560.35.03" in one]
    assert json.loads((root.path / checked.RECORD).read_text())["files"] == checked.files(str(root.path))


def test_the_command_says_it_and_does_not_fail(root: Root, capsys: pytest.CaptureFixture[str]) -> None:
    upgraded(root)
    assert checked.main(str(root.path), read) == 0
    assert capsys.readouterr().out.startswith(f"Warning: kernel {OLD}: its module nvidia is {VERSION}")


def test_list_gpus_says_it(root: Root) -> None:
    (root.path / "usr/lib/modules" / NEW / "updates/dkms/nvidia-current.ko").unlink()
    (root.path / DIRECTORY / "nvidia/current/libnvidia-ml.so.550.163.01").write_text("")
    checked.check(str(root.path), read)
    bus = root.path / "sys/bus/pci/devices"
    bus.mkdir(parents=True)
    seen = look(Places(str(root.path), str(bus), (), str(root.path / "kmsg"), str(root.path / "run/lock")))
    (words,) = seen.kernels
    assert words.startswith(f"kernel {NEW} has no module nvidia")
    assert words in judge(seen, Expected()).worse
