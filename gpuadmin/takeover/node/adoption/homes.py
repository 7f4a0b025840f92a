"""Homes of a host: what is where, whose, and the public keys in it. No other file of a home is opened.

A home is its person's: they can put anything there. Keys are read as the person (sshd does the same), so that a file
server that does not trust root answers, and nothing is read that they could not read.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.bounded import read_small
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import keys as known_keys
from ansible_collections.gpuadmin.node.plugins.module_utils.each import Failed
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import KEY
from ansible_collections.gpuadmin.node.plugins.module_utils.in_turn import in_turn
from ansible_collections.gpuadmin.node.plugins.module_utils.lookup import find_name
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import (
    NETWORK,
    Mount,
    nearest,
    parse_mountinfo,
    read_mountinfo,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.people import acting_as
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.sshd import matches
from ansible_collections.gpuadmin.node.plugins.module_utils.sshd_settings import ask_sshd, expand_pattern, key_patterns

from gpuadmin.common.names import KEY_TYPES
from gpuadmin.common.records.adoption import Account, Entry, Homes, Keys, Link, Optioned

from . import bounds
from .accounts import FIRST, NOT_PEOPLE, accounts
from .machine import exports

USUAL = "/home"
MOST_ROOTS, MOST_EXPORTS = 8, 4
MOST_REASONS = 5
UTF16 = (b"\xff\xfe", b"\xfe\xff")
KeyFiles = Callable[[str], Sequence[str]]
SECONDS, TOTAL = 1.0, 6.0  # that one home, and that all of a directory may take to answer
#: An option in front of a key (sshd(8), AUTHORIZED_KEYS FILE FORMAT). Values are left out: one can be a password.
_OPTION = re.compile(r'\s*,?([A-Za-z0-9-]+)(?:="(?:[^"\\]|\\.)*")?')


def homes(place: Place, text: str | None = None) -> list[Homes]:
    """Each directory that has people's homes: what it is on, and what is in it. ``text``: of mountinfo, for tests."""
    found = []
    served = [one.path for one in exports(place) if one.path.startswith("/") and one.path.strip("/")]
    there = roots([one.home for one in people(place)])
    paths = {place.path(path): path for path in dict.fromkeys([*there, *served[:MOST_EXPORTS]])}
    # an automount mounts now what it is for
    for path, names in in_turn(_names, list(paths), seconds=SECONDS, total=TOTAL):
        mounts = parse_mountinfo(read_mountinfo() if text is None else text)
        under = nearest(paths[path], mounts)
        found.append(Homes(
            paths[path],
            bounds.name(under.fstype) if under else None,
            bounds.line(under.source) if under else None,
            under is not None and under.point == paths[path],
            # what an automounter mounts below is wherever its map says
            under is not None and bool(NETWORK.match(under.fstype) or under.fstype == "autofs"),
            *_list_entries(place, path, names, mounts),
        ))  # fmt: skip
    return found


def people(place: Place) -> list[Account]:
    """The accounts with a uid of people's."""
    return [one for one in accounts(place) if one.uid is not None and FIRST <= one.uid != NOT_PEOPLE]


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


def _look_at_entry(place: Place, path: str) -> Entry:
    try:
        facts = os.lstat(path)
        kind = _kind(facts.st_mode)
        link = _link(place, path) if kind == "link" else None
    except OSError as error:
        raise NodeError(str(error.strerror)) from None
    return Entry(_shorten(path), kind, facts.st_uid, None, stat.S_IMODE(facts.st_mode), None, link)


def _link(place: Place, path: str) -> Link:
    """Where a link leads, and who has the directory that is there."""
    leads = os.readlink(path)
    try:
        facts = os.stat(place.path(leads) if leads.startswith("/") else os.path.join(os.path.dirname(path), leads))
    except OSError:
        return Link(bounds.line(leads), None)
    return Link(bounds.line(leads), facts.st_uid if stat.S_ISDIR(facts.st_mode) else None)


def _list_entries(
    place: Place, path: str, names: list[str] | Failed, mounts: list[Mount]
) -> tuple[list[Entry], int, str | None]:
    """Return the entries of a directory, the number of those that are not told, and the problem."""
    if isinstance(names, Failed):
        return [], 0, bounds.line(names.why)
    paths = [os.path.join(path, one) for one in sorted(names)[: bounds.MOST]]
    seen = in_turn(partial(_look_at_entry, place), _plain_first(paths, mounts), seconds=SECONDS, total=TOTAL)
    found = [_build_entry(where, entry) for where, entry in seen]
    for one in found:
        owner = None if one.uid is None else find_name(one.uid)
        one.owner = None if owner is None else bounds.name(owner)
    return sorted(found, key=lambda one: one.name), len(names) - len(paths), None


def _build_entry(path: str, seen: Entry | Failed) -> Entry:
    """Anybody can mount something over their own home that root cannot look at, or that never answers (fuse(4))."""
    if isinstance(seen, Failed):  # guard: what one home does hides no other
        return Entry(_shorten(path), "unknown", None, None, None, bounds.line(seen.why))
    return seen


