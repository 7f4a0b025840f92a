"""Packing what somebody else made: nothing of it costs more than it holds, and nothing goes that no archive has."""

import io
import mmap
import os
import shutil
import socket
import struct
import subprocess
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import mounts
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import packing, tar_compare
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import homes, leftovers

from tests.support.lock_holder import held
from tests.support.storage import FIRST, Storage, mounted, run

root_only = pytest.mark.root  # mounts a tmpfs and makes devices
SECONDS = 120.0  # what reads holes takes years


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """A home on a file system that takes the largest files."""
    place = tmp_path / "homes"
    place.mkdir()
    run("mount", "-t", "tmpfs", "tmpfs", place)
    (place / "minji").mkdir()
    yield place / "minji"
    run("umount", place)


@pytest.fixture
def target(tmp_path: Path) -> str:
    return packing.archive_path(str(tmp_path / "archive"), "minji", 20001)


def sparse(path: Path, *data: tuple[int, bytes], size: int = 7 << 60) -> None:
    with path.open("wb") as stream:
        stream.truncate(size)
        for offset, content in data:
            stream.seek(offset)
            stream.write(content)


@root_only
def test_a_sparse_file_costs_what_is_in_it(home: Path, target: str) -> None:
    sparse(home / "empty")
    sparse(home / "thesis", (0, b"begin"), (3 << 40, b"middle" * 5000), ((7 << 60) - 3, b"end"))
    begun = time.monotonic()
    packing.pack(str(home), target, seconds=SECONDS)
    assert time.monotonic() - begun < SECONDS
    assert Path(target).stat().st_size < 100_000
    shutil.rmtree(home)
    run("tar", "--extract", f"--file={target}", f"--directory={home.parent}")
    assert (home / "empty").stat().st_size == 7 << 60
    with (home / "thesis").open("rb") as stream:
        stream.seek(3 << 40)
        assert stream.read(30_001) == b"middle" * 5000 + b"\0"
        stream.seek((7 << 60) - 3)
        assert stream.read() == b"end"


@pytest.mark.btrfs
def test_what_a_wipe_left_of_a_sparse_file(tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        place = point / "homes" / homes.TRASH / FIRST / "minji"
        Storage(point)
        place.mkdir(parents=True)
        sparse(place / "big")
        begun = time.monotonic()
        done = leftovers.clear(leftovers.Request(str(point / "homes"), str(point / "archive"), None, str(point)))
        assert time.monotonic() - begun < SECONDS
        assert done[f"{FIRST}/minji"]["kept"] == 0
        assert not place.exists()


def everything(home: Path) -> None:
    (home / "a").mkdir(mode=0o751)
    (home / "a" / "file").write_bytes(os.urandom(3_000_000))
    (home / "a" / "link").symlink_to(os.fsdecode(b"/no/where/\xff"))
    os.link(home / "a" / "file", home / "twin")
    os.link(home / "a" / "link", home / "zlink")
    (home / "new\nline *").write_bytes(b"1")
    Path(os.fsdecode(os.fsencode(home) + b"/\xff\xfe")).write_bytes(b"2")
    (home / "한글").write_bytes(b"3")
    (home / ("n" * 255)).write_bytes(b"4")
    deep = home.joinpath(*["d" * 250] * 12)
    deep.mkdir(parents=True)
    (deep / "file").write_bytes(b"5")
    os.mkfifo(home / "fifo")
    (home / "set").write_bytes(b"6")
    (home / "set").chmod(0o6755)
    os.utime(home / "set", ns=(0, -1_500_000_001))
    sparse(home / "holes", *[(number << 16, b"x") for number in range(0, 40, 2)], size=1 << 30)
    if os.geteuid() == 0:
        os.mknod(home / "device", 0o600 | 0o020000, os.makedev(1, 3))
        (home / "container").write_bytes(b"7")
        os.chown(home / "container", 3_000_000_000, 3_000_000_001)
    here = Path.cwd()
    with socket.socket(socket.AF_UNIX) as server:
        os.chdir(home)
        server.bind("socket")
        os.chdir(here)


def test_whatever_is_in_it_is_found_in_the_archive(tmp_path: Path, target: str) -> None:
    home = tmp_path / "minji"
    home.mkdir()
    everything(home)
    packing.pack(str(home), target)
    said = run("tar", "--list", f"--file={target}").splitlines()
    assert len(said) == sum(not path.is_socket() for path in home.rglob("*")) + 1
    assert packing.delete(str(home), target).words == []
    assert not home.exists()


CHANGES: dict[str, Callable[[Path], object]] = {
    "content": lambda home: rewrite(home / "a/file", 2_999_999),
    "a hole": lambda home: rewrite(home / "holes", 1 << 29),
    "content of a sparse file": lambda home: rewrite(home / "holes", 2 << 16),
    "mode": lambda home: (home / "set").chmod(0o755),
    "owner": lambda home: os.chown(home / ("n" * 255), 48211, -1),
    "group": lambda home: os.chown(home / ("n" * 255), -1, 48211),
    "time": lambda home: os.utime(home / "set", ns=(0, -1_500_000_002)),
    "link": lambda home: ((home / "zlink").unlink(), (home / "zlink").symlink_to("elsewhere")),
    "hard link": lambda home: ((home / "twin").unlink(), (home / "twin").write_bytes((home / "a/file").read_bytes())),
    "kind": lambda home: ((home / "fifo").unlink(), (home / "fifo").mkdir()),
    "new": lambda home: (home / "zz").write_bytes(b""),
    "new, the last one": lambda home: Path(os.fsdecode(os.fsencode(home) + b"/\xff\xff")).write_bytes(b""),
    "gone": lambda home: (home / "zlink").unlink(),
    "gone, the last one": lambda home: Path(os.fsdecode(os.fsencode(home) + b"/\xff\xfe")).unlink(),
    "size": lambda home: os.truncate(home / "a/file", 5),
}


def rewrite(path: Path, offset: int) -> None:
    """One byte, the time of change set back."""
    facts = path.stat()
    with path.open("r+b") as stream:
        stream.seek(offset)
        byte = stream.read(1)
        stream.seek(offset)
        stream.write(bytes([byte[0] ^ 1]))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_whatever_differs_is_seen(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object]
) -> None:
    home = tmp_path / "minji"
    home.mkdir()
    everything(home)
    real = packing._create

    def create(*arguments: object) -> None:
        real(*arguments)
        change(home)

    monkeypatch.setattr(packing, "_create", create)
    with pytest.raises(NodeError, match="is not what is in"):
        packing.pack(str(home), target)
    assert list(Path(target).parent.iterdir()) == []


