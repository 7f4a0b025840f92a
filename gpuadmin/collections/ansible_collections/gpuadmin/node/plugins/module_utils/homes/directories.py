"""Homes on the storage host: made under a temporary name, so that a home is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gpuadmin.common.records.homes import HomesOrder as Request
from gpuadmin.common.records.people import UserReport

from .. import mounts
from ..errors import NodeError, in_words
from ..fields import FIRST_HUMAN_UID, quoted, valid_name, whole_number
from ..files import flocked
from ..lookup import Lookup, system_lookup
from ..paths import RUN
from . import attic
from .creating import NEW, create, make_root

LOCK = f"{RUN}/homes.lock"  # whoever makes, archives or wipes homes holds it


@dataclass(frozen=True)
class Entry:
    """What the home root has under one name."""

    kind: str  # directory, symbolic link, other
    uid: int


@dataclass
class Plan:
    homes: dict[str, UserReport] = field(default_factory=dict)
    create: list[tuple[str, int, int]] = field(default_factory=list)
    archive: list[tuple[str, str, int]] = field(default_factory=list)  # entry, name, uid
    make_root: bool = False

    @property
    def operations(self) -> list[str]:
        first = ["make the home root"] if self.make_root else []
        return first + [f"home {name}: {text}" for name, home in self.homes.items() for text in home.operations]

    @property
    def conflicts(self) -> list[str]:
        return [f"home {name}: {home.problem}" for name, home in self.homes.items() if home.status == "conflict"]

    @property
    def refused(self) -> list[str]:
        """People who get no home, because a uid or a name is somebody else's."""
        return [name for name, home in self.homes.items() if home.status == "conflict"]

    def report(self) -> dict[str, object]:
        return {"homes": self.homes, "problems": []}

    def diff(self) -> dict[str, str]:
        after = [f"{name} (uid {uid}, 0700)\n" for name, uid, _gid in self.create]
        return {"before": "".join(f"{one} (uid {uid})\n" for one, _name, uid in self.archive), "after": "".join(after)}


def check_root(path: str, mountpoint: str | None, mountinfo: str) -> bool:
    """Whether the home root is there; an unmounted disk, a symlink or a root open to others is an error."""
    if not path.startswith("/") or os.path.normpath(path) != path.rstrip("/") or path.strip("/") == "":
        raise NodeError(f"the home root {quoted(path)} is not a plain absolute path")
    table = mounts.parse_mountinfo(mountinfo)
    parent = path.rstrip("/")
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if os.path.realpath(parent) != parent:
        raise NodeError(f"{parent} leads through a symbolic link; name the directory itself")
    mount = mounts.nearest(path, table)
    if mountpoint is not None:
        point = mountpoint.rstrip("/")
        if not (path + "/").startswith(point + "/"):
            raise NodeError(f"{path} is not below the mount point {point}")
        if all(one.point != point for one in table):
            raise NodeError(f"nothing is mounted at {point}: homes would be written under the mount. Mount the disk")
    elif mount is None or mount.point == "/":
        raise NodeError(f"{path} is on the root file system, so its disk is not mounted; mount it or set 'mountpoint'")
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return False
    # guard: homes are made in a directory that root alone can change
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != 0 or facts.st_mode & 0o022:
        raise NodeError(f"{path} must be a directory of root's that nobody else can write to")
    return True


def scan(root: str) -> dict[str, Entry]:
    """Every entry of the home root with its kind and owner."""
    found = {}
    with os.scandir(root) as entries:
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:  # another run has just given it its name
                continue
            kind = "symbolic link" if entry.is_symlink() else "directory" if stat.S_ISDIR(facts.st_mode) else "other"
            found[entry.name] = Entry(kind, facts.st_uid)
    return found


def _refused(raw: Mapping[str, object]) -> str | None:
    uid = whole_number(raw.get("uid"))
    if uid is None or uid < FIRST_HUMAN_UID:
        return f"uid {quoted(raw.get('uid'))} is not a person's"
    gid = uid if raw.get("gid") is None else whole_number(raw.get("gid"))
    return None if gid is not None and gid >= FIRST_HUMAN_UID else f"gid {quoted(raw.get('gid'))} is not a person's"


