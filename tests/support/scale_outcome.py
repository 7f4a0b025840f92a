"""What a host looks like afterwards, whoever did it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from tests.support.scale_hosts import SshHost
from tests.support.scale_people import people


@dataclass(frozen=True)
class Outcome:
    """What rootless Docker needs of a person on a node."""

    subuid: frozenset[str]
    subgid: frozenset[str]
    data: frozenset[tuple[str, int, int]]  # name, owner, mode


def outcome(host: SshHost, number: int) -> Outcome:
    """Given a host, return who has a private range of 65536 ids in each file, and whose data directory is there."""
    docker = host.root / "local/.docker"
    data = set()
    for entry in docker.iterdir() if docker.is_dir() else ():
        status = entry.stat()
        data.add((entry.name, status.st_uid, status.st_mode & 0o7777))
    return Outcome(_owners(host, "subuid", number), _owners(host, "subgid", number), frozenset(data))


def _owners(host: SshHost, file: str, number: int) -> frozenset[str]:
    # a line begins with a login name or with a uid, subuid(5)
    names = {str(uid): name for name, uid in people(number)}
    ranges = []
    for line in (host.root / "etc" / file).read_text().splitlines():
        owner, start, size = line.split(":")
        ranges.append((int(start), int(size), names.get(owner, owner)))
    ranges.sort()
    for (start, size, owner), (following, _, other) in pairwise(ranges):
        if start + size > following:
            raise AssertionError(f"{host.name}: /etc/{file}: the ranges of {owner} and {other} overlap")
    return frozenset(owner for _, size, owner in ranges if size == 65536)
