"""The disk and the store are mounted for as long as they are needed, and what was there before stays."""

import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import mounting
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import ImageSettings, Places
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import keep_own, read_mountinfo
from ansible_collections.gpuadmin.node.plugins.module_utils.run import run

MOUNTINFO = "1 0 0:1 / / rw - btrfs /dev/vda2 rw\n"


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What would be run."""
    called: list[tuple[str, ...]] = []
    monkeypatch.setattr(mounting, "run", lambda command, **_: called.append(command))
    monkeypatch.setattr(mounting, "run_command", called.append)
    monkeypatch.setattr(mounting, "read_mountinfo", lambda: MOUNTINFO)
    return called


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(top=str(tmp_path / "top"), store=str(tmp_path / "store"))


def test_both_are_mounted_and_given_back_in_turn(places: Places, commands: list[tuple[str, ...]]) -> None:
    with mounting.mounted(places, ImageSettings(store="storage:/images"), store="ro"):
        assert [command[-1] for command in commands] == [places.top, places.top, places.store]
        assert commands[0][-2] == "/dev/vda2"
        assert commands[2][4].startswith("ro,soft,")
    assert commands[3:] == [("umount", "-l", places.store), ("umount", "-l", places.top)]


def test_what_somebody_else_has_mounted_stays(
    places: Places, commands: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mounting.os.path, "ismount", lambda _: True)
    with mounting.mounted(places, ImageSettings(store="storage:/images"), store="rw"):
        pass
    assert commands == []


def test_a_node_that_knows_no_store_is_told_and_the_disk_is_given_back(
    places: Places, commands: list[tuple[str, ...]]
) -> None:
    with pytest.raises(NodeError, match="prepare-root"), mounting.mounted(places, ImageSettings(), store="ro"):
        pytest.fail("there is nothing to work with")
    assert commands[-1] == ("umount", "-l", places.top)


def test_an_error_inside_gives_them_back(places: Places, commands: list[tuple[str, ...]]) -> None:
    with pytest.raises(NodeError, match="inside"), mounting.mounted(places, ImageSettings(), store=None):
        raise NodeError("inside")
    assert commands[-1] == ("umount", "-l", places.top)


@pytest.fixture
def tmpfs(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the disk and of the store."""

    def mount(command: tuple[str, ...], **words: str) -> str:
        new = ("mount", "-t", "tmpfs", "none", command[-1])
        return run(new if command[1] == "-t" else command, **words)

    monkeypatch.setattr(mounting, "run", mount)


@pytest.mark.root
@pytest.mark.usefixtures("tmpfs")
def test_a_relay_that_ends_leaves_the_push_the_disk_and_the_store(places: Places) -> None:
    """Each has mounted them for itself, at the same places."""
    settings = ImageSettings(store="storage:/images")
    mounted, ended = os.pipe(), os.pipe()
    push = os.fork()
    if not push:
        keep_own()
        with mounting.mounted(places, settings, store="ro"):
            os.write(mounted[1], b".")
            os.read(ended[0], 1)
            os._exit(0 if os.path.ismount(places.top) and os.path.ismount(places.store) else 3)
    os.read(mounted[0], 1)
    relay = os.fork()
    if not relay:
        keep_own()
        with mounting.mounted(places, settings, store="ro"):
            pass
        os._exit(0)
    assert os.waitpid(relay, 0)[1] == 0
    os.write(ended[1], b".")
    assert os.waitstatus_to_exitcode(os.waitpid(push, 0)[1]) == 0
    for handle in (*mounted, *ended):
        os.close(handle)


@pytest.mark.root
@pytest.mark.usefixtures("tmpfs")
def test_a_look_that_is_killed_leaves_nothing_mounted(places: Places) -> None:
    before = read_mountinfo()
    top = Path(places.top).with_name("look-1000000000")
    top.mkdir()  # of another one that was killed
    child = os.fork()
    if not child:
        own = replace(places, top=str(top.with_name(f"look-{os.getpid()}")), own=True)
        with mounting.mounted(own, ImageSettings(), store=None):
            os.kill(os.getpid(), signal.SIGKILL if os.path.ismount(own.top) else signal.SIGABRT)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert read_mountinfo() == before
    assert not top.exists()
