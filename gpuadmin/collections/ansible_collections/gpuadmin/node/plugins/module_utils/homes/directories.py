"""Homes on the storage host: made under a temporary name, so that a home is there whole or not at all."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .. import background, mounts
from ..errors import NodeError, in_words
from ..fields import FIRST_HUMAN_UID, quoted, whole_number
from ..files import flocked
from ..lookup import Lookup, system_lookup
from ..paths import RUN
from ..report import UserReport
from ..run import Runner, run_command
from . import archiving
from .creating import NEW, create, make_root

LOCK = f"{RUN}/homes.lock"  # whoever makes, archives or wipes homes holds it


@dataclass(frozen=True)
class Request:
    """``users``: {name, uid, gid}; ``archive``: {name, uid}. Unchecked, as they came from outside.

    ``refused``: name → why that person gets no home.
    """

    root: str
    users: Sequence[Mapping[str, object]] = ()
    archive: Sequence[Mapping[str, object]] = ()
    mountpoint: str | None = None
    skeleton: str = "/etc/skel"
    subvolume: bool = False
    archive_directory: str | None = None
    archive_timeout: int = 7200
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Entry:
    """What the home root has under one name."""

    kind: str  # directory, symbolic link, other
    uid: int


@dataclass
class Plan:
    homes: dict[str, UserReport] = field(default_factory=dict)
    create: list[tuple[str, int, int]] = field(default_factory=list)
    archive: list[tuple[str, int]] = field(default_factory=list)
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
        return {"homes": {name: home.as_dict() for name, home in self.homes.items()}, "problems": []}

    def diff(self) -> dict[str, str]:
        after = [f"{name} (uid {uid}, 0700)\n" for name, uid, _gid in self.create]
        return {"before": "".join(f"{name} (uid {uid})\n" for name, uid in self.archive), "after": "".join(after)}


def check_root(request: Request, mountinfo: str) -> bool:
    """Whether the home root is there; an unmounted disk, a symlink or a root open to others is an error."""
    path = request.root
    if not path.startswith("/") or os.path.normpath(path) != path.rstrip("/") or path.strip("/") == "":
        raise NodeError(f"the home root {quoted(path)} is not a plain absolute path")
    table = mounts.parse_mountinfo(mountinfo)
    parent = path.rstrip("/")
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if os.path.realpath(parent) != parent:
        raise NodeError(f"{parent} leads through a symbolic link; name the directory itself")
    mount = mounts.nearest(path, table)
    if request.mountpoint is not None:
        point = request.mountpoint.rstrip("/")
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


def compute(request: Request, entries: Mapping[str, Entry], archived: Callable[[str, int], bool]) -> Plan:
    """Given what is in the home root, decide. ``archived``: whether a finished archive of (name, uid) exists."""
    plan = Plan()
    owned: dict[int, list[str]] = {}
    for entry_name, entry in entries.items():
        if not entry_name.endswith(NEW):
            owned.setdefault(entry.uid, []).append(entry_name)
    for raw in request.users:
        problem = _refused(raw)
        name = str(raw.get("name"))
        home = plan.homes.setdefault(name, UserReport())
        if raw.get("uid") is None:
            home.status, home.problem = "unknown", "the directory does not know this user on this host yet"
            continue
        problem = problem or request.refused.get(name)  # guard: who is refused gets no home
        if problem:
            home.status, home.problem = "conflict", problem
            continue
        uid = int(str(raw["uid"]))
        gid = uid if raw.get("gid") is None else int(str(raw["gid"]))
        found = entries.get(name)
        others = [one for one in owned.get(uid, []) if one != name and not archiving.is_rest(one, name)]
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
    _compute_archives(request, entries, archived, plan)
    return plan


def _compute_archives(
    request: Request, entries: Mapping[str, Entry], archived: Callable[[str, int], bool], plan: Plan
) -> None:
    for raw in request.archive:
        problem = _refused(raw)
        name = str(raw.get("name"))
        if name in plan.homes:  # guard: nobody's home is both made and archived
            problem = "is both wanted and to be archived"
        home = plan.homes[name] = UserReport("archived")
        if request.archive_directory is None:
            problem = "archive_directory is not set"
        if problem:
            home.status, home.problem = "conflict", problem
            continue
        uid = int(str(raw["uid"]))
        found, rests = entries.get(name), [one for one in entries if archiving.is_rest(one, name)]
        if found is not None and found != Entry("directory", uid):
            home.status, home.problem = "conflict", f"is a {found.kind} of uid {found.uid}, not {uid}: kept"
        elif found is not None:
            home.operations.append(f"archive to {request.archive_directory}, verify, delete")
            plan.archive.append((name, uid))
        elif rests:
            home.operations.append("finish deleting the archived home, after packing what no archive has")
            plan.archive.append((name, uid))
        elif not archived(name, uid):
            home.status = "absent"


def _archive(request: Request, name: str, uid: int, run: Runner) -> str | None:
    """Archive a home in a unit of its own; return a problem or None."""
    where = {"homes": request.root, "name": name, "uid": uid, "directory": str(request.archive_directory),
             "inode": archiving.decided(request.root, name)}  # fmt: skip
    try:
        background.perform(f"archive-{name}", archiving.archive, where, run=run, wait=request.archive_timeout)
    except (NodeError, OSError) as error:  # the others' homes are archived all the same
        return in_words(error)
    left = os.path.lexists(os.path.join(request.root, name)) or archiving.rests(request.root, name)
    return "the home is still there; run this again" if left else None


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
    request: Request, *, check: bool = False, mountinfo: str | None = None, run: Runner = run_command,
    lock: str = LOCK, lookup: Lookup = system_lookup,
) -> Plan:  # fmt: skip
    """Bring the home root there (unless ``check``) and return the plan: the same in both cases."""
    request = replace(request, users=[_identified(raw, lookup) for raw in request.users])

    def archived(name: str, uid: int) -> bool:
        return bool(archiving.archives(str(request.archive_directory), name, uid))

    def observe() -> Plan:
        there = check_root(request, mounts.read_mountinfo() if mountinfo is None else mountinfo)
        plan = compute(request, scan(request.root) if there else {}, archived)
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
        for name, uid in plan.archive:  # hours, perhaps: nobody's new home waits for it
            problem = _archive(request, name, uid, run)
            if problem:
                plan.homes[name].status, plan.homes[name].problem = "conflict", problem
        return plan
    except (OSError, shutil.Error) as error:
        raise NodeError(in_words(error)) from error
