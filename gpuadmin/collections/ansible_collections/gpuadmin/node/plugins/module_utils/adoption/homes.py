"""Homes of a host: what is where, whose, and the public keys in it. No other file of a home is opened.

A home is its person's: they can put anything there. Keys are read as the person (sshd does the same), so that a file
server that does not trust root answers, and nothing is read that they could not read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from gpuadmin.common.names import KEY_TYPES

from ..diagnosis import keys as known_keys
from ..diagnosis.subject import read_small
from ..errors import NodeError
from ..fields import KEY
from ..lookup import name_of
from ..mounts import NETWORK, nearest, parse_mountinfo, read_mountinfo
from ..privileges.place import Place
from . import bounds
from .accounts import FIRST, NOT_PEOPLE, accounts

USUAL = "/home"
MOST_ROOTS = 8
#: An option in front of a key (sshd(8), AUTHORIZED_KEYS FILE FORMAT). Of a value nothing is told: it can be a password.
_OPTION = re.compile(r'\s*,?([A-Za-z0-9-]+)(?:="(?:[^"\\]|\\.)*")?')


def homes(place: Place, text: str | None = None) -> list[dict[str, Any]]:
    """Each directory that has people's homes: what it is on, and what is in it. ``text``: of mountinfo, for tests."""
    found = []
    for path in roots([one["home"] for one in people(place)]):
        entries = _entries(place.path(path))  # an automount mounts now what it is for
        under = nearest(path, parse_mountinfo(read_mountinfo() if text is None else text))
        found.append(
            {
                "path": path,
                "fstype": bounds.name(under.fstype) if under else None,
                "source": bounds.line(under.source) if under else None,
                "mounted": under is not None and under.point == path,
                "network": under is not None and NETWORK.match(under.fstype) is not None,
                **entries,
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


def _entries(path: str) -> dict[str, Any]:
    """What a directory has: ``entries``, ``more`` that are not told, ``problem``."""
    found: list[dict[str, Any]] = []
    more = 0
    try:
        with os.scandir(path) as entries:
            for entry in entries:
                if len(found) == bounds.MOST:
                    more += 1
                    continue
                facts = entry.stat(follow_symlinks=False)
                found.append(
                    {
                        "name": bounds.name(entry.name),
                        "kind": _kind(facts.st_mode),
                        "uid": facts.st_uid,
                        "owner": None if (owner := name_of(facts.st_uid)) is None else bounds.name(owner),
                        "mode": stat.S_IMODE(facts.st_mode),
                    }
                )
    except FileNotFoundError:
        return {"entries": [], "more": 0, "problem": "missing"}
    except OSError as error:
        return {"entries": [], "more": 0, "problem": str(error.strerror)}
    return {"entries": sorted(found, key=lambda one: one["name"]), "more": more, "problem": None}


def _kind(mode: int) -> str:
    for is_one, word in ((stat.S_ISDIR, "directory"), (stat.S_ISLNK, "link"), (stat.S_ISREG, "file")):
        if is_one(mode):
            return word
    return "other"


def keys(place: Place) -> dict[str, dict[str, Any]]:
    """Person → their public keys: ``plain`` ones as lines; ``options``, ``odd``: of those that are not told."""
    found = {}
    for one in people(place)[: bounds.MOST]:
        with as_person(one["uid"], one["gid"]):
            found[one["name"]] = of_home(place.path(one["home"]))
    return found


@contextmanager
def as_person(uid: int, gid: int | None) -> Iterator[None]:
    """Read as the person, where we are root: in a process of its own, which is told to end whatever happens."""
    if os.geteuid() != 0:
        yield
        return
    before = os.getgroups()
    os.setgroups([])
    os.setegid(uid if gid is None else gid)
    os.seteuid(uid)  # guard: a home is read as its person
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before)


def of_home(home: str) -> dict[str, Any]:
    """The keys of one home. Nothing is followed: a link in place of .ssh is said, and not entered."""
    answer: dict[str, Any] = {"plain": [], "options": [], "odd": 0, "problem": None}
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
