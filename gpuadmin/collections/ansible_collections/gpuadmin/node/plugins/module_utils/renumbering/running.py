"""Who still has one of the ids in a running process, or in memory that no process has to hold: all threads are asked.

A process whose first thread has ended goes on in its others; one in a user namespace may become whoever its owner may;
and the groups of a process are those that it was given when it began, whoever is their member by now.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuadmin.common.text import counted

from ..accounts.converge import Host
from ..accounts.subids import parse
from ..gpus import grants
from ..logins.sessions import BETWEEN, LOOKS
from . import accounts
from .journal import Renumbering

OWNER, PARENT = 0xB704, 0xB702  # ioctl_nsfs(2): NS_GET_OWNER_UID, NS_GET_PARENT
SYSV = {"shm": "shared memory", "sem": "semaphores", "msg": "message queues"}


@dataclass(frozen=True)
class Running:
    """A process: all uids and gids of its living threads, and who owns the user namespaces that they are in.

    ``maps``: the uids of a namespace whose owner is not to be known; its processes may become each of them.
    """

    pid: int
    command: str
    uids: frozenset[int]
    gids: frozenset[int]
    owners: frozenset[int] = frozenset()
    maps: frozenset[range] = frozenset()


@dataclass
class _Ids:
    """What is a person's now, and what they get, of which nobody may have anything."""

    name: str
    uids: list[range] = field(default_factory=list)
    gids: list[range] = field(default_factory=list)
    next_uids: list[range] = field(default_factory=list)
    next_gids: list[range] = field(default_factory=list)


def _ids(one: Renumbering, texts: Mapping[str, str | None]) -> _Ids:
    found = _Ids(one.name, [range(one.old, one.old + 1)], [], [range(one.new, one.new + 1)])
    if one.changes:
        found.gids += [range(one.group, one.group + 1)] if one.group is not None else []
        found.next_gids.append(range(one.new, one.new + 1))
    kinds = {"subuid": (found.uids, found.next_uids), "subgid": (found.gids, found.next_gids)}
    for file, (now, following) in kinds.items():
        for line in parse(texts.get(file) or ""):
            if line.count and line.owner in (one.name, str(one.old)):
                now.append(range(line.start, line.end))  # guard: processes with ids of ranges made by hand are theirs
        now += [range(before, before + count) for name, before, _, count in one.subids if name == file]
        following += [range(after, after + count) for name, _, after, count in one.subids if name == file]
    return found


def _among(numbers: Iterable[int], ranges: Sequence[range]) -> list[int]:
    return sorted(one for one in numbers if any(one in several for several in ranges))


def processes(proc: str = "/proc") -> list[Running]:
    """All processes with all that their threads may do. Raises OSError where one that is there cannot be read."""
    found: list[Running] = []
    known: dict[tuple[int, int], frozenset[int]] = {}
    own = os.stat(f"{proc}/self/ns/user")
    known[own.st_dev, own.st_ino] = frozenset()
    same = _map(f"{proc}/self/uid_map")
    # The newest first: what forks and ends all the time has gone by when its turn comes after all others.
    for name in sorted((one for one in os.listdir(proc) if one.isdigit()), key=int, reverse=True):
        try:
            threads = os.listdir(f"{proc}/{name}/task")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        command = "?"
        uids: set[int] = set()
        gids: set[int] = set()
        owners: set[int] = set()
        maps: set[range] = set()
        for thread in threads:
            base = f"{proc}/{name}/task/{thread}"
            try:
                fields = _status(f"{base}/status")
                if fields["State"][:1] in "ZX":
                    continue
                command = fields["Name"]
                several = [int(one) for one in fields["Uid"].split()]
                if several[0]:
                    uids |= set(several)
                    gids |= {int(one) for key in ("Gid", "Groups") for one in fields[key].split()}
                else:  # root's own, which takes somebody's ids for a moment: a file server, say
                    uids.add(0)
                try:
                    owners |= _owners(f"{base}/ns/user", known)
                except PermissionError:  # it may do what we may not: we are in a container
                    maps |= _map(f"{base}/uid_map") - same
            except (FileNotFoundError, ProcessLookupError):
                continue
        if uids:
            found.append(
                Running(int(name), command, frozenset(uids), frozenset(gids), frozenset(owners), frozenset(maps))
            )
    return found


def _map(path: str) -> frozenset[range]:
    """The uids of a user namespace, as they are called in ours (user_namespaces(7))."""
    with open(path, encoding="ascii") as stream:
        rows = [[int(one) for one in line.split()] for line in stream]
    return frozenset(range(outer, outer + count) for _, outer, count in rows)


