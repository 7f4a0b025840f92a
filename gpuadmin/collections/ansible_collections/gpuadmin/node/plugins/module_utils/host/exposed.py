"""Private keys, tokens and the like that others than their owner can read: by name, mode and owner, never content."""

from __future__ import annotations

import os
import pwd
import re
import stat
import time
from collections.abc import Iterator, Sequence

from gpuadmin.common.records.audits import Exposed, Readable

from ..attributes import ACCESS, OddAttribute, named_rights
from ..bounded import short
from ..btrfs import open_directory
from ..budget import Budget
from ..errors import NodeError, in_words
from ..mounts import NETWORK, Mount, nearest, parse_mountinfo, read_mountinfo
from ..safe_walk import Entry, same_file_system, walk
from ..textdb import Table, decode

ENTRIES = 200_000  # of one person
MOST_OF_ONE, MOST = 5, 2000  # files that are named: of one owner, and of all
MOST_UNKNOWN, OTHERS = 20, "others"
NAMELESS = "uids without a name"  # one owner: a person has thousands of subuids
_SECRET = re.compile(
    rb"id_(rsa|dsa|ecdsa|ed25519)(_sk)?|.*\.(pem|key|p12|pfx|ppk|kdbx)|\.env(\..+)?|\.netrc|\.pgpass|\.my\.cnf|\.pypirc"
    rb"|\.git-credentials|\.npmrc|\.htpasswd|\.vault[-_]?(pass|token)|kubeconfig|credentials(\.json)?"
    rb"|\.?((hf|huggingface|wandb|github|gitlab|slack|openai|api|access|auth|bot)[-_.]?)?token(\.txt)?"
    rb"|.*service[-_]account.*\.json|secrets?\.(ya?ml|json|toml)|gpg-private.*|secring\.gpg",
    re.IGNORECASE | re.DOTALL,  # a name may have a line feed in it
)
#: Names that are secrets in one place alone.
_IN_PLACE = re.compile(
    rb"(.*/)?(\.docker/config\.json|\.kube/config|\.aws/config|\.wandb/settings)", re.IGNORECASE | re.DOTALL
)
#: Certificates and what software brings: no secrets.
_PUBLIC = re.compile(
    rb"(.*/)?((site|dist)-packages|node_modules|pkgs|certs|ca-certificates|include|testdata|tests?)/.*"
    rb"|(.*/)?[^/]*(example|sample|template|\.pub|cacert|ca-bundle|cert|chain|bundle|roots|public)[^/]*",
    re.IGNORECASE | re.DOTALL,
)


_UID = "uid "


def collect(
    places: Sequence[str], homes: Sequence[str] = (), *, seconds: float = 60, entries: int = ENTRIES
) -> Exposed:
    """Look below each directory that others may enter, person by person: below ``places``, and at ``homes`` themselves.

    The first MOST_OF_ONE of each owner are named, and the others counted.
    """
    found: list[Readable] = []
    unknown: dict[str, str] = {}
    counts: dict[str, int] = {}
    more: dict[str, int] = {}
    others = 0
    end = time.monotonic() + seconds
    for place in [*places, *homes]:
        top, home = os.path.split(place) if place in homes else (place, "")
        try:
            names = [os.fsencode(home)] if home else _people(top)
        except FileNotFoundError:
            continue
        except OSError as error:
            unknown[place] = in_words(error)
            continue
        for name in names:
            path = short(os.path.join(top, os.fsdecode(name)))
            left = min(max(end - time.monotonic(), 0), max(seconds / 4, 1))  # nobody's files take the time of all
            budget = Budget(
                left,
                entries,  # guard: one person's files do not take the time of all -> 10**9
                setting=False,
            )
            why = ""
            try:
                for one in _below(top, name, budget):
                    whose = NAMELESS if one.owner.startswith(_UID) else one.owner
                    counts[whose] = counts.get(whose, 0) + 1
                    # guard: files of one person hide nobody else's -> len(found) < 5
                    if counts[whose] <= MOST_OF_ONE and len(found) < MOST:
                        found.append(one)
                    else:
                        whose = whose if whose in more or len(more) < MOST else OTHERS
                        more[whose] = more.get(whose, 0) + 1
            except NodeError as error:
                why = str(error)
            except OSError as error:
                why = in_words(error)
            if why and len(unknown) < MOST_UNKNOWN:
                unknown[path] = short(why)
            elif why:
                others += 1
    if others:  # guard: whose files were not looked at is said, or how many they are
        unknown[OTHERS] = f"{others} more were not looked at to the end"
    return Exposed(found, more, unknown)


