"""What is asked of the accounts of a host, and what would be done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gpuadmin.common.records.people import UserReport

from .desired import DesiredState, Settings


@dataclass(frozen=True)
class Request:
    """``users`` and ``absent`` as they came from outside, unchecked.

    ``docker``: (name, uid) of those who ask for Docker themselves. That is a difference, not a record: nothing else of
    theirs is changed, and whoever may not log in is refused. ``refused``: name → why the storage host made no home;
    they get no new account either, and an account that they have is converged like anybody's.
    """

    settings: Settings
    users: Sequence[Mapping[str, object]] = ()
    absent: Sequence[Mapping[str, object]] = ()
    docker: Sequence[tuple[str, int]] = ()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Plan:
    desired: DesiredState
    files: dict[str, str] = field(default_factory=dict)
    keys: dict[str, bytes | None] = field(default_factory=dict)
    docker: list[tuple[str, int, int]] = field(default_factory=list)  # name, uid, gid to make
    docker_parent: bool = False
    scratch: list[tuple[str, str, int, int]] = field(default_factory=list)  # directory, name, uid, gid to make
    linger: list[str] = field(default_factory=list)
    host_operations: list[str] = field(default_factory=list)
    users: dict[str, UserReport] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    desired_changed: bool = False

    @property
    def operations(self) -> list[str]:
        lines = list(self.host_operations)
        for name, entry in self.users.items():
            lines += [f"user {name}: {text}" for text in entry.operations]
        if self.desired_changed:
            lines.append("accounts.json: record the accounts")
        return lines

    @property
    def conflicts(self) -> list[str]:
        lines = [f"user {name}: {one.problem}" for name, one in self.users.items() if one.status == "conflict"]
        return self.failures + lines

    def report(self) -> dict[str, object]:
        return {
            "users": self.users,
            "problems": self.failures + self.problems,
        }
