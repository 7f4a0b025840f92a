"""The site's declared admins: their accounts, keys and sudo; and the end of those who are declared no more.

They are system accounts like the one that gpuadmin logs in as (admin.py), without a password. The day after the last
one the account is expired: sshd and sudo refuse it by themselves (shadow(5), pam_unix(8)).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..errors import NodeError
from ..fields import quoted, valid_name
from ..files import read_bytes
from ..root.guard import open_root
from ..root.tree import File, Plan, Request, validate
from ..root.tree import execute as write
from ..root.tree import plan as plan_files
from ..run import run
from ..textdb import Table, decode, number
from .account import validity
from .admin import SYSTEM_UIDS, Wanted, execute, observe, plan

SUDOERS = "/etc/sudoers.d/gpuadmin-admins"
SHADOW, PASSWD = "/etc/shadow", "/etc/passwd"
HOMES = "/var/home"
ENDED = 1  # days since 1970: long ago
_HEADER = "# The admins of this site, as gpuadmin.yml has them (gpuadmin provision):"


@dataclass(frozen=True)
class Admin:
    """``keys``: public keys, a line each. ``expires``: days since 1970, the first day without the account; or None."""

    name: str
    uid: int
    keys: Sequence[str]
    sudo: bool = True
    expires: int | None = None


@dataclass(frozen=True)
class Place:
    """``homes``: where people's homes are mounted. ``first`` and ``last``: people's uids."""

    homes: str
    first: int
    last: int


@dataclass(frozen=True)
class Found:
    """``operations``: what is missing, in words. ``wanted``: accounts and keys. ``expiry``: names and their days."""

    operations: Sequence[str]
    wanted: Sequence[Wanted]
    expiry: Sequence[tuple[str, int | None]]
    files: Plan


def look(admins: Sequence[Admin], place: Place) -> Found:
    """Given who is declared, return what is missing here. Raises NodeError for what may not be made."""
    operations: list[str] = []
    wanted = [_wanted(one, key, place) for one in admins for key in one.keys]
    for one in wanted:
        operations += [words for words in plan(one, observe(one)).operations(one) if words not in operations]
    passwd = Table.parse("passwd", decode(read_bytes(PASSWD) or b""))
    shadow = Table.parse("shadow", decode(read_bytes(SHADOW) or b""))
    text = decode(read_bytes(SUDOERS) or b"")
    ends = [(one.name, one.expires) for one in admins]
    ends += [(name, ENDED) for name in gone(text, admins) if _system(passwd, name)]
    expiry = []
    for name, day in ends:
        fields = shadow.get(name)
        now = None if fields is None else number(fields[7])
        if now != day:
            expiry.append((name, day))
            operations.append(_words(name, day))
    files = plan_files(Request(files=[File(SUDOERS, sudoers(admins), 0o440, ("visudo", "-c", "-f", "%s"))]))
    return Found([*operations, *files.summaries], wanted, expiry, files)


def converge(found: Found) -> None:
    """Do what is missing: accounts and keys, then sudo for them; the end of others comes first."""
    ended = [(name, day) for name, day in found.expiry if name not in {one.name for one in found.wanted}]
    _expire(ended)
    for one in found.wanted:
        execute(plan(one, observe(one)), one)
    _expire([one for one in found.expiry if one not in ended])
    validate(found.files.operations, check=False)
    if found.files.operations:
        write(found.files)


def sudoers(admins: Sequence[Admin]) -> str:
    """The rules of sudo. The names in the comment are how the next run knows who was declared."""
    rules = [f"{one.name} ALL=(ALL:ALL) NOPASSWD: ALL" for one in admins if one.sudo]
    names = " ".join(one.name for one in admins) or "nobody"
    return "\n".join([_HEADER, f"# {names}", *rules]) + "\n"


def gone(text: str, admins: Sequence[Admin]) -> list[str]:
    """Who was declared when the file was written, and is no more."""
    lines = text.splitlines()
    if not lines or lines[0] != _HEADER or len(lines) < 2:
        return []
    names = [name for name in re.sub(r"\A# ", "", lines[1]).split() if valid_name(name)]
    return [name for name in names if name not in {one.name for one in admins} and name != "nobody"]


def _wanted(one: Admin, key: str, place: Place) -> Wanted:
    if one.uid not in SYSTEM_UIDS or not valid_name(one.name):
        raise NodeError(f"the admin {quoted(one.name)} with uid {one.uid} is refused")
    return Wanted(one.name, one.uid, f"{HOMES}/{one.name}", key, place.homes, place.first, place.last, "name in admins")


def _system(passwd: Table, name: str) -> bool:
    fields = passwd.get(name)
    # guard: an admin who became a person is not ended
    return fields is not None and number(fields[2]) in SYSTEM_UIDS


def _words(name: str, day: int | None) -> str:
    if day == ENDED:
        return f"end the account {name}"
    return f"account {name}: {validity('' if day is None else str(day))}"


def _expire(ends: Sequence[tuple[str, int | None]]) -> None:
    if ends:
        with open_root():
            for name, day in ends:
                command = ("chage", "--expiredate", str(-1 if day is None else day), name)
                run(command, what=f"when the account {name} ends could not be set")