def grow(path: Path) -> None:
    """More at the end, the time of change set back."""
    facts = path.stat()
    with path.open("ab") as stream:
        stream.write(b"more")
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def fifo_for(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


SINGLE: dict[str, tuple[Callable[[Path], object], Callable[[Path], object], str]] = {
    "a pipe for an empty file": (lambda one: one.touch(0o600), fifo_for, "is not what it is in the archive"),
    "a link that leads elsewhere": (
        lambda one: one.symlink_to("here"),
        lambda one: (one.unlink(), one.symlink_to("there")),
        "leads elsewhere",
    ),
    "a file with more at its end": (lambda one: one.write_bytes(b"less"), grow, "was changed"),
    "another device": (
        lambda one: os.mknod(one, 0o600 | 0o020000, os.makedev(1, 3)),
        lambda one: (one.unlink(), os.mknod(one, 0o600 | 0o020000, os.makedev(1, 5))),
        "another device",
    ),
}


@root_only
@pytest.mark.parametrize(("make", "change", "words"), SINGLE.values(), ids=SINGLE.keys())
def test_what_nothing_but_one_comparison_sees(
    tmp_path: Path, make: Callable[[Path], object], change: Callable[[Path], object], words: str
) -> None:
    """The same name, mode, owner and time; no other difference gives it away."""
    home = tmp_path / "minji"
    home.mkdir()
    make(home / "one")
    packed = subprocess.run(
        ("tar", "--create", "--format=posix", "--numeric-owner", f"--directory={tmp_path}", "./minji"),
        check=True, capture_output=True,
    ).stdout  # fmt: skip
    tar_compare.compare(io.BytesIO(packed), str(home), lambda: None)
    change(home / "one")
    with pytest.raises(NodeError, match=words):
        tar_compare.compare(io.BytesIO(packed), str(home), lambda: None)


def test_what_an_archive_of_a_sparse_file_ends_before_is_zeros(tmp_path: Path) -> None:
    """GNU tar names the end of a hole at the end; another tar need not."""
    home, size = tmp_path / "minji", 1 << 20
    home.mkdir()
    with (home / "one").open("wb") as stream:
        stream.write(b"x" * 512)
        stream.truncate(size)
    facts = (home / "one").stat()
    packed, content = io.BytesIO(), b"1\n0\n512\n".ljust(512, b"\0") + b"x" * 512
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.addfile(archive.gettarinfo(home, "./minji"))
        one = archive.gettarinfo(home / "one", "./minji/GNUSparseFile.0/one")
        one.size, one.mtime = len(content), 0
        one.pax_headers = {
            "GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": "./minji/one",
            "GNU.sparse.realsize": str(size), "mtime": f"{facts.st_mtime_ns // 10**9}.{facts.st_mtime_ns % 10**9:09}",
        }  # fmt: skip
        archive.addfile(one, io.BytesIO(content))
    tar_compare.compare(io.BytesIO(packed.getvalue()), str(home), lambda: None)
    with (home / "one").open("r+b") as stream:
        stream.seek(size - 1)
        stream.write(b"y")
    os.utime(home / "one", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    with pytest.raises(NodeError, match="other content"):
        tar_compare.compare(io.BytesIO(packed.getvalue()), str(home), lambda: None)


HARM: dict[str, Callable[[Path], object]] = {
    "cut off": lambda path: os.truncate(path, 60),
    "changed": lambda path: rewrite(path, 40),
    "only its checksum": lambda path: rewrite(path, path.stat().st_size - 1),
}


@pytest.mark.parametrize("end", ["gz", packing.suffix()[4:]])
@pytest.mark.parametrize("harm", HARM.values(), ids=HARM.keys())
def test_an_archive_that_is_damaged_is_none(
    tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch, harm: Callable[[Path], object], end: str
) -> None:
    home = tmp_path / "minji"
    home.mkdir()
    (home / "thesis").write_bytes(os.urandom(1000))
    real = packing._create

    def create(path: str, part: str, *more: object) -> None:
        real(path, part, *more)
        harm(Path(part))

    monkeypatch.setattr(packing, "_create", create)
    with pytest.raises(NodeError, match="is not what is in"):
        packing.pack(str(home), f"{target.partition('.tar')[0]}.tar.{end}")
    assert list(Path(target).parent.iterdir()) == []


ACL = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry)  # linux/posix_acl_xattr.h: the owner, a person, the group, the mask, others
    for entry in ((1, 6, 2**32 - 1), (2, 4, 20002), (4, 0, 2**32 - 1), (16, 4, 2**32 - 1), (32, 0, 2**32 - 1))
)
CAPABILITY = struct.pack("<5I", 0x02000001, 1 << 10, 0, 0, 0)  # linux/capability.h: cap_net_bind_service
ATTRIBUTES = {
    "file": {"user.a=b%c": bytes(range(256)), "user.none": b"", "system.posix_acl_access": ACL},
    "program": {"security.capability": CAPABILITY},
    "holes": {"user.x": b"a\n\0b"},
    "inner": {"system.posix_acl_default": ACL, "user.x": b"1"},
    "fifo": {"trusted.x": b"1"},
    "link": {"trusted.x": b"2"},
}


