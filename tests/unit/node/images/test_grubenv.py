"""The two words that say what boots, on a boot partition that is mounted read-only."""

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import grubenv

from tests.unit.node.images.conftest import run

pytestmark = pytest.mark.root  # mounts a disk
Mount = Callable[..., Path]


@pytest.fixture
def boot(tmp_path: Path) -> Iterator[Mount]:
    """Mounts a disk with a grubenv read-only; with an option of losetup, too."""
    disk, top, content = tmp_path / "disk", tmp_path / "boot", tmp_path / "content"
    top.mkdir()
    content.mkdir()
    (content / "grubenv").write_bytes(grubenv.render({"current": "base"}))
    with disk.open("wb") as stream:
        stream.truncate(8 << 20)
    run("mkfs.ext2", "-q", "-d", content, disk)
    with ExitStack() as stack:

        def mount(*options: str) -> Path:
            device = run("losetup", "--find", "--show", *options, disk).strip()
            stack.callback(subprocess.run, ["losetup", "--detach", device], check=True)
            run("mount", "-o", "ro", device, top)
            stack.callback(subprocess.run, ["umount", str(top)], check=True)
            return top

        yield mount


def read_only(path: Path) -> bool:
    return bool(os.statvfs(path).f_flag & os.ST_RDONLY)


def test_it_is_writable_for_the_write_only(boot: Mount) -> None:
    top = boot()
    grubenv.write(str(top), trial="one")
    assert read_only(top)
    assert grubenv.read(str(top)) == {"current": "base", "trial": "one"}


def test_a_disk_that_cannot_be_written(boot: Mount) -> None:
    """A disk that reports errors is read-only for good: a sentence, and nothing is written."""
    top = boot("--read-only")
    with pytest.raises(NodeError, match=r"the boot partition cannot be written: .* \(command: mount -o remount,rw"):
        grubenv.write(str(top), trial="one")
    assert grubenv.read(str(top)) == {"current": "base"}


def test_a_partition_that_stays_in_use(boot: Mount, capsys: pytest.CaptureFixture[str]) -> None:
    """What was to be written is written; that it stays writable is said."""
    top = boot()
    with ExitStack() as stack:
        real = grubenv.read

        def read(place: str) -> dict[str, str]:
            stack.enter_context((top / "open").open("w"))
            return real(place)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(grubenv, "read", read)
            grubenv.write(str(top), trial="one")
        assert "the boot partition stays writable" in capsys.readouterr().err
    assert grubenv.read(str(top))["trial"] == "one"


def test_a_disk_that_loses_what_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It does not read back as it was written: a node must not be rebooted on the strength of it."""
    (tmp_path / "grubenv").write_bytes(grubenv.render({"current": "base"}))
    monkeypatch.setattr(grubenv.os, "pwrite", lambda handle, data, offset: len(data))
    with pytest.raises(NodeError, match="does not read back as it was written"):
        grubenv.write(str(tmp_path), trial="one")
    assert grubenv.read(str(tmp_path)) == {"current": "base"}
    assert capsys.readouterr().err == "", "a partition that was writable stays so"


def test_grubenv_is_a_block_of_1024_bytes() -> None:
    block = grubenv.render({"current": "a", "trial": "b+2"})
    assert len(block) == 1024
    assert grubenv.parse(block) == {"current": "a", "trial": "b+2"}
    for bad in (block[:-1], b"x" * 1024, b""):
        with pytest.raises(NodeError, match="damaged"):
            grubenv.parse(bad)
    with pytest.raises(NodeError, match="do not fit"):
        grubenv.render({"current": "a" * 1100})
    with pytest.raises(NodeError, match=r"grubenv cannot be read: .*No such file"):
        grubenv.read("/nowhere")


def test_what_others_wrote_there_stays() -> None:
    """A comment of grub-editenv's is no variable; a byte that is no text, of a disk that forgets, is no traceback."""
    lines = b"# WARNING: x=y\nodd\nkept=\xff\ncurrent=a\n"
    found = grubenv.parse((grubenv.HEADER + lines).ljust(grubenv.SIZE, b"#"))
    assert found == {"kept": "\udcff", "current": "a"}
    assert b"kept=\xff\n" in grubenv.render(found)
