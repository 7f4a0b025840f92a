"""What comes from the controller is checked again here: names, numbers, free text and keys are hostile until then."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

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
MAXIMUM_DAYS = 2**31 - 1  # shadow(5) fields are C longs; no tool shows more than this


@dataclass(frozen=True)
class User:
    """One person, as the site wants the account to be. ``expires`` is in days since 1970-01-01."""

    name: str
    uid: int
    gid: int
    gecos: str = ""
    shell: str = "/bin/bash"
    home: str = ""
    expires: int | None = None
    locked: bool = False
    keys: tuple[str, ...] = ()
    docker: bool = True


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


def _path_problem(what: str, value: str) -> str | None:
    # guard: a path is a plain absolute one
    if not value.startswith("/") or ":" in value or CONTROL.search(value) or ".." in value.split("/"):
        return f"{what} {quoted(value)} is not a plain absolute path"
    return None


def key_problem(key: object) -> str | None:
    """Given one line of authorized_keys, return why it is refused, or None. Options such as command= are refused."""
    if (
        not isinstance(key, str)
        # guard: a key has no options
        or not KEY.match(key)
    ):
        return f"ssh key {quoted(key)[:44]} is not a plain public key (type, base64, comment; no options)"
    return None


def parse_user(raw: Mapping[str, object]) -> tuple[User | None, str | None]:
    """Given one entry of ``users``, return (user, None) or (None, why it is refused)."""
    name, uid = raw.get("name"), whole_number(raw.get("uid"))
    if (
        not isinstance(name, str)
        # guard: a name is a plain one
        or not valid_name(name)
    ):
        return None, f"the name {quoted(name)} is refused: it must match {LOGIN}"
    if uid is None:
        return None, f"uid {quoted(raw.get('uid'))} is not a number"
    gid = uid if raw.get("gid") is None else whole_number(raw.get("gid"))
    if gid is None:
        return None, f"gid {quoted(raw.get('gid'))} is not a number"
    texts = {}
    for what, default in (("gecos", ""), ("shell", "/bin/bash"), ("home", f"/home/{name}")):
        value = raw.get(what)
        texts[what] = default if value is None else str(value)
    # guard: free text has no colon and no control character
    if ":" in texts["gecos"] or CONTROL.search(texts["gecos"]):
        return None, f"gecos {quoted(texts['gecos'])} has a colon or a control character"
    for what in ("shell", "home"):
        problem = _path_problem(what, texts[what])
        if problem:
            return None, problem
    expires = raw.get("expires")
    days = None if expires is None else whole_number(expires)
    if expires is not None and (days is None or not 0 <= days <= MAXIMUM_DAYS):  # guard: a number of days is one
        return None, f"expires {quoted(expires)} is not a number of days since 1970-01-01"
    keys = raw.get("keys") or []
    if not isinstance(keys, (list, tuple)):
        return None, "keys is not a list"
    for key in keys:
        problem = key_problem(key)
        if problem:
            return None, problem
    for what in ("locked", "docker"):
        if raw.get(what) is not None and not isinstance(raw.get(what), bool):  # guard: yes and no are themselves
            return None, f"{what} is neither true nor false"
    docker = raw.get("docker")
    return User(
        name, uid, gid, texts["gecos"], texts["shell"], texts["home"], days, bool(raw.get("locked")),
        tuple(dict.fromkeys(str(key) for key in keys)), True if docker is None else bool(docker),
    ), None  # fmt: skip
