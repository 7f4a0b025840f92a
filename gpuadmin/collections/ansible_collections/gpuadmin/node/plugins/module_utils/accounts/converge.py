"""Observe a host, plan, and execute: the one way in which human accounts change.

Used by Ansible, at boot and for self-service.

Order of execution: accounts.json first (so that the next boot finishes what a cut interrupts), then what lies
in the state (keys, linger, Docker data), then the databases under shadow's lock, in a root that is open for no
longer than that.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace

from .. import mounts
from ..errors import NodeError, in_words
from ..files import flocked, make_directory, read_bytes, shadow_lock, sync_filesystem, unlink_if_present, write_atomic
from ..limits.amounts import make_place
from ..lookup import Lookup, system_lookup
from ..paths import STATE
from ..root.guard import RootError, inspect, open_root
from ..textdb import decode, encode, split_lines
from .compute import compute
from .databases import NAMES, NEW_FILE_MODES, RENAME_ORDER
from .desired import DesiredState, Settings, load, save
from .observed import Observed
from .plan import Plan, Request
from .renumbered import find_old_ids, renumbered
from .scratch import make_scratch, observe_scratch

LOCK_SECONDS = 120.0  # a pass over thousands of accounts takes seconds


@dataclass(frozen=True)
class Host:
    """Where things are. ``root`` is "/" on a node and a directory in tests; ``state`` is a path below it."""

    root: str = "/"
    state: str = STATE
    lookup: Lookup | None = None  # name → (uid, gid) by NSS; None: ask the system
    network: Callable[[str], str | None] = mounts.network_filesystem
    subvolume: str | None = None  # identity of the root, where it is not the running one

    def path(self, name: str) -> str:
        return os.path.join(self.root, name.lstrip("/"))

    def identity(self) -> str:
        if self.subvolume is not None:
            return self.subvolume
        return inspect(self.root, self.path(self.state)).subvolume or "/"


@dataclass(frozen=True)
class Outcome:
    """``request``: what was asked, as it was decided under the lock; None if nothing was."""

    changed: bool
    plan: Plan
    diff: dict[str, str]
    request: Request | None = None


def _docker_parent_problem(path: str, host: Host) -> tuple[bool, str | None]:
    """(exists, problem) of the directory that holds the users' Docker data."""
    kind = host.network(path)
    if kind is not None:
        return False, f"{path} is on {kind}: rootless Docker data must be on a local disk"
    try:
        facts = os.lstat(path)
    except FileNotFoundError:
        return False, None
    if not stat.S_ISDIR(facts.st_mode):
        return False, f"{path} is not a directory"
    if facts.st_uid != 0 or facts.st_mode & 0o022:
        return True, f"{path} must belong to root and be writable by root alone"
    return True, None


def _docker_directories(path: str) -> dict[str, tuple[str, int]]:
    found = {}
    with os.scandir(path) as entries:
        for entry in entries:
            facts = entry.stat(follow_symlinks=False)
            kind = "symbolic link" if entry.is_symlink() else "directory" if stat.S_ISDIR(facts.st_mode) else "file"
            found[entry.name] = (kind, facts.st_uid)
    return found


def databases(root: str) -> dict[str, str | None]:
    """The account databases of a host, by name; None for one that is not there."""
    files = {name: read_bytes(os.path.join(root, "etc", name)) for name in NAMES}
    return {name: None if data is None else decode(data) for name, data in files.items()}


