"""The site's declared admins: their accounts, keys and sudo; and the end of those who are no longer declared.

They are system accounts like the one that gpuadmin logs in as (admin.py), without a password; one that was made by hand
keeps its uid. Who was declared, and with which keys, is written down with sudo's rules: by that the next run knows what
to take away, and no other key is touched. The day after the last one the account is expired: sshd and sudo refuse it by
themselves (shadow(5), pam_unix(8)).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gpuadmin.common.records.audits import Admin
from gpuadmin.common.records.files import File, FilesOrder

from ..errors import NodeError
from ..fields import KEY, valid_name
from ..files import read_bytes
from ..root.guard import open_root
from ..root.tree import Plan, validate
from ..root.tree import execute as write
from ..root.tree import plan as plan_files
from ..run import run
from ..textdb import Table, decode, number
from .account import validity
from .admin import Wanted, below, execute, holds_key, key_words, observe, plan, read_authorized_keys, remove_keys

SUDOERS = "/etc/sudoers.d/gpuadmin-admins"
SHADOW, PASSWD = "/etc/shadow", "/etc/passwd"
HOMES = "/var/home"
ENDED = 1  # days since 1970: long ago
_HEADER = "# The admins of this site, as gpuadmin.yml has them (gpuadmin provision):"
_KEY = "# key "


@dataclass(frozen=True)
class People:
    """``homes``: where people's homes are mounted. ``first`` and ``last``: people's uids."""

    homes: str
    first: int
    last: int


@dataclass(frozen=True)
class Found:
    """``operations``: what is to be done, in words. ``wanted``: accounts and keys. ``expiry``: names and their days.
    ``taken``: home, uid, and the keys that go.
    """

    operations: Sequence[str]
    wanted: Sequence[Wanted]
    expiry: Sequence[tuple[str, int | None]]
    taken: Sequence[tuple[str, int, Sequence[str]]]
    files: Plan


def look(admins: Sequence[Admin], people: People) -> Found:
    """Given who is declared, return what is missing here. Raises NodeError for what may not be made."""
    operations: list[str] = []
    wanted = [_wanted(one, key, people) for one in admins for key in one.keys]
    for one in wanted:
        operations += [words for words in plan(one, observe(one)).operations(one) if words not in operations]
    passwd = Table.parse("passwd", decode(read_bytes(PASSWD) or b""))
    shadow = Table.parse("shadow", decode(read_bytes(SHADOW) or b""))
    text = decode(read_bytes(SUDOERS) or b"")
    ends = [(one.name, one.expires) for one in admins]
    ends += [(name, ENDED) for name in gone(text, admins) if _is_admins(passwd, name, people)]
    expiry = []
    for name, day in ends:
        fields = shadow.get(name)
        now = None if fields is None else number(fields[7])
        if now != day:
            expiry.append((name, day))
            operations.append(_words(name, day))
    taken = _taken(text, admins, passwd, people)
    for home, _, keys in taken:
        operations += [f"take the key {key_words(key)} out of {home}" for key in keys]
    files = plan_files(FilesOrder(files=[File(SUDOERS, sudoers(admins), "0440", ("visudo", "-c", "-f", "%s"))]))
    return Found([*operations, *files.summaries], wanted, expiry, taken, files)


def converge(found: Found) -> None:
    """Do what is missing: accounts and keys, then sudo for them; the end of others comes first.

    The record of who is declared comes last: a run that was cut off before is done again.
    """
    ended = [(name, day) for name, day in found.expiry if name not in {one.name for one in found.wanted}]
    _expire(ended)
    for home, uid, keys in found.taken:
        remove_keys(home, keys, uid)
    for one in found.wanted:
        execute(plan(one, observe(one)), one)
    _expire([one for one in found.expiry if one not in ended])
    validate(found.files.operations, check=False)
    if found.files.operations:
        write(found.files)


def sudoers(admins: Sequence[Admin]) -> str:
    """The rules of sudo. By the names and keys in the comments the next run knows what was declared."""
    rules = [f"{one.name} ALL=(ALL:ALL) NOPASSWD: ALL" for one in admins if one.sudo]
    names = " ".join(one.name for one in admins) or "nobody"
    keys = [f"{_KEY}{one.name} {' '.join(key.split(' ')[:2])}" for one in admins for key in one.keys]
    return "\n".join([_HEADER, f"# {names}", *keys, *rules]) + "\n"


def gone(text: str, admins: Sequence[Admin]) -> list[str]:
    """Who was declared when the file was written, and no longer is."""
    lines = text.splitlines()
    if not lines or lines[0] != _HEADER or len(lines) < 2:
        return []
    names = [name for name in re.sub(r"\A# ", "", lines[1]).split() if valid_name(name)]
    return [name for name in names if name not in {one.name for one in admins} and name != "nobody"]


def declared_keys(text: str) -> dict[str, list[str]]:
    """Name → the keys that were declared when the file was written."""
    found: dict[str, list[str]] = {}
    if text.startswith(f"{_HEADER}\n"):
        for line in text.splitlines():
            name, _, key = line[len(_KEY) :].partition(" ") if line.startswith(_KEY) else ("", "", "")
            if valid_name(name) and KEY.match(key):
                found.setdefault(name, []).append(key)
    return found


def _taken(text: str, admins: Sequence[Admin], passwd: Table, people: People) -> list[tuple[str, int, Sequence[str]]]:
    """Keys that are no longer declared, and still let somebody in."""
    wanted = {one.name: {key.split(" ")[1] for key in one.keys} for one in admins}
    found: list[tuple[str, int, Sequence[str]]] = []
    for name, before in declared_keys(text).items():
        fields = passwd.get(name)
        if fields is None or not _is_admins(passwd, name, people):
            continue
        home = fields[5]
        if not home.startswith("/") or below(home, people.homes):
            continue
        try:
            lines = decode(read_authorized_keys(home) or b"").splitlines()
        except (NodeError, OSError):  # guard: what a former admin has put there stops nothing -> ZeroDivisionError
            continue
        left = wanted.get(name, set())
        keys = [
            key
            for key in before
            if key.split(" ")[1] not in left  # guard: a key that is declared is not taken away
            and any(holds_key(line, key) for line in lines)
        ]
        if keys:
            found.append((home, number(fields[2]) or 0, keys))
    return found


def _wanted(one: Admin, key: str, people: People) -> Wanted:
    home = f"{HOMES}/{one.name}"
    return Wanted(one.name, one.uid, home, key, people.homes, people.first, people.last, "name in admins")


def _is_admins(passwd: Table, name: str, people: People) -> bool:
    """Whether the account is an admin's still, whatever its uid: not root's, and no person's."""
    fields = passwd.get(name)
    uid = 0 if fields is None else number(fields[2]) or 0
    # guard: an admin who became a person is not ended
    return uid > 0 and not people.first <= uid <= people.last


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