def _shorten(path: str) -> str:
    return bounds.name(os.path.basename(path))


def _plain_first(paths: list[str], mounts: list[Mount]) -> list[str]:
    """What hangs is a mount: those with one at or below them come last, so that time is left for the others."""
    crooked = {f"/{one}".rstrip("/") for mount in mounts for one in _upwards(mount.point)}
    return sorted(paths, key=lambda path: path in crooked)


def _upwards(point: str) -> Iterator[str]:
    while point.strip("/"):
        yield point.strip("/")
        point = os.path.dirname(point)


def _kind(mode: int) -> Any:
    for is_one, word in ((stat.S_ISDIR, "directory"), (stat.S_ISLNK, "link"), (stat.S_ISREG, "file")):
        if is_one(mode):
            return word
    return "other"


def keys(place: Place, text: str | None = None, files: KeyFiles | None = None) -> dict[str, Keys]:
    """Person → their public keys. ``files``: the patterns of files that sshd reads for somebody; None: as it says."""
    mounts = parse_mountinfo(read_mountinfo() if text is None else text)
    whose = {one.name: one for one in people(place)[: bounds.MOST]}
    homes_of = {name: place.path(one.home) for name, one in whose.items()}
    last = _plain_first(sorted(set(homes_of.values())), mounts)
    order = {path: number for number, path in enumerate(last)}
    patterns = files or find_key_files(place)

    def look(name: str) -> Keys:
        uid, home = int(whose[name].uid or 0), os.path.join(whose[name].home, "")
        paths = [expand_pattern(pattern, name, uid, home) for pattern in patterns(name)]
        inside = [path[len(home) :].lstrip("/") for path in paths if path.startswith(home)]
        with acting_as(uid, whose[name].gid):
            return of_home(homes_of[name], inside, [place.path(path) for path in paths if not path.startswith(home)])

    found = {}
    names = sorted(whose, key=lambda name: order[homes_of[name]])
    for name, answer in in_turn(look, names, seconds=SECONDS, total=TOTAL):
        found[name] = Keys([], [], 0, [], bounds.line(answer.why)) if isinstance(answer, Failed) else answer
    return found


def find_key_files(place: Place) -> KeyFiles:
    """Where sshd looks for somebody's keys. What it does by itself where it does not answer: root alone can ask it."""
    try:
        common = key_patterns(ask_sshd()) if place.root == "/" else known_keys.USUAL
    except (OSError, NodeError):
        common = known_keys.USUAL

    def own(name: str) -> Sequence[str]:
        try:
            return key_patterns(ask_sshd("-C", f"user={name},host=localhost,addr=127.0.0.1"))
        except (OSError, NodeError):
            return common

    return own if place.root == "/" and matches(place) else lambda _name: common


def of_home(home: str, inside: Sequence[str] = known_keys.USUAL, others: Sequence[str] = ()) -> Keys:
    """Somebody's keys: in files of their home, and in ``others`` of the host's.

    In a home nothing is followed: a link in place of .ssh is said, and not entered.
    """
    answer = Keys([], [], 0, [], None)
    for path, directory in [*((one, home) for one in inside), *((one, None) for one in others)]:
        try:
            data = read_small(path) if directory is None else _in_home(directory, path)
        except FileNotFoundError:
            continue
        except (OSError, NodeError) as error:
            answer.problem = bounds.line(error.strerror if isinstance(error, OSError) else error)
            continue
        if data.startswith(UTF16) or b"\0" in data:
            answer.odd += 1
            _explain(answer, "the file is UTF-16, which sshd does not read")
            continue
        for text in data.decode("utf-8", "replace").split("\n"):
            line = text.strip()
            if line and not line.startswith("#"):
                _sort(line, answer)
    return answer


def _in_home(home: str, path: str) -> bytes:
    *above, last = path.split("/")
    opened = [os.open(home, known_keys.DIRECTORY)]
    try:
        for name in above:
            opened.append(os.open(name, known_keys.DIRECTORY, dir_fd=opened[-1]))
        return read_small(last, opened[-1])
    finally:
        for one in opened:
            os.close(one)


def _explain(answer: Keys, why: str) -> None:
    if why not in answer.why and len(answer.why) < MOST_REASONS:
        answer.why.append(bounds.name(why))


def _sort(line: str, answer: Keys) -> None:
    """Put one line where it belongs. Only what has the form of a public key is told."""
    if len(answer.plain) + len(answer.options) + answer.odd >= bounds.MOST_OF_ONE:
        answer.odd += 1
        _explain(answer, f"there are more than {bounds.MOST_OF_ONE}")
        return
    plain = " ".join(line.split())
    # guard: of a file of keys only public keys leave a host
    if KEY.match(plain) and known_keys.key(plain)["problem"] is None:
        answer.plain.append(plain)
        return
    facts = known_keys.key(line)
    if facts["fingerprint"] and facts.get("options"):
        answer.options.append(Optioned(option_names(line), facts["fingerprint"]))
    else:
        answer.odd += 1
        _explain(answer, facts["problem"] or "is longer than any key, or its comment is not text")


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
