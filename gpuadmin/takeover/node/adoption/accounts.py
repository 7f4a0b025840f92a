"""Accounts of a host as its own files have them, and as its other sources of names do. No password hash is told.

Formats: passwd(5), shadow(5), group(5), subuid(5), nsswitch.conf(5).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from ansible_collections.gpuadmin.node.plugins.module_utils.bounded import read_small
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.accounts import GROUPS
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place
from ansible_collections.gpuadmin.node.plugins.module_utils.run import look
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import Table, decode, encode, members, number

from gpuadmin.common.records.adoption import Account, Directory, Elsewhere, Group, Range, Subids

from ..renumbering import journal
from ..renumbering.accounts import CLOSED_SINCE
from . import bounds

NOT_PEOPLE = 65534  # nobody
FIRST = 1000  # the first uid that useradd(8) gives by itself
FILES = frozenset(("files", "compat", "systemd", "altfiles", "cache"))


def accounts(place: Place) -> list[Account]:
    """Everybody in passwd, with what shadow says of their password: a word for its state, and the day of the end.

    A hash is read, because it is in the same line, and only how its field begins is looked at. ``closed``: the verb
    that keeps somebody out until it has ended; both are then told as they were before.
    """
    try:
        shadow: Table | None = _table(place, "shadow")
    except PermissionError:
        shadow = None
    closed = {} if shadow is None else _closed(place)
    found = []
    for fields in _table(place, "passwd").entries()[: bounds.MOST]:
        login, _, uid, gid, gecos, home, shell = fields
        secret: Sequence[str] | None = None if shadow is None else shadow.get(login)
        verb: Any = ""
        # guard: an end that gpuadmin has set for a while is nobody's last day
        if secret is not None and secret[7] == CLOSED_SINCE and login in closed:
            verb, secret = closed[login]
        password = None if shadow is None else state(None if secret is None else secret[1])
        expires = None if secret is None else number(secret[7])
        found.append(Account(
            bounds.name(login), number(uid), number(gid), bounds.line(home), bounds.name(shell), password, expires,
            bounds.line(decode_gecos(gecos)), verb,
        ))  # fmt: skip
    return found


def _closed(place: Place) -> dict[str, tuple[Any, Sequence[str]]]:
    """By name, old or new: which verb has closed it, and its line of shadow as it was. Raises NodeError."""
    found = journal.load(place.path(place.state))
    if found is None:
        return {}
    lines = {name: ["", word, *[""] * 5, end, ""] for name, (word, end, _locked) in found.closed.items()}
    names = [(name, one.name) for one in found.people for name in (one.name, one.was) if name]
    return {name: (found.verb, lines[of]) for name, of in names if of in lines}


def decode_gecos(text: str) -> str:
    """Given text of a database, return it in Hangul where it is EUC-KR, as Linux had Korean before UTF-8.

    Of bytes in another encoding U+FFFD is left: nobody knows which it is.
    """
    data = encode(text)
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    try:
        korean = data.decode("cp949")
    except UnicodeDecodeError:
        korean = ""
    beyond = [one for one in korean if not one.isascii()]
    # the same bytes are other letters in Latin-1: what is no syllable of Hangul was not meant to be Korean
    return korean if beyond and all("가" <= one <= "힣" for one in beyond) else data.decode("utf-8", "replace")


def state(field: str | None) -> Literal["set", "none", "locked", "empty", "missing"]:
    """Given the second field of shadow, return what it is: never the field itself."""
    if field is None:
        return "missing"
    if field == "":
        return "empty"
    if re.match(r"!+[$_A-Za-z0-9./]", field):
        return "locked"  # somebody has locked it (passwd -l, usermod -L); ssh lets them in by key all the same
    return (
        "none" if field[0] in "!*" else "set"  # guard: no password hash leaves a host -> field
    )


def groups(place: Place) -> list[Group]:
    """Groups with a gid of people's, and those that are as good as root."""
    found = []
    for group, _, gid, named in _table(place, "group").entries()[: bounds.MOST]:
        value = number(gid)
        if group in GROUPS or (value is not None and value >= FIRST):
            who = [bounds.name(one) for one in members(named)[: bounds.MOST]]
            found.append(Group(bounds.name(group), value, who))
    return found


def subids(place: Place) -> Subids:
    """The ranges of subuid and subgid, in the order of the files."""
    return Subids(list(_ranges(place, "subuid")), list(_ranges(place, "subgid")))


def _ranges(place: Place, kind: str) -> Iterator[Range]:
    try:
        text = read_small(place.path(f"/etc/{kind}"), most=bounds.FILE).decode("utf-8", "replace")
    except FileNotFoundError:
        return
    for line in text.splitlines()[: bounds.MOST]:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        parts = line.split(":")
        whole = len(parts) == 3
        start, count = (number(parts[1]), number(parts[2])) if whole else (None, None)
        if start is None or count is None:
            yield Range(bounds.line(line), None, None)
        else:
            yield Range(bounds.name(parts[0]), start, count)


def directory(place: Place) -> Directory:
    """Sources of names beside this host's files. Many answer no listing: then they have no accounts, though people
    log in."""
    sources = [one for one in _sources(place) if one not in FILES]
    found: list[Elsewhere] = []
    if sources and place.root == "/":
        local = {fields[0] for fields in _table(place, "passwd").entries()}
        for line in look(("getent", "passwd")).stdout.splitlines():
            fields = line.split(":")
            uid = number(fields[2]) if len(fields) == 7 else None
            if uid is not None and FIRST <= uid != NOT_PEOPLE and fields[0] not in local:
                found.append(Elsewhere(bounds.name(fields[0]), uid))
            if len(found) == bounds.MOST:
                break
    return Directory([bounds.name(one) for one in sources[: bounds.MOST_OF_ONE]], found)


def _sources(place: Place) -> list[str]:
    """What nsswitch.conf names for passwd, without the actions in brackets."""
    try:
        text = read_small(place.path("/etc/nsswitch.conf")).decode("utf-8", "replace")
    except (FileNotFoundError, NodeError):
        return []
    line = re.search(r"(?m)^\s*passwd\s*:([^#\n]*)", text)
    return re.sub(r"\[[^]]*\]", " ", line.group(1)).split() if line else []


def _table(place: Place, kind: str) -> Table:
    data = read_small(place.path(f"/etc/{kind}"), most=bounds.FILE)
    return Table.parse(kind, decode(data))
