"""The file systems of a host on which people can own something, each seen without what is mounted over it.

A bind mount in a namespace of our own shows what a mount hides, and nothing that is mounted inside of it: no NFS, no
container, no automount is on the way.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ansible_collections.gpuadmin.node.plugins.module_utils import mounts
from ansible_collections.gpuadmin.node.plugins.module_utils.btrfs import (
    SUBVOLUME_INODE,
    open_directory,
    read_subvolume,
    set_writable,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import FIRST_HUMAN_UID
from ansible_collections.gpuadmin.node.plugins.module_utils.files import lock_directory, read_bytes
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import RUN
from ansible_collections.gpuadmin.node.plugins.module_utils.run import run

#: File systems that keep an owner for each file.
LOCAL = re.compile(r"(ext[234]|xfs|btrfs|zfs|f2fs|bcachefs|jfs|reiserfs|nilfs2|tmpfs|ramfs)\Z")
#: Those that have no owners, or none that anybody chose, or are seen elsewhere.
NOBODYS = re.compile(
    r"(proc|sysfs|cgroup2?|devtmpfs|devpts|securityfs|debugfs|tracefs|pstore|bpf|configfs|fusectl|mqueue|hugetlbfs|"
    r"autofs|binfmt_misc|efivarfs|rpc_pipefs|nsfs|nfsd|selinuxfs|vfat|exfat|ntfs3?|iso9660|udf|squashfs|erofs|"
    r"overlay|fuse\.lxcfs|fuse\.portal|fuse\.gvfsd-fuse)\Z"
)


#: A person's own FUSE mount: nothing in it outlives a boot, and they choose how many there are.
OWN = re.compile(r"(?:^|,)user_id=[1-9]")
#: Where a light host of the lab has the storage host's disk, as if it came by the network.
LAB = "/run/gpuadmin-lab/"


@dataclass(frozen=True)
class Tree:
    """``key``: by which it is known after a boot: its mount point, and where in its file system that begins.

    ``volatile``: what is in it does not outlive a boot. ``read_only``: it is mounted so. ``late``: it is not there when
    a boot begins.
    """

    key: str
    point: str
    volatile: bool = False
    read_only: bool = False
    late: bool = False

    @property
    def changeable(self) -> bool:
        """Whether what is in it can change hands at a boot. A root that is read-only is opened for that."""
        return self.point == "/" or not (self.read_only or self.late or self.volatile)


@dataclass(frozen=True)
class Trees:
    """``unknown``: file systems of a type that is not known; nobody looks at them."""

    local: tuple[Tree, ...]
    unknown: tuple[str, ...]


def select_local(table: Sequence[mounts.Mount], devices: Sequence[str], fstab: str = "") -> Trees:
    """Given what is mounted, and the device number of each mount, return each part of each file system once."""
    unknown, late = [], mounts.find_late(fstab)
    found: dict[str, list[mounts.Mount]] = {}
    uppermost = {mount.point: (mount, device) for mount, device in zip(table, devices)}  # one hides what was there
    for mount, device in uppermost.values():
        root = mount.fstype == "overlay" and mount.point == "/"  # what it is made of may be nowhere else
        if mounts.NETWORK.match(mount.fstype) or mount.point.startswith(LAB):
            continue  # another host renumbers it
        if LOCAL.match(mount.fstype) or root:
            found.setdefault(device, []).append(mount)
        # guard: mounts that a person makes do not fill what a host says
        elif not NOBODYS.match(mount.fstype) and not OWN.search(mount.options):
            unknown.append(f"{mount.point} ({mount.fstype})")
    local = []
    for all_of in found.values():
        roots: list[str] = []
        # guard: what is mounted twice is changed where it can be
        for mount in sorted(all_of, key=lambda one: (len(one.root), _is_read_only(one), one.point)):
            if any((mount.root + "/").startswith(root.rstrip("/") + "/") for root in roots):
                continue  # the same files by another way
            roots.append(mount.root)
            volatile = mount.fstype in ("tmpfs", "ramfs")
            key, point = f"{mount.point} {mount.root}", mount.point
            local.append(Tree(key, point, volatile, _is_read_only(mount), point in late))
    return Trees(tuple(sorted(local, key=lambda one: one.key)), tuple(sorted(unknown)))


def _is_read_only(mount: mounts.Mount) -> bool:
    return "ro" in (*mount.flags.split(","), *mount.options.split(","))


def find_local() -> Trees:
    """The same of this host."""
    text = mounts.read_mountinfo()
    devices = [line.split(" ")[2] for line in text.split("\n") if " - " in line]
    fstab = (read_bytes("/etc/fstab") or b"").decode("utf-8", "surrogateescape")
    return select_local(mounts.parse_mountinfo(text), devices, fstab)


@contextmanager
def detach(trees: Sequence[Tree]) -> Iterator[list[int]]:
    """An open directory for each tree: its top, with nothing mounted in it. They end with the block.

    What this process mounts is seen by it and its children alone from here on. Raises NodeError.
    """
    mounts.keep_own()
    lock_directory(RUN)
    handles: list[int] = []
    try:
        for tree in trees:
            place = tempfile.mkdtemp(dir=RUN, prefix="renumber-")
            try:
                run(("mount", "--bind", "--", tree.point, place), what=f"{tree.point} cannot be looked at by itself")
                handles.append(open_directory(place))
                run(("umount", "--lazy", "--", place), what=f"{place} stays mounted")
            finally:
                os.rmdir(place)
        yield handles
    finally:
        for handle in handles:
            os.close(handle)


def open_own(handle: int) -> None:
    """Make a tree writable that is a person's own subvolume: whoever has made it read-only would keep old ids in it."""
    found, facts = read_subvolume(handle), os.fstat(handle)
    own = facts.st_ino == SUBVOLUME_INODE and facts.st_uid >= FIRST_HUMAN_UID
    # guard: no person keeps old ids in a tree that they have made read-only
    if own and found is not None and found.read_only and not os.fstatvfs(handle).f_flag & os.ST_RDONLY:
        set_writable(handle)


def is_read_only(handle: int) -> bool:
    """Whether nothing in a tree can be changed: mounted read-only, or a read-only subvolume."""
    found = read_subvolume(handle)
    return bool(os.fstatvfs(handle).f_flag & os.ST_RDONLY) or (found is not None and found.read_only)
