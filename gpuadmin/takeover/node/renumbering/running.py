"""Who runs something on this host: all threads are asked.

A process whose first thread has ended goes on in its others, and one in a user namespace may become whoever its owner
may.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.subids import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.logins.sessions import BETWEEN, LOOKS

from gpuadmin.common.text import counted

from . import accounts
from .journal import Renumbering

OWNER, PARENT = 0xB704, 0xB702  # ioctl_nsfs(2): NS_GET_OWNER_UID, NS_GET_PARENT


@dataclass(frozen=True)
class Running:
    """A process: all uids of its living threads, and who owns the user namespaces that they are in.

    ``maps``: the uids of a namespace whose owner is not to be known; its processes may become each of them.
    """

    pid: int
    command: str
    uids: frozenset[int]
    owners: frozenset[int] = frozenset()
    maps: frozenset[range] = frozenset()


def _ids(one: Renumbering, texts: Mapping[str, str | None]) -> list[range]:
    """A person's uid, and the ranges of subordinate ids that are theirs."""
    found = [range(one.old, one.old + 1)]
    for line in parse(texts.get("subuid") or ""):
        if line.count and line.owner in (one.name, str(one.old)):
            found.append(range(line.start, line.end))  # guard: processes with ids of ranges made by hand are theirs
    return found


def _among(numbers: Iterable[int], ranges: Sequence[range]) -> bool:
    return any(one in several for one in numbers for several in ranges)


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
                # root's own takes somebody's ids for a moment: a file server, say
                uids |= set(several) if several[0] else {0}
                try:
                    owners |= _owners(f"{base}/ns/user", known)
                except PermissionError:  # it may do what we may not: we are in a container
                    maps |= _map(f"{base}/uid_map") - same
            except (FileNotFoundError, ProcessLookupError):
                continue
        if uids:
            found.append(Running(int(name), command, frozenset(uids), frozenset(owners), frozenset(maps)))
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


def compute(people: Mapping[str, Sequence[range]], running: Sequence[Running]) -> dict[str, str]:
    """Given whose which uids are, return in words what each of them runs."""
    found: dict[str, str] = {}
    for name, uids in people.items():
        mine = [
            each
            for each in running
            if _among(each.uids, uids)
            or _among(each.owners, uids)  # guard: who may become somebody by their namespace is them
            or any(mapped.start < theirs.stop and theirs.start < mapped.stop for mapped in each.maps for theirs in uids)
        ]
        if mine:
            words = ", ".join(sorted({each.command for each in mine})[:5])
            found[name] = f"runs {words} ({counted(len(mine), 'process', 'processes')})"
    return found


def busy(people: Sequence[Renumbering], host: Host, looks: int = LOOKS) -> dict[str, str]:
    """Who has processes (containers and a lingering manager are such), in words."""
    texts = accounts.texts(host)
    whose = {one.name: _ids(one, texts) for one in people}
    found: dict[str, str] = {}
    for _ in range(looks):
        found = compute(whose, processes())
        if found:
            break
        time.sleep(BETWEEN)  # what forks and ends all the time is missed by one look
    return found


def find_grants(people: Sequence[Renumbering], host: Host, *, rest: bool = False) -> dict[str, str]:
    """Who has a grant of GPUs by one of their uids, in words. ``rest``: others may have their old ones by now."""
    granted = {grant.uid for grant in grants.read(host.path(host.state), host.path("run/gpuadmin"))[0]}
    return {
        one.name: "has a grant of GPUs: gpuadmin revoke ends it"
        for one in people
        if granted
        & ({one.new} if rest else {one.old, one.new})  # guard: a grant of GPUs is not another's after a renumbering
    }
