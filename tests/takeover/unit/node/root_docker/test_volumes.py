"""What is in a volume, on real file systems: what comes along, what is named as not coming, and disks that are full."""

import os
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gpuadmin.takeover.node.root_docker import survey, volumes
from tests.support.docker_node import FIRST, MINJI, UID, Node, two_daemons
from tests.support.storage import mounted, run

pytestmark = pytest.mark.root  # a user namespace with many ids, mounts, device nodes
NO_ID = 0xFFFFFFFF
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 10, 0, 0, 0)  # linux/capability.h: one to bind low ports


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    with two_daemons(monkeypatch) as found:
        yield found


@contextmanager
def disk(place: Path, kind: str, options: str = "") -> Iterator[None]:
    """Another file system at a place, which stays its owner's."""
    owner = place.stat()
    run("mount", "-t", kind, *(("-o", options) if options else ()), kind, place)
    try:
        os.chown(place, owner.st_uid, owner.st_gid)
        place.chmod(owner.st_mode & 0o7777)
        yield
    finally:
        run("umount", place)


def acl(*users: int) -> bytes:
    """linux/posix_acl_xattr.h: tag, permissions, id of the owner, people, the group, the mask, others."""
    entries = [(1, 7, NO_ID), *((2, 5, one) for one in users), (4, 5, NO_ID), (16, 5, NO_ID), (32, 0, NO_ID)]
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)


def of_a_namespace(root: int) -> bytes:
    return struct.pack("<IIIIII", 0x03000001, 1 << 10, 0, 0, 0, root)


def made(place: Path, content: str = "x") -> Path:
    place.write_text(content)
    return place


def _attributes(top: Path) -> None:
    for name in ("file", "of-1000"):
        os.setxattr(made(top / name), "user.note", b"\0\xff=%\n")
    os.chown(top / "of-1000", 1000, 1000)
    (top / "of-1000").chmod(0o400)
    os.setxattr(top, "user.top", b"1")


def _modes(top: Path) -> None:
    for number, mode in enumerate((0o4755, 0o2755, 0o6711, 0o000, 0o777)):
        os.chown(made(top / f"{mode:o}"), number, 1000)
        (top / f"{mode:o}").chmod(mode)
    for mode in (0o1777, 0o2770, 0o500):
        (top / f"directory {mode:o}").mkdir()
        (top / f"directory {mode:o}").chmod(mode)
    os.chown(made(top / "last"), 65536, 65536)


def _links(top: Path) -> None:
    (top / "deep/er").mkdir(parents=True)
    made(top / "deep/one", "x" * 100_000)
    for number in range(5):
        os.link(top / "deep/one", top / f"deep/er/{number}")
    (top / "out").symlink_to("/etc/shadow")
    (top / "long").symlink_to("y" * 4000)
    (top / "odd").symlink_to(os.fsdecode(b"\xff\n"))
    os.lchown(top / "out", 1000, 1001)
    os.link(top / "out", top / "out-again", follow_symlinks=False)
    os.mkfifo(top / "pipe", 0o640)
    os.link(top / "pipe", top / "pipe-again")


def _sparse(top: Path) -> None:
    places = {"empty": (), "end": ((1 << 34) - 1,), "middle": (0, 1 << 20, 3 << 30), "zeros": (5 << 20,)}
    for name, parts in places.items():
        with (top / name).open("wb") as stream:
            for at in parts:
                stream.seek(at)
                stream.write(b"\0" * 5000 if name == "zeros" else b"x")
            stream.truncate(1 << 34)


def _names(top: Path) -> None:
    odd = (b"-rf", b"--help", b"a\nb", b"\xff\xfe", b" ", b"*", b"GNUSparseFile.0", b"%s", b"x" * 255, b"a=b")
    for name in odd:
        Path(os.fsdecode(os.fsencode(top) + b"/" + name)).write_bytes(name)
    deep = top
    for _ in range(10):
        deep = deep / ("y" * 250)
    deep.mkdir(parents=True)
    made(deep / "bottom")


def _times(top: Path) -> None:
    for number, nanoseconds in enumerate((0, -1_500_000_001, 2**33 * 10**9 + 123_456_789)):
        os.utime(made(top / str(number)), ns=(1, nanoseconds))
    (top / "directory").mkdir()
    os.utime(top / "directory", ns=(1, 1_234_567_891))
    (top / "to").symlink_to("x")
    os.utime(top / "to", ns=(1, 987_654_321), follow_symlinks=False)


@pytest.mark.parametrize("fill", [_attributes, _modes, _links, _sparse, _names, _times])
def test_what_comes_along(node: Node, fill: Callable[[Path], None]) -> None:
    fill(node.data)
    assert node.carry(volumes=("data",))["problems"] == {}
    assert node.differences() == []
    for one in node.copy.iterdir():
        assert one.lstat().st_blocks <= (node.data / one.name).lstat().st_blocks + 16, "holes are holes"


