"""Who somebody is on this host, by NSS: files, LDAP, SSSD, whatever it is set up with."""

from __future__ import annotations

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
