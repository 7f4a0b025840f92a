"""The disks of light hosts: sparse files with btrfs, made once in the cache, copied for each host. Needs root."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuadmin.errors import RefusedError
from gpuadmin.lab import probe
from gpuadmin.lab.commands import require, run
from gpuadmin.lab.programs import LIGHT
from gpuadmin.lab.state import Host, Kind

HERE = Path(__file__).parent
DISK_SIZE, DATA_SIZE = 10 << 30, 8 << 30  # bytes; both sparse


def require_light() -> None:
    """Raise RefusedError with the reason where this machine can have no light hosts."""
    machine = probe.look()
    if why := machine.why_no_light(sized=False):
        other = "" if machine.why_no_machines(sized=False) else "a lab of virtual machines: leave --light out"
        root = "sudo" if machine.lacks["root"] else ""
        raise RefusedError(f"no light hosts here: {why}", hint=", or ".join(filter(None, (root, other))) or None)
    require(*LIGHT)


@contextmanager
def attached(image: Path) -> Iterator[str]:
    """A loop device for an image file; it goes when nothing of it is mounted any more, whoever is killed."""
    device = run(("losetup", "--find", "--show", str(image))).strip()
    try:
        yield device
    finally:
        run(("losetup", "--detach", device))


def key() -> str:
    """Return a key of what light hosts' disks are made with besides the root: 8 hexadecimal digits."""
    digest = hashlib.sha256()
    for name in ("build.sh", "cgroup2.c", "exportfs", "fstab", "mount.nfs4"):
        digest.update((HERE / name).read_bytes() + b"\0")
    return digest.hexdigest()[:8]


def build(target: Path, root_tar: Path) -> None:
    """Make the disk that light hosts begin with from the virtual machines' root; at once or not at all."""
    part = target.with_name(target.name + ".part")
    _make_blank(part, DISK_SIZE)
    with tempfile.TemporaryDirectory() as top, attached(part) as device:
        run(("unshare", "--mount", "--propagation", "private", "sh", str(HERE / "build.sh"),
             device, str(root_tar), top, str(HERE)))  # fmt: skip
    part.rename(target)


def make_data(target: Path) -> None:
    """Make the storage host's data disk: an empty btrfs."""
    if target.exists():
        return
    part = target.with_name(target.name + ".part")
    _make_blank(part, DATA_SIZE)
    run(("mkfs.btrfs", "-q", "-f", "-m", "single", str(part)))
    part.rename(target)


def _make_blank(path: Path, size: int) -> None:
    with path.open("wb") as image:
        image.truncate(size)


def copy(source: Path, target: Path) -> None:
    """Copy an image as sparse as it is; the copy has its name when it is whole."""
    part = target.with_name(target.name + ".part")
    run(("cp", "--reflink=auto", "--sparse=always", "--", str(source), str(part)))
    part.rename(target)


def root_subvolume(kind: Kind) -> str:
    """Where the root of a kind of host is on its disk; what is below roots/ is a root that gpuadmin closes."""
    return "@rootfs" if kind == "plain" else "roots/base"


def make(target: Path, base: Path, seed: bytes, host: Host, data: str) -> None:
    """Make a host's disk, with its identity (a tar of files, see seed.py). `data`: where a storage host has its own."""
    if target.exists():
        return
    part = target.with_name(target.name + ".new")
    copy(base, part)
    with tempfile.TemporaryDirectory() as place, attached(part) as device:
        tar = Path(place) / "seed.tar"
        tar.write_bytes(_without_fstab(seed))
        top = Path(place) / "top"
        top.mkdir()
        run(("unshare", "--mount", "--propagation", "private", "sh", "-euc", _TAKE_IDENTITY, "sh",
             device, str(top), str(tar), root_subvolume(host.kind), "false" if host.writable else "true",
             data if host.kind == "storage" else ""))  # fmt: skip
    part.rename(target)


_TAKE_IDENTITY = """
mount -t btrfs -o noatime "$1" "$2"
root=$2/$4
btrfs property set -ts "$2/roots/base" ro false
[ "$2/roots/base" = "$root" ] || mv "$2/roots/base" "$root"
mount -t btrfs -o noatime,subvol=/state "$1" "$root/var"
tar -xpf "$3" -C "$root"
umount "$root/var"
[ -z "$6" ] || mkdir -p "$root$6"
btrfs filesystem sync "$2"
btrfs property set -ts "$root" ro "$5"
umount "$2"
"""


def _without_fstab(seed: bytes) -> bytes:
    """A light host's disks are mounted before it begins; the seed of a storage host names one in fstab."""
    kept = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(seed)) as source,
        tarfile.open(fileobj=kept, mode="w", format=tarfile.USTAR_FORMAT) as target,
    ):
        for member in source:
            if member.name != "etc/fstab":
                target.addfile(member, source.extractfile(member) if member.isfile() else None)
    return kept.getvalue()