def _status(path: str) -> dict[str, str]:
    """proc_pid_status(5)."""
    with open(path, encoding="utf-8", errors="replace", newline="\n") as stream:
        return {key: value.strip() for key, _, value in (line.partition(":") for line in stream)}


def _owners(path: str, known: dict[tuple[int, int], frozenset[int]]) -> frozenset[int]:
    """Who made the user namespace of a thread and those around it; nobody for the one that we are in."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    facts = os.fstat(handle)
    first = (facts.st_dev, facts.st_ino)
    found: set[int] = set()
    try:
        while (facts.st_dev, facts.st_ino) not in known:
            found.add(struct.unpack("=I", fcntl.ioctl(handle, OWNER, bytes(4)))[0])
            try:
                outer = fcntl.ioctl(handle, PARENT)
            except PermissionError:  # it is around ours
                break
            os.close(handle)
            handle = outer
            facts = os.fstat(handle)
        else:
            found |= known[facts.st_dev, facts.st_ino]
    finally:
        os.close(handle)
    return known.setdefault(first, frozenset(found))


def kept(proc: str = "/proc", queues: str = "/dev/mqueue") -> list[tuple[str, int, int]]:
    """What the kernel keeps for a uid without a process: what it is, and each uid and gid that it has."""
    found = []
    for name, words in SYSV.items():
        try:
            with open(f"{proc}/sysvipc/{name}", encoding="ascii") as stream:
                head, *rows = [line.split() for line in stream]
        except FileNotFoundError:
            continue  # a kernel without
        places = [head.index(one) for one in ("uid", "gid", "cuid", "cgid")]
        for row in rows:
            uid, gid, maker, group = (int(row[place]) for place in places)
            found += [(words, uid, gid), (words, maker, group)]
    for name in os.listdir(queues) if os.path.ismount(queues) else ():
        try:
            facts = os.lstat(os.path.join(queues, name))
        except FileNotFoundError:
            continue
        found.append((f"message queue {ascii(name)[:60]} in {queues}", facts.st_uid, facts.st_gid))
    return found


def compute(people: Sequence[_Ids], running: Sequence[Running], left: Sequence[tuple[str, int, int]]) -> dict[str, str]:
    """Given whose which ids are, return in words what is in each person's way."""
    found: dict[str, str] = {}
    all_uids = [one for person in people for one in person.uids]
    all_gids = [one for person in people for one in person.gids]
    for one in people:
        mine = [
            each
            for each in running
            if _among(each.uids, one.uids)
            or _among(each.owners, one.uids)  # guard: who may become somebody by their namespace is them
            or any(
                mapped.start < theirs.stop and theirs.start < mapped.stop for mapped in each.maps for theirs in one.uids
            )
        ]
        if mine:
            words = ", ".join(sorted({each.command for each in mine})[:5])
            found[one.name] = f"runs {words} ({counted(len(mine), 'process', 'processes')})"
            continue
        for each in running:
            group = _among(each.gids, one.gids)
            uids = [uid for uid in _among(each.uids, one.next_uids) if not _among([uid], all_uids)]
            gids = [gid for gid in _among(each.gids, one.next_gids) if not _among([gid], all_gids)]
            which = f"process {each.pid} ({each.command}) of uid {min(each.uids)}"
            if group:  # guard: who still has the group of somebody does not keep it when it is another's
                found[one.name] = f"gid {group[0]} is still in {which}: end it first"
            elif uids or gids:  # guard: nobody gets an id that a process still has
                what = f"uid {uids[0]}" if uids else f"gid {gids[0]}"
                found[one.name] = f"{what}, which they get, is in {which} already: end it first"
        for words, uid, gid in left:
            if _among([uid], one.uids + one.next_uids) or _among([gid], one.gids + one.next_gids):
                # guard: what the kernel keeps for somebody is not another's after a renumbering
                found.setdefault(one.name, f"has {words} of uid {uid}: ipcs shows it; ipcrm or rm ends it")
    return found


def busy(people: Sequence[Renumbering], host: Host, looks: int = LOOKS) -> dict[str, str]:
    """Who still has processes (containers and a lingering manager are such), or a grant of GPUs, in words."""
    texts = accounts.texts(host)
    whose = [_ids(one, texts) for one in people]
    found: dict[str, str] = {}
    for _ in range(looks):
        found = compute(whose, processes(), kept())
        if found:
            break
        time.sleep(BETWEEN)  # what forks and ends all the time is missed by one look
    for grant in grants.read(host.path(host.state), host.path("run/gpuadmin"))[0]:
        for one in people:
            if grant.uid in (one.old, one.new):  # guard: a grant of GPUs is not another's after a renumbering
                found.setdefault(one.name, "has a grant of GPUs: gpuadmin revoke ends it")
    return found