def test_acls_are_of_the_ids_in_containers(node: Node) -> None:
    """As well where the host has an account of that uid: 1 is `daemon`."""
    os.setxattr(made(node.data / "file"), "system.posix_acl_access", acl(1, 1000))
    os.mkfifo(node.data / "pipe")
    os.setxattr(node.data / "pipe", "system.posix_acl_access", acl(1000))
    (node.data / "in").mkdir()
    for place in (node.data, node.data / "in"):
        os.setxattr(place, "system.posix_acl_default", acl(65536))
    assert node.carry(volumes=("data",))["problems"] == {}
    assert os.getxattr(node.copy / "file", "system.posix_acl_access") == acl(FIRST, FIRST + 999)
    assert os.getxattr(node.copy / "pipe", "system.posix_acl_access") == acl(FIRST + 999)
    for place in (node.copy, node.copy / "in"):
        assert os.getxattr(place, "system.posix_acl_default") == acl(FIRST + 65535)


def test_capabilities_are_of_the_persons_namespace(node: Node) -> None:
    """They hold in her containers and nowhere else: on the host they would be root's."""
    values = {"plain": CAPABILITY, "of-root": of_a_namespace(0), "inner": of_a_namespace(1000), "of-1000": CAPABILITY}
    for name, value in values.items():
        place = made(node.data / name)
        os.chown(place, *((1000, 1000) if name == "of-1000" else (0, 0)))
        os.setxattr(place, "security.capability", value)
    assert node.carry(volumes=("data",))["problems"] == {}
    found = {name: os.getxattr(node.copy / name, "security.capability") for name in values}
    assert found.pop("inner") == of_a_namespace(FIRST + 999)
    assert set(found.values()) == {of_a_namespace(UID)}


def test_sockets_do_not_come_along(node: Node) -> None:
    made(node.data / "file")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(node.data / "socket"))
    assert node.carry(volumes=("data",))["problems"] == {}
    assert [one.name for one in node.copy.iterdir()] == ["file"]
    assert node.discard(volumes=("data",))["problems"] == {}


def test_an_immutable_file_is_one_that_she_may_change(node: Node) -> None:
    run("chattr", "+i", made(node.data / "file"))
    try:
        assert node.carry(volumes=("data",))["problems"] == {}
        assert node.differences() == []
        (node.copy / "file").write_text("hers")
    finally:
        run("chattr", "-i", node.data / "file")


def _attribute(name: str, value: bytes, at: Callable[[Path], Path]) -> Callable[[Path], None]:
    return lambda top: os.setxattr(at(top), name, value, follow_symlinks=False)


def _device(kind: int) -> Callable[[Path], None]:
    return lambda top: os.mknod(top / "device", kind | 0o666, os.makedev(1, 3))


def _file(top: Path) -> Path:
    return made(top / "file")


def _directory(top: Path) -> Path:
    (top / "directory").mkdir()
    return top / "directory"


def _link(top: Path) -> Path:
    (top / "link").symlink_to("file")
    return top / "link"


DEVICES = pytest.mark.holds("device nodes are named, not left out")
ROOTS = pytest.mark.holds("what only root can write is named, not left out")
IDS = pytest.mark.holds("an id that the person does not have is refused")
IN_ACLS = pytest.mark.holds("an id in an ACL counts as well")
REFUSED = [
    pytest.param(_device(0o020000), "has device nodes, which only root can make: 'device'", marks=DEVICES),
    pytest.param(_device(0o060000), "has device nodes, which only root can make: 'device'", marks=DEVICES),
    pytest.param(lambda top: os.mknod(top / "device", 0o020000), "has device nodes", marks=DEVICES, id="whiteout"),
    *(pytest.param(_attribute("trusted.x", b"1", at), "attributes that only root can set: trusted.x", marks=ROOTS)
      for at in (_file, _directory, _link, lambda top: top)),
    pytest.param(lambda top: os.chown(_file(top), 0, 65537), "has files of id 65537 ('file')", marks=IDS),
    pytest.param(lambda top: os.lchown(_link(top), 65537, 0), "has files of id 65537 ('link')", marks=IDS),
    pytest.param(lambda top: os.chown(top, 65537, 0), "has files of id 65537 ('.')", marks=IDS),
    pytest.param(_attribute("system.posix_acl_access", acl(1, 70000), _file), "of id 70000 ('file')", marks=IN_ACLS),
    pytest.param(_attribute("system.posix_acl_default", acl(70000), _directory), "of id 70000", marks=IN_ACLS),
    pytest.param(_attribute("security.capability", of_a_namespace(70000), _file), "of id 70000 ('file')",
                 marks=pytest.mark.holds("the namespace of a capability counts as well")),
]  # fmt: skip


@pytest.mark.parametrize(("fill", "words"), REFUSED)
def test_what_is_named_and_not_left_out(
    node: Node, monkeypatch: pytest.MonkeyPatch, fill: Callable[[Path], None], words: str
) -> None:
    monkeypatch.setattr(volumes, "_copy", lambda *_: pytest.fail("it is asked before anything is copied"))
    fill(node.data)
    assert words in node.refused()
    assert (node.hers.volumes, node.moved.volumes) == ({}, {})