@pytest.fixture
def adorned(tmp_path: Path) -> Iterator[Path]:
    """A home whose entries have ACLs and attributes of all kinds."""
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        home = point / "minji"
        home.mkdir()
        for name in ("file", "program"):
            (home / name).write_bytes(b"x")
        sparse(home / "holes", (1 << 20, b"x"), size=1 << 22)
        (home / "inner").mkdir()
        os.mkfifo(home / "fifo")
        (home / "link").symlink_to("file")
        for name, given in ATTRIBUTES.items():
            for key, value in given.items():
                os.setxattr(home / name, key, value, follow_symlinks=False)
        yield home


@pytest.mark.btrfs
def test_an_archive_has_acls_and_attributes(adorned: Path, target: str) -> None:
    packing.pack(str(adorned), target)
    shutil.rmtree(adorned)
    run("tar", "--extract", "--acls", "--xattrs", "--xattrs-include=*", f"--file={target}",
        f"--directory={adorned.parent}")  # fmt: skip
    for name, given in ATTRIBUTES.items():
        assert {key: os.getxattr(adorned / name, key, follow_symlinks=False) for key in given} == given


@pytest.mark.btrfs
@pytest.mark.parametrize("lost", ["all of them", "one later"])
@pytest.mark.parametrize("name", ATTRIBUTES)
def test_an_archive_that_lost_an_attribute_is_none(
    adorned: Path, target: str, monkeypatch: pytest.MonkeyPatch, name: str, lost: str
) -> None:
    for other in set(ATTRIBUTES) - {name}:
        for key in ATTRIBUTES[other]:
            os.removexattr(adorned / other, key, follow_symlinks=False)
    real = subprocess.Popen

    def lossy(command: tuple[str, ...], **more: object) -> object:
        if lost == "all of them":
            command = tuple(word for word in command if word not in ("--acls", "--xattrs"))
        elif command[0] == "tar":
            done = real(command, **more)
            done.wait()
            key = next(iter(ATTRIBUTES[name]))
            os.removexattr(adorned / name, key, follow_symlinks=False)
            return done
        return real(command, **more)

    monkeypatch.setattr(packing.subprocess, "Popen", lossy)
    with pytest.raises(NodeError, match="has other attributes or another ACL than in the archive"):
        packing.pack(str(adorned), target)
    assert list(Path(target).parent.iterdir()) == []