def observe(host: Host, request: Request, desired: DesiredState) -> Observed:
    """Given a host and a request, return all that the decision needs; one read per file, one listing per directory."""
    files = databases(host.root)
    settings = request.settings
    exists = False
    problem: str | None = None
    docker: dict[str, tuple[str, int]] = {}
    if settings.docker_data is not None and settings.login:
        parent = host.path(settings.docker_data)
        exists, problem = _docker_parent_problem(parent, host)
        docker = _docker_directories(parent) if exists else {}
    keys = {}
    directory = os.path.join(host.path(host.state), "keys")
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        if not name.startswith("."):
            keys[name] = read_bytes(os.path.join(directory, name)) or b""
    linger = host.path("var/lib/systemd/linger")
    identities: dict[str, tuple[int, int]] = {}
    if settings.source == "directory":
        asked = [*(user.get("name") for user in request.users), *(name for name, _uid in request.docker)]
        for name in (one for one in asked if isinstance(one, str)):
            found = (host.lookup or system_lookup)(name)
            if found is not None:
                identities[name] = found
    scratch, no_scratch = observe_scratch(request, host.path, host.network)
    return Observed(
        files, desired, keys, docker, exists, problem,
        frozenset(os.listdir(linger) if os.path.isdir(linger) else ()),
        identities, host.identity(), int(time.time() // 86400), renumbered(host.path(host.state)),
        find_old_ids(host.path(host.state)), scratch, no_scratch,
        _missing_shells(request) if host.root == "/" else frozenset(),  # links of another root lead into this one
    )  # fmt: skip


def _missing_shells(request: Request) -> frozenset[str]:
    wanted = {str(user["shell"]) for user in request.users if user.get("shell")}
    return frozenset(path for path in wanted if not (os.path.isfile(path) and os.access(path, os.X_OK)))


def _diff_lines(kind: str, text: str) -> list[str]:
    """A database's lines for a diff; a shadow line says only whether there is a password, never which."""
    lines = [body for body, _ending in split_lines(text)]
    if kind not in ("shadow", "gshadow"):
        return lines
    hidden = []
    for line in lines:
        fields = line.split(":")
        if len(fields) > 1 and fields[1].strip("!*x"):
            fields[1] = ("!" if fields[1].startswith("!") else "") + "(hash)"
        hidden.append(":".join(fields))
    return hidden


def diff(observed: Observed, plan: Plan) -> dict[str, str]:
    """What changes, line by line, as Ansible's before and after; hashes are left out."""
    before, after = [], []
    for kind in NAMES:
        if kind not in plan.files:
            continue
        old, new = _diff_lines(kind, observed.files.get(kind) or ""), _diff_lines(kind, plan.files[kind])
        old_set, new_set = set(old), set(new)
        before += [f"/etc/{kind}: {line}" for line in old if line not in new_set]
        after += [f"/etc/{kind}: {line}" for line in new if line not in old_set]
    for name, data in sorted(plan.keys.items()):
        before += [f"keys/{name}: {line}" for line in decode(observed.keys.get(name, b"")).split("\n") if line]
        after += [f"keys/{name}: {line}" for line in decode(data or b"").split("\n") if line]
    after += [f"directory {name} (uid {uid}, 0700)" for name, uid, _gid in plan.docker]
    after += [f"directory {directory}/{name} (uid {uid}, 0700)" for directory, name, uid, _gid in plan.scratch]
    return {
        "before": "".join(f"{line}\n" for line in before),
        "after": "".join(f"{line}\n" for line in after),
    }


def _write_state(host: Host, plan: Plan, settings: Settings, desired: DesiredState) -> None:
    """Write what is outside the root's subvolume: the desired state first, then keys, linger and Docker data."""
    state = host.path(host.state)
    if plan.desired_changed:
        # The root counts as applied only when it was: until then a hash or membership found in it must not win.
        save(state, replace(plan.desired, root=desired.root) if plan.files else plan.desired)
    keys = os.path.join(state, "keys")
    if plan.keys:
        make_directory(keys, 0o755)
    for name, data in plan.keys.items():
        if data is not None:
            write_atomic(os.path.join(keys, name), data, mode=0o644, sync=False)
        else:
            unlink_if_present(os.path.join(keys, name))
    if plan.keys:
        sync_filesystem(keys)
    for name in plan.linger:
        unlink_if_present(host.path(f"var/lib/systemd/linger/{name}"))
    if settings.docker_data is not None and plan.docker:
        parent = host.path(settings.docker_data)
        if plan.docker_parent:
            os.makedirs(os.path.dirname(parent), mode=0o755, exist_ok=True)
            make_directory(parent, 0o711)
        for name, uid, gid in plan.docker:
            try:
                make_place(os.path.join(parent, name), name, uid, gid, state)
            except OSError as error:  # guard: a disk that people have filled keeps nobody from being locked
                plan.failures.append(f"{settings.docker_data}/{name}: not made: {error.strerror}")
        sync_filesystem(parent)
    make_scratch(plan, host.path, host.path(host.state))


def _write_databases(host: Host, request: Request, desired: DesiredState, observed: Observed) -> None:
    """Rewrite the changed databases in a root that is open for this. They are read and planned again under the lock."""
    opened = open_root(host.root, state=host.path(host.state), run=host.path("run/gpuadmin"))
    with opened, shadow_lock(host.root, NAMES):
        # Memberships and passwords are decided from the desired state before this run, accounts from what is there now.
        again = observe(host, request, desired)
        plan = compute(request, replace(again, today=observed.today))
        for kind in RENAME_ORDER:
            if kind not in plan.files:
                continue
            path = host.path(f"etc/{kind}")
            old = observed_bytes(again, kind)
            if old is not None:  # the backup that shadow-utils keep too
                write_atomic(f"{path}-", old, mode=NEW_FILE_MODES[kind], model=path)
            write_atomic(path, encode(plan.files[kind]), mode=NEW_FILE_MODES[kind])


def observed_bytes(observed: Observed, kind: str) -> bytes | None:
    text = observed.files.get(kind)
    return None if text is None else encode(text)


def _decide(
    request: Request | Callable[[DesiredState], Request | None], host: Host, state: str
) -> tuple[Outcome, DesiredState, Observed | None]:
    """What accounts.json as it is now asks for, and from what that was decided; nothing is written."""
    desired = load(state)
    asked = request(desired) if callable(request) else request
    if asked is None:
        return Outcome(False, Plan(desired), {}), desired, None
    observed = observe(host, asked, desired)
    plan = compute(asked, observed)
    return Outcome(bool(plan.operations), plan, diff(observed, plan), asked), desired, observed


def converge(
    request: Request | Callable[[DesiredState], Request | None],
    host: Host | None = None,
    *,
    check: bool = False,
    seconds: float = LOCK_SECONDS,
) -> Outcome:
    """Given a request, bring the host there (unless ``check``) and return the plan: the same in both cases.

    What is decided from accounts.json is decided under the lock: a request of that kind is a function of the desired
    state as it is then, which returns None if there is nothing to do. ``seconds``: how long somebody else may hold the
    lock.
    """
    host = host or Host()
    state = host.path(host.state)
    try:
        if check:
            return _decide(request, host, state)[0]
        os.makedirs(os.path.dirname(state), mode=0o755, exist_ok=True)
        make_directory(state, 0o755)
        # guard: what somebody asks for is decided from the accounts as they are under the lock
        with flocked(host.path("run/gpuadmin/accounts.lock"), seconds):
            outcome, desired, observed = _decide(request, host, state)
            plan, asked = outcome.plan, outcome.request
            if asked is not None and observed is not None and plan.operations:
                _write_state(host, plan, asked.settings, desired)
                if plan.files:
                    _write_databases(host, asked, desired, observed)
                    if plan.desired.root != desired.root:
                        save(state, plan.desired)
            return outcome
    except (RootError, OSError) as error:
        raise NodeError(in_words(error)) from error


def boot_request(desired: DesiredState) -> Request | None:
    """What the boot unit asks for: everything in accounts.json. None if nothing was ever recorded."""
    if desired.settings is None:
        return None
    users: list[Mapping[str, object]] = [
        {
            **asdict(record.user),
            "gecos": "",  # guard: a GECOS that somebody has changed since is not put back at a boot
        }
        for record in desired.records.values()
    ]
    absent: list[Mapping[str, object]] = [{"name": name, "uid": uid} for name, uid in desired.removed]
    return Request(desired.settings, users, absent)
