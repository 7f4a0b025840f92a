"""Homes of a host: what is where, whose, and the public keys in it. No other file of a home is opened.

A home is its person's: they can put anything there. Keys are read as the person (sshd does the same), so that a file
server that does not trust root answers, and nothing is read that they could not read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from typing import Any

from gpuadmin.common.names import KEY_TYPES

from ..diagnosis import keys as known_keys
from ..diagnosis.subject import read_small
from ..each import Failed
from ..errors import NodeError
from ..fields import KEY
from ..in_turn import in_turn
from ..lookup import name_of
from ..mounts import NETWORK, Mount, nearest, parse_mountinfo, read_mountinfo
from ..people import acting_as
from ..privileges.place import Place
from . import bounds
from .accounts import FIRST, NOT_PEOPLE, accounts

USUAL = "/home"
MOST_ROOTS = 8
SECONDS, TOTAL = 1.0, 6.0  # that one home, and that all of a directory may take to answer
#: An option in front of a key (sshd(8), AUTHORIZED_KEYS FILE FORMAT). Values are left out: one can be a password.
_OPTION = re.compile(r'\s*,?([A-Za-z0-9-]+)(?:="(?:[^"\\]|\\.)*")?')


def homes(place: Place, text: str | None = None) -> list[dict[str, Any]]:
    """Each directory that has people's homes: what it is on, and what is in it. ``text``: of mountinfo, for tests."""
    found = []
    paths = {place.path(path): path for path in roots([one["home"] for one in people(place)])}
    # an automount mounts now what it is for
    for path, names in in_turn(_names, list(paths), seconds=SECONDS, total=TOTAL):
        mounts = parse_mountinfo(read_mountinfo() if text is None else text)
        under = nearest(paths[path], mounts)
        found.append(
            {
                "path": paths[path],
                "fstype": bounds.name(under.fstype) if under else None,
                "source": bounds.line(under.source) if under else None,
                "mounted": under is not None and under.point == paths[path],
                "network": under is not None and NETWORK.match(under.fstype) is not None,
                **_entries(path, names, mounts),
            }
        )
    return found


def people(place: Place) -> list[dict[str, Any]]:
    """The accounts with a uid of people's."""
    return [one for one in accounts(place) if one["uid"] is not None and FIRST <= one["uid"] != NOT_PEOPLE]


def roots(paths: list[str]) -> list[str]:
    """Given people's homes, return the directories that they are in, the usual one first, then the fullest."""
    count: dict[str, int] = {}
    for path in paths:
        parent = os.path.dirname(os.path.normpath(path))
        if parent.startswith("/") and parent != "/" and not parent.startswith(("/proc", "/sys", "/dev", "/run")):
            count[parent] = count.get(parent, 0) + 1
    others = sorted((one for one in count if one != USUAL), key=lambda one: (-count[one], one))
    return [USUAL, *others][:MOST_ROOTS]


def _names(path: str) -> list[str]:
    try:
        return os.listdir(path)
    except FileNotFoundError:
        raise NodeError("missing") from None
    except OSError as error:
        raise NodeError(str(error.strerror)) from None


def _facts(path: str) -> os.stat_result:
    try:
        return os.lstat(path)
    except OSError as error:
        raise NodeError(str(error.strerror)) from None


def _entries(path: str, names: list[str] | Failed, mounts: list[Mount]) -> dict[str, Any]:
    """What a directory has: ``entries``, ``more`` that are not told, ``problem``."""
    if isinstance(names, Failed):
        return {"entries": [], "more": 0, "problem": bounds.line(names.why)}
    there = sorted(names)[: bounds.MOST]
    found = [
        {"name": bounds.name(os.path.basename(one)), "owner": None, **_told(facts)}
        for one, facts in in_turn(
            _facts, _plain_first([os.path.join(path, one) for one in there], mounts), seconds=SECONDS, total=TOTAL
        )
    ]
    for one in found:
        owner = None if one["uid"] is None else name_of(one["uid"])
        one["owner"] = None if owner is None else bounds.name(owner)
    return {
        "entries": sorted(found, key=lambda one: str(one["name"])), "more": len(names) - len(there), "problem": None
    }  # fmt: skip