@pytest.mark.holds("what a link of a volume leads to is not looked at")
def test_a_link_is_no_way_out_of_a_volume(node: Node) -> None:
    outside = made(node.root.root / "outside")
    os.chown(outside, 70000, 70000)
    os.setxattr(outside, "trusted.x", b"1")
    (node.data / "link").symlink_to(outside)
    assert node.carry(volumes=("data",))["problems"] == {}
    assert node.differences() == []


@pytest.mark.holds("what is mounted inside of a volume is neither copied nor removed")
@pytest.mark.parametrize("options", [("-t", "tmpfs", "tmpfs"), ("--bind", "OUTSIDE")])
def test_what_is_mounted_inside(node: Node, options: tuple[str, ...]) -> None:
    outside = node.root.root / "outside"
    outside.mkdir()
    made(outside / "of-somebody")
    (node.data / "disk").mkdir()
    run("mount", *(str(outside) if one == "OUTSIDE" else one for one in options), node.data / "disk")
    try:
        assert f"has something mounted inside: umount '{node.data}/disk'" in node.refused()
        assert node.hers.volumes == {}
        run("umount", node.data / "disk")
        assert node.carry(volumes=("data",))["problems"] == {}
        run("mount", *(str(outside) if one == "OUTSIDE" else one for one in options), node.data / "disk")
        assert "mounted inside" in node.discard(volumes=("data",))["problems"]["volume data"]
        assert node.root.volumes
    finally:
        run("umount", node.data / "disk")


@pytest.mark.btrfs
def test_a_subvolume_is_refused_and_a_disk_of_its_own_is_not(node: Node, tmp_path: Path) -> None:
    node.data.rmdir()
    with mounted(tmp_path / "disk", node.data, 128):
        made(node.data / "file")
        run("btrfs", "subvolume", "create", node.data / "inner")
        assert "'inner' is on another file system" in node.refused()
        run("btrfs", "subvolume", "delete", node.data / "inner")
        assert node.carry(volumes=("data",))["problems"] == {}
        assert node.differences() == []


def _full(node: Node, words: str) -> None:
    """Nothing half is left, another volume fits, and with more room the same run does it."""
    assert words in node.refused()
    assert list((node.hers.root / volumes.STAGING).iterdir()) == []
    assert node.hers.volumes == {}
    made(node.root.volume("small") / "file")
    assert node.carry(volumes=("small",))["problems"] == {}


def test_a_volume_that_does_not_fit(node: Node) -> None:
    made(node.data / "file", "x" * (3 << 20))
    with disk(node.hers.root, "tmpfs", "size=2m"):
        _full(node, "has no room: it needs")
        run("mount", "-o", "remount,size=8m", node.hers.root)
        assert node.carry(volumes=("data",))["problems"] == {}
        assert node.differences() == []


@pytest.mark.holds("a full disk leaves nothing half")
@pytest.mark.parametrize(
    ("options", "words"), [("size=8m,nr_inodes=40", "No space left"), ("size=2m", "Wrote only 1536 of 10240")]
)
def test_a_disk_that_fills_while_it_is_copied(
    node: Node, monkeypatch: pytest.MonkeyPatch, options: str, words: str
) -> None:
    for number in range(60):
        made(node.data / str(number), "x" * (50 << 10))
    monkeypatch.setattr(volumes, "room", lambda *_: None)  # as if others had taken what was free
    with disk(node.hers.root, "tmpfs", options):
        _full(node, words)


@pytest.mark.holds("a full disk leaves nothing half")
def test_a_full_disk_of_the_hosts_own(node: Node) -> None:
    for number in range(1000):
        made(node.data / f"{number}", str(number))
    with disk(Path(node.arguments["state"]), "tmpfs", "size=24k"):
        _full(node, "No space left")


def test_a_file_of_many_names_needs_its_bytes_once(node: Node) -> None:
    made(node.data / "file", "x" * (3 << 20))
    for number in range(10):
        os.link(node.data / "file", node.data / f"{number}")
    assert survey.needed(str(node.data), MINJI) < 4 << 20
    with disk(node.hers.root, "tmpfs", "size=8m"):
        assert node.carry(volumes=("data",))["problems"] == {}


@pytest.mark.holds("what was copied is compared with what there is")
def test_what_her_disk_cannot_hold_is_named(node: Node, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # closed to her, as root's home is
    os.setxattr(made(node.data / "file", ""), "user.note", b"1")
    with disk(node.hers.root, "ramfs"):
        assert "'file' differs in attributes" in node.refused()
        assert node.hers.volumes == {}


def test_a_path_that_no_program_can_name(node: Node) -> None:
    here = Path.cwd()
    os.chdir(node.data)
    try:
        for _ in range(25):
            Path("y" * 250).mkdir()
            os.chdir("y" * 250)
    finally:
        os.chdir(here)
    assert "File name too long" in node.refused()
    assert list((node.hers.root / volumes.STAGING).iterdir()) == []
