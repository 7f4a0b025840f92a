"""What belongs to a node and not to the image it runs: names, keys, addresses, file systems.

A copy of these files in the node's state (STATE/identity) decides. It is taken from a confirmed root and put into
every root that is made; a boot unit puts it into whatever root booted.
"""

from __future__ import annotations

import glob
import os
import shutil
import stat
from collections.abc import Iterable

from ..errors import NodeError
from ..files import read_bytes, sync_filesystem, write_atomic
from ..textdb import decode, encode, split_lines

#: Shell patterns, below the root. Directories are taken with all that is in them.
PATHS = (
    "etc/hostname",
    "etc/hosts",
    "etc/machine-id",
    "etc/resolv.conf",
    "etc/fstab",
    "etc/crypttab",
    "etc/adjtime",
    "etc/machine-info",
    "etc/ssh/ssh_host_*",
    "etc/systemd/network",
    "etc/network/interfaces",
    "etc/network/interfaces.d",
    "etc/netplan",
    "etc/NetworkManager/system-connections",
    "etc/sysconfig/network-scripts",
    "etc/iscsi/initiatorname.iscsi",
    "etc/nvme/hostid",
    "etc/nvme/hostnqn",
    "etc/krb5.keytab",
)
#: Without these a node has no identity.
REQUIRED = ("etc/hostname", "etc/machine-id", "etc/fstab")
#: Traces of use, which never enter an image. The hidden var is what the root has below the mount on /var.
TRACES = (
    "root/.*_history", "root/.ssh", "root/.cache", "root/.ansible", "root/.lesshst", "root/.viminfo",
    "tmp/*", "tmp/.[!.]*", "run/*", "home/*", "local/*", "etc/.pwd.lock", "etc/passwd-", "etc/shadow-", "etc/group-",
    "etc/gshadow-", "etc/subuid-", "etc/subgid-", "etc/.updated", "etc/ssh/*.gpuadmin-new",
    "var/log/*", "var/tmp/*", "var/cache/*", "var/lib/dhcp/*", "var/lib/dhcpcd/*", "var/lib/NetworkManager/*",
    "var/lib/systemd/random-seed", "var/lib/systemd/credential.secret", "var/lib/dbus/machine-id", "var/lib/gpuadmin*",
)  # fmt: skip


def _matching(root: str, patterns: Iterable[str]) -> list[str]:
    """The paths below a root, relative to it, that patterns match."""
    found = set()
    for pattern in patterns:
        for path in glob.glob(os.path.join(glob.escape(root), pattern.lstrip("/"))):
            found.add(os.path.relpath(path, root))
    return sorted(found)


def _files(root: str, patterns: Iterable[str]) -> dict[str, str]:
    """Regular files and symlinks: relative path → path."""
    found = {}
    for name in _matching(root, patterns):
        path = os.path.join(root, name)
        if os.path.isdir(path) and not os.path.islink(path):
            for directory, _names, files in os.walk(path):
                for one in files:
                    full = os.path.join(directory, one)
                    found[os.path.relpath(full, root)] = full
        else:
            found[name] = path
    return found


def _same(one: str, other: str) -> bool:
    if not os.path.lexists(other):
        return False
    # guard: links of the identity are compared as links
    if os.path.islink(one) or os.path.islink(other):
        return os.path.islink(one) and os.path.islink(other) and os.readlink(one) == os.readlink(other)
    a, b = os.lstat(one), os.lstat(other)
    # guard: a private file stays private in the state
    if (stat.S_IMODE(a.st_mode), a.st_uid, a.st_gid) != (stat.S_IMODE(b.st_mode), b.st_uid, b.st_gid):
        return False
    return read_bytes(one) == read_bytes(other)


def differences(root: str, state: str, extra: Iterable[str] = ()) -> list[str]:
    """The paths in which a root differs from the node's identity, files that the identity does not have included."""
    stored = os.path.join(state, "identity")
    have, want = _files(root, (*PATHS, *extra)), _files(stored, (*PATHS, *extra))
    changed = [name for name, path in want.items() if not _same(path, os.path.join(root, name))]
    return sorted({*changed, *(name for name in have if name not in want)})


def _copy(source: str, target: str, *, sync: bool) -> None:
    """Copy a file or a symlink with owner and mode, replacing what is there; missing directories are made.

    ``sync``: what is in it is on the disk before it has its name.
    """
    directory = os.path.dirname(target)
    os.makedirs(directory, mode=0o755, exist_ok=True)
    if os.path.islink(source):
        remove(target)
        os.symlink(os.readlink(source), target)
        return
    data = read_bytes(source)
    assert data is not None
    facts = os.lstat(source)
    write_atomic(target, data, mode=stat.S_IMODE(facts.st_mode), model=source, sync=sync)


