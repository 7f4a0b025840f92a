"""No way in for those who leave, beyond what the account itself says: no linger, no cron or at jobs; and proof of it.

Jobs are not deleted but moved to the state directory, so that a lock can be taken back. None is ever replaced by
another one.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from gpuadmin.common.records.people import UserReport

from ..errors import NodeError, in_words
from ..files import flocked, read_bytes, sync_directory, sync_filesystem, unlink_if_present, write_atomic
from ..paths import STATE
from ..people import Person
from ..report import Reports
from ..run import Runner, failure, run_command
from ..textdb import decode

CRONTABS = ("var/spool/cron/crontabs", "var/spool/cron")
AT_JOBS = ("var/spool/cron/atjobs", "var/spool/at")
LARGEST_JOB = 16 << 20  # bytes; anything larger is not a job, and root does not read it
#: What a host has that belongs to a queue: Slurm's configuration, also as slurmd has fetched it, or ours for slurmd.
_OF_A_QUEUE = (
    "etc/slurm/slurm.conf", "etc/slurm-llnl/slurm.conf", "run/slurm/conf/slurm.conf",
    "var/lib/gpuadmin/slurm/slurmd.env",
)  # fmt: skip
OLDER = ".older-"


@dataclass(frozen=True)
class Host:
    """``group``: where accounts come from a directory, the group whose members may log in."""

    root: str = "/"
    state: str = STATE
    group: str | None = None
    run: Runner = run_command

    def path(self, name: str) -> str:
        return os.path.join(self.root, name.lstrip("/"))


@dataclass
class Plan(Reports[UserReport]):
    """``status``: closed or open (it was, or is being made so), conflict. ``moves``: jobs: whose, from and to where."""

    KEY = "login_access"

    moves: list[tuple[str, str, str]] = field(default_factory=list)


def _aside(host: Host, person: Person) -> str:
    return os.path.join(host.path(host.state), "closed", f"{person.name}-{person.uid}")


def _jobs(host: Host, person: Person) -> Iterator[tuple[str, str]]:
    """The person's jobs that are in force, as (path, name for it aside)."""
    for directory in CRONTABS:
        path = os.path.join(host.path(directory), person.name)
        if os.path.isfile(path) and not os.path.islink(path):
            yield path, f"{directory.replace('/', '+')}+{person.name}"
    for directory in AT_JOBS:
        for name in sorted(os.listdir(host.path(directory))) if os.path.isdir(host.path(directory)) else ():
            try:
                facts = os.lstat(os.path.join(host.path(directory), name))
            except FileNotFoundError:
                continue  # it runs now, or was taken back
            if (
                stat.S_ISREG(facts.st_mode)
                # guard: a door closes on nobody else's jobs
                and facts.st_uid == person.uid
            ):
                yield os.path.join(host.path(directory), name), f"{directory.replace('/', '+')}+{name}"


def compute(people: Sequence[Person], closed: bool, host: Host) -> Plan:
    """Decide, by what there is."""
    plan = Plan()
    for person in people:
        entry = plan.entries[person.name] = UserReport("closed" if closed else "open")
        aside = _aside(host, person)
        if closed:
            if os.path.lexists(host.path(f"var/lib/systemd/linger/{person.name}")):
                entry.operations.append("end linger")
            for path, name in _jobs(host, person):
                entry.operations.append(f"keep from running: {path[len(host.root.rstrip('/')) :]}")
                plan.moves.append((person.name, path, os.path.join(aside, name)))
        else:
            for name in sorted(os.listdir(aside)) if os.path.isdir(aside) else ():
                if OLDER in name:
                    continue  # guard: an older job becomes no table of another name
                path = host.path(name.replace("+", "/"))
                if os.path.lexists(path):  # guard: a job does not replace another one that is there
                    entry.status = "conflict"
                    entry.problem = f"{path} is there already; the one from before is kept as {aside}/{name}"
                    continue
                entry.operations.append(f"let run again: {path[len(host.root.rstrip('/')) :]}")
                plan.moves.append((person.name, os.path.join(aside, name), path))
    return plan


