"""Looks people up on this host, by NSS: files, LDAP, SSSD, whatever it is set up with."""

from __future__ import annotations

import grp
import os
import pwd
from collections.abc import Callable

#: Given a name, return (uid, gid), or None for somebody whom this host does not know.
Lookup = Callable[[str], "tuple[int, int] | None"]


def system_lookup(name: str) -> tuple[int, int] | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return entry.pw_uid, entry.pw_gid


def group_id(name: str) -> int | None:
    """Given the name of a group, return its gid, or None for one that this host does not know."""
    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def find_name(uid: int) -> str | None:
    """Given a uid, return its account's name, or None for one that this host does not know."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return None


def owner(uid: int) -> str:
    """Given a uid, return words for a report: the name beside the number, because names are what admins know."""
    name = find_name(uid)
    return f"uid {uid}" if name is None else f"{name} (uid {uid})"


def group_names(name: str, gid: int) -> list[str]:
    """The names of the groups that somebody of the first group ``gid`` is in, at most 50; of one without a name its
    number."""
    names = []
    for one in os.getgrouplist(name, gid)[:50]:
        try:
            names.append(grp.getgrgid(one).gr_name)
        except KeyError:
            names.append(str(one))
    return names
