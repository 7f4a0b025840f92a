"""Names, numbers and text that people or other hosts can shape: they are hostile until they have passed here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from gpuadmin.common.names import KEY_TYPES, LOGIN
from gpuadmin.common.text import UNSEEN

# A time in the names of what is made: 20261221T010203Z.
STAMP = r"[0-9]{8}T[0-9]{6}Z"
NAME = re.compile(LOGIN + r"\Z")
# A uuid as btrfs.Subvolume has it.
UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
FIRST_HUMAN_UID = 1000
CONTROL = re.compile(f"[{UNSEEN}]")
KEY = re.compile(r"(?:%s) [A-Za-z0-9+/]{16,16384}={0,3}(?: [^%s]*)?\Z" % ("|".join(map(re.escape, KEY_TYPES)), UNSEEN))
# What restore-home makes beside a home: a copy, and what was there before. Nobody but root makes entries there.
BESIDE = re.compile(rf"({LOGIN})(?:\.(?:before|restored)-{STAMP}(?:-[1-9][0-9]?)?)+\Z")


@dataclass(frozen=True)
class User:
    """One person, as the site wants the account to be. ``expires`` is in days since 1970-01-01."""

    name: str
    uid: int
    gid: int
    gecos: str = ""
    shell: str = "/bin/bash"
    home: str = ""
    expires: Optional[int] = None
    locked: bool = False
    keys: Sequence[str] = ()
    docker: bool = True
    group: Optional[str] = None


def quoted(value: object) -> str:
    """Foreign text for a message: printable ASCII, short."""
    return ascii(value)[:80]


def valid_name(value: object) -> bool:
    return isinstance(value, str) and NAME.match(value) is not None


def home_owner(value: object) -> str | None:
    """Whose a directory of this name in the home root would be: a home, or what a restore made beside one."""
    if valid_name(value):
        return str(value)
    found = BESIDE.match(value) if isinstance(value, str) else None
    return None if found is None else found.group(1)


def whole_number(value: object) -> int | None:
    """An int, or decimal text of one (Ansible templates may turn numbers into text)."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= 10:
        return int(value)
    return None
