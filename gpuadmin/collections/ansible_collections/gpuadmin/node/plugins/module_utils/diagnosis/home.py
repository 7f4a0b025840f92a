"""The home of a person, and its file system. A file server that is away holds only the part that asks it."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from typing import Any

from ..bounded import short
from ..lookup import owner
from ..mounts import NETWORK, nearest, parse_mountinfo, read_mountinfo
from ..people import acting_as
from . import docker_needs, keys
from .account import find_entry, home_key_files
from .subject import Subject

#: Files directly in a home that nearly every program reads or writes; `sudo` makes some of them root's.
THEIRS = (
    ".ssh", ".cache", ".config", ".local", ".docker", ".conda", ".bashrc", ".profile", ".bash_profile", ".zshrc",
    ".bash_history",
)  # fmt: skip


def mount(subject: Subject, mountinfo: str | None = None) -> dict[str, Any]:
    """The mount that the homes are on, by the kernel's table alone: no server is asked."""
    found = nearest(subject.homes, parse_mountinfo(read_mountinfo() if mountinfo is None else mountinfo))
    if found is None:
        return {"point": None, "type": None, "source": None, "network": False, "read_only": False}
    return {
        "point": found.point,
        "type": found.fstype,
        "source": found.source,
        "network": NETWORK.match(found.fstype) is not None,
        "read_only": "ro" in found.options.split(","),
    }


def homes(subject: Subject) -> dict[str, Any]:
    """The file system of the homes: how long it takes to answer, and its room. Raises OSError: it is stale."""
    begun = time.monotonic()
    os.stat(os.path.join(subject.path(subject.homes), "."))  # the dot makes an automount mount
    space = os.statvfs(subject.path(subject.homes))
    return {
        "milliseconds": round((time.monotonic() - begun) * 1000, 1),
        "mount": mount(subject),
        "bytes": space.f_blocks * space.f_frsize,
        "free": space.f_bavail * space.f_frsize,
        "inodes": space.f_files,
        "inodes_free": space.f_favail,
    }


def home(subject: Subject) -> dict[str, Any]:
    """The home of the person: what is at its place, its owner, and the keys in it. Nothing below it is counted."""
    name = subject.name or ""
    path, place = os.path.join(subject.homes, name), os.path.join(subject.path(subject.homes), name)
    begun = time.monotonic()
    try:
        facts = os.lstat(place)
    except FileNotFoundError:
        return {"path": path, "kind": None}
    except OSError as error:
        return {"path": path, "kind": "stale" if error.errno == errno.ESTALE else "error", "error": error.strerror}
    kind = "directory" if stat.S_ISDIR(facts.st_mode) else "link" if stat.S_ISLNK(facts.st_mode) else "file"
    found: dict[str, Any] = {
        "path": path,
        "kind": kind,
        "uid": facts.st_uid,
        "owner": owner(facts.st_uid),
        "mode": stat.S_IMODE(facts.st_mode),
        "milliseconds": round((time.monotonic() - begun) * 1000, 1),
    }
    by_passwd = _by_passwd(subject, name) if subject.node else None
    if by_passwd is not None and os.path.normpath(by_passwd) != path and not _same(subject.path(by_passwd), place):
        found["passwd"] = short(by_passwd)
    if kind == "directory":
        uid = facts.st_uid if subject.uid is None else subject.uid
        wanted = home_key_files(subject) if subject.node else keys.USUAL
        at = os.open(subject.path(subject.homes), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # guard: on a node a home is looked into as its person: the storage host shows root nothing -> nullcontext()
            with acting_as(uid, facts.st_gid) if subject.node else contextlib.nullcontext():
                found["masked"] = docker_needs.list_masked_units(name, at)
                found["others"] = list_foreign_files(name, uid, at)
                files = [keys.read_home_keys(name, uid, path, at, one) for one in wanted]
                found["keys"] = [one for one in files if one is files[0] or one["problem"] != "is missing"]
        finally:
            os.close(at)
    return found


def _by_passwd(subject: Subject, name: str) -> str | None:
    """The home in passwd; None: this host does not know the person, which another part says."""
    with contextlib.suppress(OSError):
        entry = find_entry(subject, name)
        return None if entry is None else entry.pw_dir
    return None


def _same(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def list_foreign_files(home: str, uid: int, at: int | None = None) -> list[dict[str, Any]]:
    """Files in a home that programs need to be its person's, and that are somebody else's. No link is followed."""
    found: list[dict[str, Any]] = []
    try:
        top = os.open(home, keys.DIRECTORY, dir_fd=at)
    except OSError:
        return []
    try:
        for name in THEIRS:
            try:
                facts = os.stat(
                    name,
                    dir_fd=top,
                    follow_symlinks=False,  # guard: what is somebody else's in a home is looked at through no link
                )
            except OSError:
                continue
            if facts.st_uid != uid:
                found.append({"name": name, "owner": owner(facts.st_uid)})
    finally:
        os.close(top)
    return found
