"""Well-known directories and files with another mode or owner than every distribution gives them; a writable root."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from .. import btrfs
from ..mounts import NETWORK, mounted_on, nearest, parse_mountinfo, read_mountinfo
from .place import DIFFERS, ROOT, Found, Place


@dataclass(frozen=True)
class _Mode:
    """``exact``: all bits. ``needs``: bits that must be there; ``never``: bits that must not."""

    exact: int | None = None
    needs: int = 0
    never: int = 0o022


_OPEN = _Mode(needs=0o555)  # everybody may look, root alone writes
_SECRET = _Mode(never=0o037)
MODES = {
    **dict.fromkeys(("/tmp", "/var/tmp"), _Mode(exact=0o1777)),
    "/dev/shm": _Mode(exact=0o1777),
    **dict.fromkeys(("/", "/etc", "/usr", "/usr/bin", "/usr/sbin", "/usr/lib", "/var", "/home", "/run"), _OPEN),
    **dict.fromkeys(("/etc/ssh", "/etc/pam.d", "/etc/profile.d", "/etc/systemd/system"), _Mode(needs=0o500)),
    **dict.fromkeys(("/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/etc/hosts"), _Mode(needs=0o444)),
    **dict.fromkeys(("/etc/shadow", "/etc/gshadow"), _SECRET),
    # everybody may read it on Ubuntu 26.04
    **dict.fromkeys(("/etc/sudoers", "/etc/sudoers-rs"), _Mode()),
    **dict.fromkeys(("/root", "/etc/sudoers.d", "/etc/cron.d", "/etc/crontab", "/etc/ld.so.preload"), _Mode()),
    **dict.fromkeys((f"/etc/ssh/ssh_host_{kind}_key" for kind in ("rsa", "ecdsa", "ed25519")), _SECRET),
}


def modes(place: Place, mountinfo: str | None = None) -> list[Found]:
    """What differs. What is not there, or on a file server, is not judged; /tmp and /var/tmp must be there."""
    mounts = parse_mountinfo(read_mountinfo() if mountinfo is None else mountinfo)
    found = []
    for path, wanted in MODES.items():
        here = nearest(path, mounts)
        if here is not None and (NETWORK.match(here.fstype) or here.fstype == "autofs"):
            continue
        try:
            facts = os.stat(place.path(path))
        except FileNotFoundError:
            if path in ("/tmp", "/var/tmp"):
                found.append(Found(path, "is missing", DIFFERS))
            continue
        found += _judged(path, facts, wanted)
    if os.path.exists(place.path("/etc/ld.so.preload")):
        found.append(Found("/etc/ld.so.preload", "loads code into every program, root's too"))
    return found


def _judged(path: str, facts: os.stat_result, wanted: _Mode) -> list[Found]:
    mode = stat.S_IMODE(facts.st_mode)
    found = []
    if facts.st_uid != 0:
        found.append(Found(path, f"belongs to uid {facts.st_uid}, and not to root", ROOT))
    if wanted.exact is not None:
        if mode != wanted.exact:
            why = "people delete each other's files there" if mode & 0o002 else "people cannot write there"
            found.append(Found(path, f"has mode {mode:o}, and not {wanted.exact:o}: {why}", DIFFERS))
    elif mode & wanted.never:
        what = "read or written" if wanted.never & 0o004 else "written"
        found.append(Found(path, f"has mode {mode:o}: it may be {what} by others than root", ROOT))
    elif mode & wanted.needs != wanted.needs:
        found.append(Found(path, f"has mode {mode:o}: people cannot look there", DIFFERS))
    return found


def writable_root(place: Place, mountinfo: str | None = None) -> list[Found]:
    """A root that was made from an image, and is open for writing."""
    mounts = parse_mountinfo(read_mountinfo() if mountinfo is None else mountinfo)
    mount = mounted_on("/", mounts)
    if mount is None or mount.fstype != "btrfs" or not mount.root.startswith("/roots/"):
        return []
    root = btrfs.inspect(place.root)
    if root is None or root.read_only:
        return []
    return [Found("/", "is writable; a root that is made from an image is read-only", DIFFERS)]