def compute(
    request: Request,
    entries: Mapping[str, Entry],
    archived: Callable[[str, int], bool],
    refused: Mapping[str, str] | None = None,
) -> Plan:
    """Given what is in the home root, decide. ``archived``: whether a finished archive of (name, uid) exists.

    ``refused``: name → why that person gets no home. The entries of a request are unchecked.
    """
    plan = Plan()
    owned: dict[int, list[str]] = {}
    for entry_name, entry in entries.items():
        if not entry_name.endswith(NEW):
            owned.setdefault(entry.uid, []).append(entry_name)
    for raw in request.users:
        problem = _refused(raw)
        name = str(raw.get("name"))
        home = plan.homes.setdefault(name, UserReport("ok"))
        if raw.get("uid") is None:
            home.status, home.problem = "unknown", "the directory does not know this user on this host yet"
            continue
        problem = problem or (refused or {}).get(name)  # guard: who is refused gets no home
        if problem:
            home.status, home.problem = "conflict", problem
            continue
        uid = int(str(raw["uid"]))
        gid = uid if raw.get("gid") is None else int(str(raw["gid"]))
        found = entries.get(name)
        others = [one for one in owned.get(uid, []) if one != name and not attic.is_rest(one, name)]
        others = [one for one in others if not one.startswith((f"{name}.restored-", f"{name}.before-"))]
        if found is not None and found != Entry("directory", uid):
            home.status, home.problem = "conflict", f"is a {found.kind} of uid {found.uid}, not {uid}: kept"
        elif found is None and others:
            home.status, home.problem = "conflict", f"uid {uid} owns '{others[0]}' here already: nothing made"
        elif found is None:
            home.status = "created"
            home.operations.append(f"create for uid {uid}")
            plan.create.append((name, uid, gid))
            owned.setdefault(uid, []).append(name)
    _compute_attic(request, entries, archived, plan)
    return plan


def _compute_attic(
    request: Request, entries: Mapping[str, Entry], archived: Callable[[str, int], bool], plan: Plan
) -> None:
    for raw in request.archive:
        problem = _refused(raw)
        name = str(raw.get("name"))
        if name in plan.homes:  # guard: nobody's home is both made and archived
            problem = "is both wanted and to be archived"
        if not valid_name(name):  # guard: a home is archived by a name that is one
            problem = "is not a user's name"
        home = plan.homes[name] = UserReport("archived")
        if problem:
            home.status, home.problem = "conflict", problem
            continue
        uid = int(str(raw["uid"]))
        found = [one for one in sorted(entries) if one == name or attic.is_rest(one, name)]
        wrong = [one for one in found if entries[one] != Entry("directory", uid)]
        if wrong:
            what = entries[wrong[0]]
            home.status, home.problem = "conflict", f"{wrong[0]} is a {what.kind} of uid {what.uid}, not {uid}: kept"
        elif not found and not archived(name, uid):
            home.status = "absent"
        else:
            home.operations += [f"move {one} to {request.root}/{attic.ATTIC}" for one in found]
            plan.archive += [(one, name, uid) for one in found]


def _move(request: Request, plan: Plan) -> None:
    for entry, name, uid in plan.archive:
        try:
            attic.move(request.root, entry, name, uid)
        # guard: one home that cannot be moved keeps no other
        except (NodeError, OSError) as error:
            plan.homes[name].status, plan.homes[name].problem = "conflict", in_words(error)


def _identified(raw: Mapping[str, object], lookup: Lookup) -> Mapping[str, object]:
    """Give somebody without a uid the ids that NSS knows on this host, if it knows them."""
    name = raw.get("name")
    if raw.get("uid") is not None or not isinstance(name, str):
        return raw
    found = lookup(name)
    if found is None:
        return raw
    # a directory's people often share a group below the human ones, such as `users`; a home is 0700 all the same
    return {**raw, "uid": found[0], "gid": found[1] if found[1] >= FIRST_HUMAN_UID else found[0]}


def converge(
    request: Request, refused: Mapping[str, str] | None = None, *, check: bool = False, mountinfo: str | None = None,
    lock: str = LOCK, lookup: Lookup = system_lookup,
) -> Plan:  # fmt: skip
    """Bring the home root there (unless ``check``) and return the plan: the same in both cases."""
    request = replace(request, users=[_identified(raw, lookup) for raw in request.users])

    def archived(name: str, uid: int) -> bool:
        places = [os.path.join(request.root, attic.ATTIC), str(request.archive_directory)]
        return bool(attic.find_homes(places, name, uid))

    def observe() -> Plan:
        table = mounts.read_mountinfo() if mountinfo is None else mountinfo
        there = check_root(request.root, request.mountpoint, table)
        plan = compute(request, scan(request.root) if there else {}, archived, refused)
        plan.make_root = not there
        return plan

    try:
        if check:
            return observe()
        with flocked(lock):  # guard: homes are made under the lock
            plan = observe()
            if plan.make_root:
                os.makedirs(os.path.dirname(request.root), mode=0o755, exist_ok=True)
                make_root(request.root)
            if plan.create:
                create(request.root, plan.create, request.skeleton, subvolume=request.subvolume)
            _move(request, plan)
        return plan
    except (OSError, shutil.Error) as error:
        raise NodeError(in_words(error)) from error