def remove(path: str) -> None:
    """Delete a file, a link, or a directory with all that is in it; nothing if it is not there."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    elif os.path.lexists(path):
        os.unlink(path)


def capture(root: str, state: str, extra: Iterable[str] = ()) -> list[str]:
    """Store a confirmed root's identity as the node's; return the paths that changed. Refuses a root that has none."""
    have = _files(root, (*PATHS, *extra))
    missing = [name for name in REQUIRED if not (name in have and read_bytes(os.path.realpath(have[name])))]
    # guard: a root that is nobody is not taken for the node
    if missing or not any(name.startswith("etc/ssh/ssh_host_") for name in have):
        raise NodeError(
            f"this root has no {', '.join(missing) or 'ssh host key'}: its identity is not taken as the node's"
        )
    stored = os.path.join(state, "identity")
    changed = differences(root, state, extra)
    if not changed:
        return []
    os.makedirs(stored, mode=0o700, exist_ok=True)
    os.chmod(
        stored,
        0o700,  # guard: the identity is for root's eyes -> 0o755
    )
    for name in changed:
        if name in have:
            _copy(
                have[name],
                os.path.join(stored, name),
                sync=True,  # guard: what is stored of the identity is whole after a power cut -> False
            )
        else:
            remove(os.path.join(stored, name))
    sync_filesystem(stored)
    return changed


def apply(root: str, state: str, extra: Iterable[str] = ()) -> list[str]:
    """Bring a writable root to the node's identity; return the paths that changed. The caller syncs."""
    stored = os.path.join(state, "identity")
    want = _files(stored, (*PATHS, *extra))
    # guard: an incomplete identity is not applied
    if any(name not in want or not _has_content(want[name]) for name in REQUIRED):
        raise NodeError(f"this node's identity is not complete in {stored}: run gpuadmin prepare-root")
    changed = differences(root, state, extra)
    for name in changed:
        if name in want:
            _copy(want[name], os.path.join(root, name), sync=False)
        else:
            remove(os.path.join(root, name))
    return changed


def _has_content(path: str) -> bool:
    """Whether there is something in a file of the identity; a link is what it leads to in the root."""
    # guard: what a power cut emptied is nobody's identity -> True
    return os.path.islink(path) or bool(read_bytes(path))


def strip(root: str, uid_first: int, uid_last: int, extra: Iterable[str] = ()) -> None:
    """Take what belongs to the golden node or to people out of a writable root. The caller syncs."""
    for path in _files(root, (*PATHS, *extra)).values():
        remove(path)  # the files; a directory that a package brought stays, so that its database agrees
    for name in _matching(root, TRACES):
        remove(os.path.join(root, name))
    # empty, not missing: systemd then knows that it is an image (machine-id(5))
    write_atomic(os.path.join(root, "etc/machine-id"), b"", mode=0o444, sync=False)
    names = set(people(root, uid_first, uid_last))
    for kind in ("passwd", "shadow", "group", "gshadow", "subuid", "subgid"):
        path = os.path.join(root, "etc", kind)
        data = read_bytes(path)
        if data is not None:
            text = _without(kind, decode(data), names)
            if encode(text) != data:
                write_atomic(path, encode(text), mode=0o600, sync=False)


def people(root: str, uid_first: int, uid_last: int) -> list[str]:
    """The names of the accounts in a root whose uid is a person's."""
    found = []
    for body, _ending in split_lines(decode(read_bytes(os.path.join(root, "etc/passwd")) or b"")):
        fields = body.split(":")
        if len(fields) == 7 and fields[2].isdigit() and uid_first <= int(fields[2]) <= uid_last:
            found.append(fields[0])
    return found


def _without(kind: str, text: str, names: set[str]) -> str:
    """A database without the lines of people, and without people in its lists of members."""
    lines = []
    for body, ending in split_lines(text):
        fields = body.split(":")
        if fields[0] in names:
            continue
        if kind in ("group", "gshadow") and len(fields) == 4:
            # guard: people administer no group of an image -> (3,)
            for index in (3,) if kind == "group" else (2, 3):
                fields[index] = ",".join(name for name in fields[index].split(",") if name not in names)
        lines.append(":".join(fields) + ending)
    return "".join(lines)


def leftovers(root: str, uid_first: int, uid_last: int, extra: Iterable[str] = ()) -> list[str]:
    """What must not be in an image and is: a sentence each."""
    found = [
        f"/{name} belongs to one node" for name in sorted(_files(root, (*PATHS, *extra))) if name != "etc/machine-id"
    ]
    if read_bytes(os.path.join(root, "etc/machine-id")):
        found.append("/etc/machine-id is one node's")
    found += [f"/{name} is a trace of use" for name in _matching(root, TRACES)]
    # guard: an image with somebody's account is not sealed
    found += [f"the account {name} is a person's" for name in people(root, uid_first, uid_last)]
    stored = os.path.join(root, "var/lib/gpuadmin")
    # guard: an image with a node's state is not sealed -> found
    return found + ([f"{stored} is a node's state"] if os.path.isdir(stored) else [])
