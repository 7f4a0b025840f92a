#!/usr/bin/env python3
"""What is in a tree, entry by entry, told by a program that shares nothing with gpuadmin.

Stands alone (Python 3.9, no other module), so that it can be copied to a host: ``independent.py TREE`` prints a JSON
object, path → facts; paths are in hexadecimal, since a name can be any bytes. It descends by fchdir and openat, follows
no link, reads no hole, and is for a tree in which nobody is at work.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import sys
import time

BLOCK = 1 << 16
#: On btrfs: what a snapshot has where a subvolume was. It is empty, and nothing can be put there.
PLACEHOLDER = 2
KINDS = {stat.S_IFDIR: "directory", stat.S_IFREG: "file", stat.S_IFLNK: "link", stat.S_IFIFO: "fifo",
         stat.S_IFSOCK: "socket", stat.S_IFCHR: "character", stat.S_IFBLK: "block"}  # fmt: skip
Facts = dict[str, object]


def content(handle: int, size: int) -> str:
    """A digest over all blocks that are not zero and where they are: the same for zeros and for holes."""
    digest, at = hashlib.sha256(b"%d" % size), 0
    while at < size:
        try:
            at = os.lseek(handle, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole is left
                break
            raise
        hole = os.lseek(handle, at, os.SEEK_HOLE)
        at -= at % BLOCK
        while at < hole:
            block = os.pread(handle, min(BLOCK, size - at), at)
            if not block:
                break
            if block.strip(b"\0"):
                digest.update(b"%d:" % at + block.ljust(BLOCK, b"\0"))
            at += BLOCK
    return digest.hexdigest()


def attributes(name: object) -> dict[str, str]:
    try:
        names = os.listxattr(name, follow_symlinks=False) if isinstance(name, bytes) else os.listxattr(name)
    except OSError:
        return {}
    found = {}
    for one in sorted(names):
        if one != "security.selinux":
            value = os.getxattr(name, one, follow_symlinks=False) if isinstance(name, bytes) else os.getxattr(name, one)
            found[one] = hashlib.sha256(value).hexdigest()
    return found


def opened(name: bytes) -> int:
    """A descriptor of a file. A lease on it (an NFS server has one for a client to which it delegated the file) ends
    within /proc/sys/fs/lease-break-time."""
    end = time.monotonic() + 120  # seconds
    while True:
        try:
            return os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOATIME)
        except BlockingIOError:
            if time.monotonic() > end:
                raise
            time.sleep(1)  # a lease is broken by the kernel, which tells nobody when


def one(name: bytes, path: bytes, first: dict[tuple[int, int], str]) -> Facts:
    """The facts of the entry ``name`` of the working directory. ``first``: hard links that were met, by inode."""
    facts = os.lstat(name)
    kind = KINDS[stat.S_IFMT(facts.st_mode)]
    found: Facts = {"kind": kind, "uid": facts.st_uid, "gid": facts.st_gid, "mtime": facts.st_mtime_ns}
    if kind == "link":
        return {**found, "target": os.readlink(name).hex()}
    found["mode"] = stat.S_IMODE(facts.st_mode)
    if kind in ("character", "block"):
        found["device"] = facts.st_rdev
    if kind == "directory":
        # The kernel gives the directory's own attributes by its path; who is root need not open it.
        found["attributes"] = attributes(name)
    if kind == "file":
        key = (facts.st_dev, facts.st_ino)
        if facts.st_nlink > 1 and key in first:
            return {**found, "same": first[key]}
        first[key] = path.hex()
        handle = opened(name)
        try:
            found.update(size=facts.st_size, content=content(handle, facts.st_size), attributes=attributes(handle))
        finally:
            os.close(handle)
    return found


def manifest(top: str, nested: dict[str, str] | None = None) -> dict[str, Facts]:
    """All entries of a tree, itself as ``.``. Changes the working directory while it is at work.

    ``nested``: path below the tree → where the subvolume that stands there is to be read, as in a backup's snapshots,
    which hold an empty directory in its place.
    """
    here = os.open(".", os.O_RDONLY)
    try:
        found: dict[str, Facts] = {}
        first: dict[tuple[int, int], str] = {}
        inner = dict(nested or {})
        _tree(os.fsencode(os.path.abspath(top)), b"", inner, found, first)
        for path, other in sorted(inner.items()):
            _tree(os.fsencode(other), os.fsencode(path) + b"/", inner, found, first)
        return found
    finally:
        os.fchdir(here)
        os.close(here)


def _tree(
    top: bytes, prefix: bytes, nested: dict[str, str], found: dict[str, Facts], first: dict[tuple[int, int], str]
) -> None:
    os.chdir(os.path.dirname(top))
    found[prefix.rstrip(b"/").hex() or "."] = one(os.path.basename(top), prefix.rstrip(b"/"), first)
    if not stat.S_ISDIR(os.lstat(os.path.basename(top)).st_mode):
        return
    os.chdir(os.path.basename(top))
    levels: list[tuple[bytes, list[bytes]]] = [(prefix, _names())]
    while levels:
        path, names = levels[-1]
        if not names:
            levels.pop()
            if levels:
                os.chdir("..")
            continue
        name = names.pop()
        full = path + name
        facts = os.lstat(name)
        if os.fsdecode(full) in nested:  # what stands in its place is not it
            continue
        if stat.S_ISDIR(facts.st_mode) and facts.st_ino == PLACEHOLDER:
            continue
        found[full.hex()] = one(name, full, first)
        if stat.S_ISDIR(facts.st_mode):
            os.chdir(name)
            levels.append((full + b"/", _names()))


def _names() -> list[bytes]:
    return sorted(os.listdir(b"."), reverse=True)


def differences(want: dict[str, Facts], have: dict[str, Facts], most: int = 5) -> list[str]:
    """How two manifests differ, in words, but for what no copy has: times of directories and of links' own, sockets."""
    words = []
    for path in sorted(set(want) | set(have)):
        name = path if path == "." else repr(bytes.fromhex(path)[-80:])
        left, right = want.get(path), have.get(path)
        if left is None or right is None:
            words.append(f"{name} is {'new' if left is None else 'missing'}")
        else:
            loose = left["kind"] in ("directory", "link", "fifo", "socket", "character", "block")
            keys = [key for key in sorted(set(left) | set(right)) if left.get(key) != right.get(key)]
            keys = [key for key in keys if not (loose and key == "mtime")]
            if keys:
                words.append(
                    f"{name} differs in " + ", ".join(f"{key} ({left.get(key)}, {right.get(key)})" for key in keys)
                )
        if len(words) >= most:
            break
    return words


def main() -> int:
    nested = json.loads(sys.argv[2]) if len(sys.argv) > 2 else None
    json.dump(manifest(sys.argv[1], nested), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