def local_homes(places: Sequence[str], passwd: str = "/etc/passwd", mountinfo: str | None = None) -> list[str]:
    """Homes of this host's own accounts, besides those below ``places``. Of a directory that is not the account's, such
    as ``/``, nothing is looked at; nor of a file server's, which looks there itself, and may not answer."""
    mounts = parse_mountinfo(read_mountinfo() if mountinfo is None else mountinfo)
    with open(passwd, "rb") as stream:
        entries = Table.parse("passwd", decode(stream.read())).entries()
    found = []
    for _name, _password, uid, _gid, _comment, given, _shell in entries:
        home = os.path.normpath(given)
        if not os.path.isabs(home) or home == "/" or _elsewhere(home, mounts):
            continue
        home = os.path.realpath(home)
        inside = any(f"{home}/".startswith(f"{os.path.realpath(place).rstrip('/')}/") for place in places)
        try:
            if not inside and not _elsewhere(home, mounts) and str(os.stat(home).st_uid) == uid:
                found.append(home)
        except OSError:  # there is none
            continue
    return list(dict.fromkeys(found))


def _elsewhere(path: str, mounts: list[Mount]) -> bool:
    """Whether a path is on a file server, or is mounted once somebody asks for it."""
    mount = nearest(path, mounts)
    return mount is not None and (mount.fstype == "autofs" or NETWORK.match(mount.fstype) is not None)


def _people(place: str) -> list[bytes]:
    top = open_directory(place)
    try:
        return sorted(os.fsencode(one) for one in os.listdir(top))
    finally:
        os.close(top)


def _below(place: str, name: bytes, budget: Budget) -> Iterator[Readable]:
    """What of one person can be read, as it is found. Raises OverBudget, OSError."""
    top = open_directory(place)
    try:
        facts = os.stat(name, dir_fd=top, follow_symlinks=False)
        if not stat.S_ISDIR(facts.st_mode) or not _entered(facts, top, name):
            return
        home = open_directory(name, top)
    except FileNotFoundError:
        return
    finally:
        os.close(top)
    base = os.path.join(os.fsencode(place), name)
    try:
        # what cannot be entered by us (a person's own FUSE) others cannot enter, either
        for entry in walk(home, _enter, budget=budget, skip=lambda entry, why: None, again=True):
            if is_secret(entry.path) and stat.S_ISREG(entry.facts.st_mode) and _read(entry):
                path = short(os.fsdecode(os.path.join(base, entry.path)), 300)
                yield Readable(path, _owner(entry.facts.st_uid), f"{stat.S_IMODE(entry.facts.st_mode):04o}")
    finally:
        os.close(home)


def is_secret(path: bytes) -> bool:
    """Whether a file of this path usually holds something secret."""
    name = path.rpartition(b"/")[2]
    return bool((_SECRET.fullmatch(name) or _IN_PLACE.fullmatch(path)) and not _PUBLIC.fullmatch(path))


def read_by_others(facts: os.stat_result) -> bool:
    """By everybody, or by a group that is not the owner's own (its gid is the uid), as the mode says it."""
    return bool(facts.st_mode & 0o004 or (facts.st_mode & 0o040 and facts.st_gid != facts.st_uid))


def _enter(entry: Entry, parent: os.stat_result) -> bool:
    # guard: what others cannot enter is not walked -> same_file_system(entry, parent)
    return same_file_system(entry, parent) and _entered(entry.facts, entry.at, entry.name)


def _entered(facts: os.stat_result, at: int, name: bytes) -> bool:
    by_group = facts.st_mode & 0o010 and (facts.st_gid != facts.st_uid or _named_by_acl(at, name, 1))
    return bool(facts.st_mode & 0o001 or by_group)


def _read(entry: Entry) -> bool:
    return read_by_others(entry.facts) or bool(entry.facts.st_mode & 0o040 and _named_by_acl(entry.at, entry.name, 4))


def _named_by_acl(at: int, name: bytes, right: int) -> bool:
    """Whether an ACL gives the right to somebody by name. The group's bits of the mode are its mask then: acl(5)."""
    try:
        value = os.getxattr(b"/proc/self/fd/%d/%s" % (at, name), ACCESS, follow_symlinks=False)
        return any(rights & right for rights in named_rights(value))
    except (OSError, OddAttribute):  # there is none, or the file system has none
        return False


def _owner(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"{_UID}{uid}"
