"""What a look says would change for people who have an account, by kind: a line for each, and nobody left out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuadmin.common.text import counted, listed

#: What is put beside what is there (a key, a range of subids, a membership) changes nothing for anybody.
_CHANGES = ("set ", "lock", "unlock", "valid ", "remove ", "restore ", "end ")
_FIELD = re.compile(r"set ([a-z ]+) '(.*)' \(was '.*'\)")
_NO_LOGIN = ("/nologin", "/false")
MOST_NAMES = 200  # in a line


def describe_changes(reports: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Given what each host would do for each person (the report `users`), return a line for each kind of change.

    For example, `storage1: shell becomes /usr/sbin/nologin for 2 people, who cannot log in there any more: kim, lee`.
    """
    kinds: dict[str, dict[str, set[str]]] = {}
    for host, users in reports.items():
        for name, entry in users.items():
            if entry["status"] == "missing":  # a newcomer to the host has nothing that could change
                continue
            for kind in _kinds(name, entry.get("operations") or ()):
                kinds.setdefault(kind, {}).setdefault(name, set()).add(host)
    lines = []
    for kind, people in kinds.items():
        together: dict[tuple[str, ...], list[str]] = {}
        for name, hosts in people.items():
            together.setdefault(tuple(sorted(hosts)), []).append(name)
        for where, names in together.items():
            words = kind.format(people=counted(len(names), "person", "people"))
            lines.append(f"{', '.join(where)}: {words}: {listed(sorted(names), MOST_NAMES)}")
    return sorted(lines)


def _kinds(name: str, operations: Iterable[str]) -> Iterator[str]:
    """What kinds of change operations are. Braces are for the number of people."""
    for text in operations:
        if not text.startswith(_CHANGES):
            continue
        field = _FIELD.fullmatch(text)
        if field is None:
            yield f"{_plain(text)}, for {{people}}"
            continue
        what, value = field[1], field[2]
        if what in ("uid", "gid"):
            yield f"{what} becomes another for {{people}}"
            continue
        value = value[: -len(name)] + "NAME" if value.endswith(f"/{name}") else value
        shut = ", who cannot log in there any more" if what == "shell" and value.endswith(_NO_LOGIN) else ""
        yield f"{what} becomes {_plain(value)} for {{people}}{shut}"


def _plain(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
