"""What people read on their terminals."""

import os
import pty
import select
from collections import deque
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import terminals


@pytest.fixture
def terminal() -> Iterator[tuple[int, str]]:
    """A pseudo-terminal that somebody has open: the end that shows, and the path of the other."""
    ours, theirs = pty.openpty()
    yield ours, os.ttyname(theirs)
    os.close(theirs)
    os.close(ours)


def shown(handle: int) -> str:
    data = b""
    while select.select([handle], [], [], 0)[0]:
        data += os.read(handle, 4096)
    return data.decode()


def devices(tmp_path: Path, *paths: str) -> str:
    (tmp_path / "pts").mkdir()
    for number, path in enumerate(paths):
        (tmp_path / "pts" / str(number)).symlink_to(path)
    return str(tmp_path)


def test_everybody_is_told(tmp_path: Path, terminal: tuple[int, str]) -> None:
    handle, path = terminal
    assert terminals.tell("The node reboots now.\n지금 재부팅됩니다.", devices(tmp_path, path)) == 1
    assert "The node reboots now.\r" in shown(handle)


def test_one_person_alone_is_told(tmp_path: Path, terminal: tuple[int, str]) -> None:
    handle, path = terminal
    where, whose = devices(tmp_path, path), Path(path).stat().st_uid
    assert terminals.tell("not for you", where, uid=whose + 1) == 0
    assert terminals.tell("for you", where, uid=whose) == 1
    assert "not for you" not in shown(handle)


def test_nothing_that_a_terminal_would_obey(tmp_path: Path, terminal: tuple[int, str]) -> None:
    handle, path = terminal
    terminals.tell("one\x1b[2Jtwo\x07", devices(tmp_path, path))
    said = shown(handle)
    assert "one[2Jtwo\r" in said
    assert "\x1b" not in said


def test_a_terminal_that_is_stopped_holds_up_nobody(tmp_path: Path, terminal: tuple[int, str]) -> None:
    """Its buffer is full, since nobody reads it; another's is not, and a third has gone."""
    handle, path = terminal
    stopped, theirs = pty.openpty()
    os.set_blocking(theirs, False)
    with pytest.raises(BlockingIOError):
        deque(iter(lambda: os.write(theirs, b"x"), 0), maxlen=0)
    where = devices(tmp_path, os.ttyname(theirs), "/dev/pts/999999", path)
    assert terminals.tell("hello", where) == 1
    assert "hello" in shown(handle)
    os.close(theirs)
    os.close(stopped)


def test_only_terminals(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    assert terminals.tell("hello", devices(tmp_path, str(file))) == 0
    assert file.read_text() == ""


@pytest.mark.root  # gives files to other users
def test_consoles_of_people(tmp_path: Path) -> None:
    """A console that nobody has logged in at belongs to root; ptmx and names that are no terminals are left out."""
    where = devices(tmp_path)
    for name, uid in (("tty1", 0), ("tty2", 20000), ("ttyS0", 20001), ("tty", 20000), ("ttyprintk", 20000)):
        (tmp_path / name).write_text("")
        os.chown(tmp_path / name, uid, uid)
    (tmp_path / "pts/ptmx").write_text("")
    assert terminals.in_use(where) == [f"{where}/tty2", f"{where}/ttyS0"]


def test_a_console_that_is_unplugged_silences_no_other(tmp_path: Path) -> None:
    (tmp_path / "ttyUSB0").symlink_to(tmp_path / "gone")
    (tmp_path / "pts").mkdir()
    (tmp_path / "pts/0").touch()
    assert terminals.in_use(str(tmp_path)) == [str(tmp_path / "pts/0")]
