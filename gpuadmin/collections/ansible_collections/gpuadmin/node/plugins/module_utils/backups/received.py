"""What a set says of itself that came from another host, taken apart strictly: that host may have been taken over.

Nothing here is written. Sizes, names and paths are bounded; times are compared with this host's clock.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from gpuadmin.common.records.people import Home

from ..errors import NodeError
from ..fields import CONTROL, UUID, home_owner, quoted
from ..files import read_bytes
from . import backup_set
from .backup_set import Backup
from .retention import moment

TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z\Z")
PART = re.compile(r"(homes|nested/[0-9]{1,6})\Z")
SUM = re.compile(r"[0-9a-f]{64}\Z")
AHEAD = timedelta(minutes=10)  # how far two clocks may differ
DOCUMENT = 64 << 20  # bytes of a backup.json: some 100,000 homes
MANIFEST = 4 << 30  # bytes of a home's manifest as it is sent
BYTES = 1 << 100  # of a home; a size is what its owner says, and twenty million sparse files of 8 EiB are 2**87
STAMP = "received.json"


def check_time(name: str) -> None:
    """Refuse a set's name that is not a time, or a time in the future."""
    try:
        when = datetime.strptime(name.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=timezone.utc)
    except ValueError:
        raise NodeError(f"{quoted(name)} has no time in it") from None
    _check_past(when, name)


def _check_past(when: datetime, what: str) -> None:
    if when > moment(backup_set.now()) + AHEAD:  # guard: nothing is of the future
        raise NodeError(f"{what} is in the future by this host's clock ({backup_set.now()}): refused")


def parse(directory: str, name: str, data: bytes | str) -> Backup:
    """Given a backup.json of another host, return the set as it would be in ``directory``. Raises NodeError.

    ``verified`` is still what that host says; what it says of further copies is left out.
    """
    check_time(name)
    if len(data) > DOCUMENT:
        raise NodeError(f"what {name} says of itself is longer than {DOCUMENT} bytes")
    try:
        found = backup_set.parse(directory, name, data)
        problem = _problem(found)
        if problem is None:
            _check_past(moment(found.created), f"the creation of {name}")
    except (AttributeError, TypeError, ValueError, RecursionError) as error:
        raise NodeError(f"{name} cannot be read: {error}") from error
    if problem is not None:
        raise NodeError(f"what {name} says of itself is refused: {problem}")
    problems = {_text(who): _text(what) for who, what in list(found.problems.items())[:10000]}
    return replace(found, problems=problems, copies={}, uncopied={})


def _text(value: object) -> str:
    return CONTROL.sub("?", str(value)[:500])


def _problem(found: Backup) -> str | None:
    inside = found.inside
    # guard: a set's homes are below its snapshot
    if not isinstance(inside, str) or not (inside == "." or _below(inside)):
        return f"inside {quoted(inside)[:100]}"
    if not isinstance(found.root, str) or not found.root.startswith("/") or len(found.root) > 4096:
        return "root"
    if not isinstance(found.created, str) or not TIME.match(found.created):
        return "created"
    if not isinstance(found.problems, Mapping):
        return "problems"
    for name, home in found.homes.items():
        if not home_owner(name):  # guard: a set's homes have names of people
            return f"the name {quoted(name)[:100]}"
        wrong = _wrong(home)
        if wrong is not None:
            return f"{wrong} of {name}"
    places = [where for home in found.homes.values() for where in home.nested.values()]
    return "one snapshot for two places" if len(set(places)) != len(places) else None  # guard: a snapshot has one place


def _wrong(home: Home) -> str | None:
    """Which field of a home is not as gpuadmin writes it."""
    for what, most in (("uid", 2**32), ("inode", 2**64), ("files", 2**63), ("bytes", BYTES), ("entries", 2**63)):
        value = getattr(home, what)
        # guard: a set's numbers are numbers
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < most:
            return what
    for what, pattern in (("volume", UUID), ("checksum", SUM), ("verified", TIME)):
        value = getattr(home, what)
        if value in ("", None) if what != "checksum" else False:
            continue
        if not isinstance(value, str) or not pattern.match(value):  # guard: a set's words are of their form
            return what
    if not isinstance(home.nested, Mapping):
        return "nested"
    for where, part in home.nested.items():
        if (
            not (where == "" or _below(where))  # guard: places of nested subvolumes are in the home
            or not isinstance(part, str)
            or (not PART.match(part) or part == "homes")  # guard: a set's subvolumes are snapshots in it
        ):
            return "nested"
    return None


def parse_home(name: str, raw: object) -> Home:
    """A home as another host describes it. Raises NodeError."""
    try:
        home = Home(**{"verified": None, **raw}) if isinstance(raw, dict) else None
    except TypeError:
        home = None
    if home is None or not home_owner(name) or _wrong(home) is not None:
        raise NodeError(f"what is said of the home of {quoted(name)[:100]} is refused")
    return home


def _below(path: object) -> bool:
    """Whether it is a plain path to below somewhere, which cannot lead out of there."""
    return (
        isinstance(path, str) and "\0" not in path and len(path) <= 1 << 16
        and all(part not in ("", ".", "..") for part in path.split("/"))
    )  # fmt: skip


def stamp() -> bytes:
    return json.dumps({"received": backup_set.now()}).encode() + b"\n"


def arrived(path: str) -> datetime | None:
    """When a set came to this host, by this host's clock; None for one that was made here or fetched.

    What cannot be read counts as just arrived: nothing is deleted because of it.
    """
    data = read_bytes(os.path.join(path, STAMP))
    if data is None:
        return None
    try:
        return moment(json.loads(data)["received"])
    except (ValueError, KeyError, TypeError):
        return moment(backup_set.now())