def _told(facts: os.stat_result | Failed) -> dict[str, Any]:
    """Anybody can mount something over their own home that root cannot look at, or that never answers (fuse(4))."""
    if isinstance(facts, Failed):  # guard: what one home does hides no other
        return {"kind": "unknown", "uid": None, "mode": None, "problem": bounds.line(facts.why)}
    return {
        "kind": _kind(facts.st_mode), "uid": facts.st_uid, "mode": stat.S_IMODE(facts.st_mode), "problem": None
    }  # fmt: skip


def _plain_first(paths: list[str], mounts: list[Mount]) -> list[str]:
    """What hangs is a mount: those with one at or below them come last, so that time is left for the others."""
    crooked = {f"/{one}".rstrip("/") for mount in mounts for one in _upwards(mount.point)}
    return sorted(paths, key=lambda path: path in crooked)


def _upwards(point: str) -> Iterator[str]:
    while point.strip("/"):
        yield point.strip("/")
        point = os.path.dirname(point)


def _kind(mode: int) -> str:
    for is_one, word in ((stat.S_ISDIR, "directory"), (stat.S_ISLNK, "link"), (stat.S_ISREG, "file")):
        if is_one(mode):
            return word
    return "other"


def keys(place: Place, text: str | None = None) -> dict[str, dict[str, Any]]:
    """Person → their public keys: ``plain`` ones as lines; ``options``, ``odd``: of those that are not told."""
    mounts = parse_mountinfo(read_mountinfo() if text is None else text)
    whose = {one["name"]: one for one in people(place)[: bounds.MOST]}
    homes_of = {name: place.path(one["home"]) for name, one in whose.items()}
    last = _plain_first(sorted(set(homes_of.values())), mounts)
    order = {path: number for number, path in enumerate(last)}

    def look(name: str) -> dict[str, Any]:
        with acting_as(whose[name]["uid"], whose[name]["gid"]):
            return of_home(homes_of[name])

    found = {}
    names = sorted(whose, key=lambda name: order[homes_of[name]])
    for name, told in in_turn(look, names, seconds=SECONDS, total=TOTAL):
        found[name] = {**_no_keys(), "problem": bounds.line(told.why)} if isinstance(told, Failed) else told
    return found


def _no_keys() -> dict[str, Any]:
    return {"plain": [], "options": [], "odd": 0, "problem": None}


def of_home(home: str) -> dict[str, Any]:
    """The keys of one home. Nothing is followed: a link in place of .ssh is said, and not entered."""
    answer = _no_keys()
    opened: list[int] = []
    try:
        opened.append(os.open(home, known_keys.DIRECTORY))
        opened.append(os.open(".ssh", known_keys.DIRECTORY, dir_fd=opened[0]))
        data = read_small("authorized_keys", opened[1])
    except FileNotFoundError:
        return answer
    except (OSError, NodeError) as error:
        return {**answer, "problem": bounds.line(error.strerror if isinstance(error, OSError) else error)}
    finally:
        for one in opened:
            os.close(one)
    for text in data.decode("utf-8", "replace").split("\n"):
        line = text.strip()
        if line and not line.startswith("#"):
            _sort(line, answer)
    return answer


def _sort(line: str, answer: dict[str, Any]) -> None:
    """Put one line where it belongs. Only what has the form of a public key is told."""
    if len(answer["plain"]) + len(answer["options"]) + answer["odd"] >= bounds.MOST_OF_ONE:
        answer["odd"] += 1
        return
    plain = " ".join(line.split())
    # guard: of a file of keys only public keys leave a host
    if KEY.match(plain) and known_keys.key(plain)["problem"] is None:
        answer["plain"].append(plain)
        return
    facts = known_keys.key(line)
    if facts["fingerprint"] and facts.get("options"):
        answer["options"].append({"names": option_names(line), "fingerprint": facts["fingerprint"]})
    else:
        answer["odd"] += 1


def option_names(line: str) -> list[str]:
    """Given a line with options in front of its key, return their names: `command`, `from`."""
    names: list[str] = []
    place = 0
    while len(names) < bounds.MOST_OF_ONE:
        match = _OPTION.match(line, place)
        if match is None or match.group(1) in KEY_TYPES:
            break
        names.append(bounds.name(match.group(1)))
        place = match.end()
        if not line[place:].startswith(","):
            break
    return names