def test_a_tree_of_too_many_entries_is_kept(tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """tar would hold all of a directory's names."""
    home = tmp_path / "minji"
    home.mkdir()
    for number in range(4):
        (home / str(number)).touch()
    monkeypatch.setattr(tar_compare, "ENTRIES", 3)
    with pytest.raises(NodeError, match=r"holds more than 3 entries\Z"):
        packing.pack(str(home), target)
    monkeypatch.setattr(tar_compare, "ENTRIES", 4)
    packing.pack(str(home), target)


def deep(home: Path, parts: int) -> None:
    here = os.open(home, os.O_RDONLY)
    for _ in range(parts):
        os.mkdir("x" * 200, dir_fd=here)
        inner = os.open("x" * 200, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


def test_a_path_that_no_archive_could_be_unpacked_with_keeps_the_home(tmp_path: Path, target: str) -> None:
    home = tmp_path / "minji"
    home.mkdir()
    deep(home, 21)
    try:
        with pytest.raises(NodeError, match="restore-home --to"):
            packing.pack(str(home), target)
        assert list(Path(target).parent.iterdir()) == []
    finally:
        run("rm", "-r", home)


def test_one_that_takes_too_long_is_kept(tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "minji"
    home.mkdir()
    (home / "thesis").write_bytes(b"x")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/tar").write_text("#!/bin/sh\nexec sleep 60\n")
    (tmp_path / "bin/tar").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    begun = time.monotonic()
    with pytest.raises(NodeError, match="took longer than 1 seconds: kept"):
        packing.pack(str(home), target, seconds=1)
    assert time.monotonic() - begun < 30
    assert list(Path(target).parent.iterdir()) == []


def test_a_home_that_would_fill_the_disk_is_kept(tmp_path: Path, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Copies that share their blocks are whole in an archive."""
    home = tmp_path / "minji"
    home.mkdir()
    monkeypatch.setattr(packing, "RESERVE", 1 << 62)
    with pytest.raises(NodeError, match="free in"):
        packing.pack(str(home), target)
    assert list(Path(target).parent.iterdir()) == []


@root_only
def test_an_archive_that_is_there_is_not_replaced(home: Path, target: str) -> None:
    Path(target).write_bytes(b"an earlier one")
    with pytest.raises(NodeError, match="is there already"):
        packing.pack(str(home), target)
    assert Path(target).read_bytes() == b"an earlier one"


@root_only
def test_what_is_mounted_inside_is_neither_packed_nor_deleted(home: Path, target: str, tmp_path: Path) -> None:
    (home / "mine").write_bytes(b"x")
    (home / "disk").mkdir()
    packing.pack(str(home), target)
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis").write_bytes(b"not theirs")
    os.utime(other / "thesis", ns=(0, 0))
    run("mount", "--bind", home.parent, home / "disk")  # of the same device
    try:
        with pytest.raises(NodeError, match="is mounted inside"):
            packing.delete(str(home), target)
        with pytest.raises(NodeError, match="is mounted inside"):
            packing.pack(str(home), target + "2.tar.gz")
        assert (home / "mine").exists()
    finally:
        run("umount", home / "disk")
    assert mounts.below(str(home), mounts.parse_mountinfo(mounts.read_mountinfo())) == []


def test_a_file_under_a_lease_keeps_the_home_and_nobody_waits(tmp_path: Path, target: str) -> None:
    home = tmp_path / "minji"
    home.mkdir()
    (home / "leased").write_bytes(b"x")
    with held(home / "leased", "lease"):
        begun = time.monotonic()
        with pytest.raises(NodeError, match="kept"):
            packing.pack(str(home), target)
        assert time.monotonic() - begun < 30, "the kernel makes whoever opens it wait for 45 s"
    packing.pack(str(home), target)


@pytest.mark.btrfs
def test_what_is_written_through_a_mapping_after_packing_stays(tmp_path: Path) -> None:
    """The first write to a mapped page changes the ctime, and further ones only when the page was on disk meanwhile."""
    with mounted(tmp_path / "disk", tmp_path / "srv", 256) as point:
        (point / "minji").mkdir()
        (point / "minji/thesis").write_bytes(bytes(8192))
        with (point / "minji/thesis").open("r+b") as stream, mmap.mmap(stream.fileno(), 8192) as mapped:
            mapped[0:1] = b"1"
            target = packing.archive_path(str(tmp_path / "archive"), "minji", 20001)
            packing.pack(str(point / "minji"), target)
            mapped[0:1] = b"2"
            done = packing.delete(str(point / "minji"), target)
        assert done.words == ["'thesis' was changed after it was packed"]
        assert (point / "minji/thesis").read_bytes()[:1] == b"2"
