"""Accounts that are root, and members of groups that are as good as root."""

from __future__ import annotations

import grp
from collections.abc import Callable, Iterator

from ..textdb import Table, decode, members, number
from .place import ROOT, Found, Place, system_account

_SUDO = "may become root by sudo"
#: Groups, and what their members can do. All but the last two amount to root.
GROUPS = {
    "sudo": _SUDO,
    "wheel": _SUDO,
    "admin": _SUDO,
    "root": "writes what is root's group's",
    "docker": "starts containers as root, which is being root",
    "lxd": "starts containers as root, which is being root",
    "incus-admin": "starts containers as root, which is being root",
    "libvirt": "starts virtual machines as root, with any disk of the host",
    "disk": "reads and writes whole disks, past all permissions",
    "kmem": "reads the kernel's memory",
    "shadow": "reads everybody's password hashes",
    "staff": "writes into /usr/local, whose programs root runs",
    "adm": "reads every log",
    "systemd-journal": "reads every log",
}
#: What distributions themselves put services into.
FOR_SERVICES = ("root", "adm", "systemd-journal")


def accounts(place: Place) -> list[Found]:
    """Accounts with uid 0 besides root, and accounts without a password."""
    found = []
    for name, password, uid, *_rest in table(place, "passwd").entries():
        if number(uid) == 0 and name != "root":  # guard: root by another name is not overlooked
            found.append(Found(f"uid 0: {name}", "is root by another name"))
        if not password:
            found.append(Found(f"no password: {name}", "logs in without one (/etc/passwd)"))
    for name, password, *_rest in table(place, "shadow").entries():
        if not password:
            found.append(Found(f"no password: {name}", "logs in without one (/etc/shadow)"))
    return found


def groups(place: Place) -> list[Found]:
    """Who is in a group of privilege by this host's own files."""
    people = {name: (number(uid), number(gid)) for name, _, uid, gid, *_rest in table(place, "passwd").entries()}
    found: list[Found] = []
    for group, _, gid, named in table(place, "group").entries():
        if group not in GROUPS:
            continue
        first = [name for name, (_uid, primary) in people.items() if primary == number(gid)]
        for name in dict.fromkeys(
            [
                *members(named),
                *first,  # guard: a group that is somebody's first counts
            ]
        ):
            found += _member(place, name, group, people.get(name, (None, None))[0])
    return found


def directory(place: Place, members_of: Callable[[str], list[str]] | None = None) -> list[Found]:
    """Who is in one by a directory (LDAP, SSSD) and not by the files."""
    ask = members_of or (lambda name: grp.getgrnam(name).gr_mem)
    local = {fields[0]: set(members(fields[3])) for fields in table(place, "group").entries()}
    found: list[Found] = []
    for group in GROUPS:
        try:
            named = ask(group)
        except KeyError:
            continue
        for name in named:
            if name not in local.get(group, ()):
                found += _member(place, name, group, None)
    return found


def _member(place: Place, name: str, group: str, uid: int | None) -> Iterator[Found]:
    service = group in FOR_SERVICES and system_account(uid)
    # guard: a member of a group of privilege is not overlooked
    if name not in place.expected and not service and uid != 0:  # accounts says who is root already
        yield Found(f"{name} in group {group}", GROUPS[group], ROOT)


def table(place: Place, kind: str) -> Table:
    """One of the host's own databases: passwd, shadow, group. Raises OSError."""
    with open(place.path(f"/etc/{kind}"), "rb") as stream:
        return Table.parse(kind, decode(stream.read()))