def converge(people: Sequence[Person], closed: bool, host: Host | None = None, *, check: bool = False,
             login: bool = True) -> Plan:  # fmt: skip
    """Close or open (unless ``check``), and prove it: whoever could still come in is a conflict.

    ``login``: whether people log in to this host at all.
    """
    host = host or Host()
    plan = compute(people, closed, host)
    if check:
        return plan
    try:
        with flocked(host.path("run/gpuadmin/closing.lock")):  # guard: login access is closed under the lock
            plan = compute(people, closed, host)
            for name, source, target in plan.moves:
                with _by_itself(plan, name):
                    # guard: a job put aside replaces none -> os.makedirs(os.path.dirname(target), exist_ok=True)
                    _keep_older(target)
                    _move(source, target)
            for person in people:
                if closed:
                    with _by_itself(plan, person.name):
                        _end_linger(person, host)
                        _cancel_slurm(person, host)
            if plan.operations:
                sync_filesystem(host.path("var"))
    except OSError as error:
        raise NodeError(in_words(error)) from error
    if closed and login:
        for person in people:
            problem = way_in(person, host)
            if problem:
                plan.entries[person.name].status, plan.entries[person.name].problem = "conflict", problem
    return plan


@contextmanager
def _by_itself(plan: Plan, name: str) -> Iterator[None]:
    """What cannot be done for one person is that person's conflict, and the others do not wait."""
    try:
        yield
    except (NodeError, OSError) as error:
        plan.entries[name].status, plan.entries[name].problem = "conflict", in_words(error)


def _keep_older(target: str) -> None:
    """A job of the same name that was put aside before is kept under another one."""
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    number = 1
    while os.path.lexists(target) and os.path.lexists(f"{target}{OLDER}{number}"):
        number += 1
    if os.path.lexists(target):
        os.rename(target, f"{target}{OLDER}{number}")


def _move(source: str, target: str) -> None:
    """Move a job, durably, with owner, group, mode and times, to another file system too. Gone meanwhile: nothing."""
    try:
        try:
            os.rename(source, target)
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
            _copy(source, target)
            os.unlink(source)
    except FileNotFoundError:
        return
    sync_directory(os.path.dirname(target))
    sync_directory(os.path.dirname(source))


def _copy(source: str, target: str) -> None:
    facts = os.lstat(source)
    if facts.st_size > LARGEST_JOB:
        raise NodeError(f"{source} has {facts.st_size} bytes: it is left where it is")
    data = read_bytes(source)
    if data is None:
        raise FileNotFoundError(source)
    write_atomic(target, data, mode=0o600, model=source)
    os.utime(target, ns=(facts.st_atime_ns, facts.st_mtime_ns), follow_symlinks=False)


def _end_linger(person: Person, host: Host) -> None:
    unlink_if_present(host.path(f"var/lib/systemd/linger/{person.name}"))


def _cancel_slurm(person: Person, host: Host) -> None:
    """Jobs that wait in a queue would start after the lock."""
    if host.root == "/" and shutil.which("scancel"):
        command = ("scancel", f"--user={person.name}")
        result = host.run(command)
        # guard: jobs that may wait in a queue are cancelled, or the lock fails -> False
        if result.returncode != 0 and not no_queue(result.stderr):
            raise failure(command, result, f"jobs of {person.name} in the queue are not cancelled")


def no_queue(complaint: str, root: str = "/") -> bool:
    """Whether Slurm's programs are on a host that has no queue, such as one that was taken away: they find no
    configuration, and nothing here says that there should be one. ``complaint``: what one of them says of it."""
    return "Could not establish a configuration source" in complaint and not any(
        os.path.exists(os.path.join(root, path)) for path in _OF_A_QUEUE
    )


def way_in(person: Person, host: Host) -> str | None:
    """How the person could still come in, or None. PAM refuses an expired account, by key and for cron as well."""
    if any(True for _ in _jobs(host, person)):  # guard: a job that is still there is a way in
        return "has cron or at jobs"
    if host.group is not None:
        groups = host.run(("id", "--groups", "--name", "--", person.name))
        if groups.returncode == 0 and host.group in groups.stdout.split():
            return f"is still in the group {host.group}: take them out of it in the directory, then go on with --resume"
        return None
    fields = _shadow(person.name, host)
    if fields is None:
        return None
    if not fields[1].startswith(("!", "*")):
        return "has a password that is not locked"
    if fields[7] != "1":
        return "has an account that is not expired"
    return None


def _shadow(name: str, host: Host) -> list[str] | None:
    with open(host.path("etc/shadow"), "rb") as stream:
        for line in decode(stream.read()).split("\n"):
            fields = line.split(":")
            if fields[0] == name and len(fields) == 9:
                return fields
    return None
