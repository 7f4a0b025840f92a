"""What a host has of accounts: all that a decision on them is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .desired import DesiredState


@dataclass(frozen=True)
class Observed:
    """What a host has. ``today``: days since 1970-01-01. ``identities``: name → (uid, gid) by NSS, directory mode."""

    files: Mapping[str, str | None]
    desired: DesiredState = field(default_factory=DesiredState)
    keys: Mapping[str, bytes] = field(default_factory=dict)
    docker: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # name → (kind, owner uid)
    docker_parent: bool = False
    docker_problem: str | None = None
    linger: frozenset[str] = frozenset()
    identities: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    root: str = "/"
    today: int = 0
    renumbered: Mapping[str, str] = field(default_factory=dict)  # name → the verb that keeps them out
    old_ids: Mapping[int, str] = field(default_factory=dict)  # that a file may still have: why nobody new gets them
    scratch: Mapping[str, tuple[str, int]] = field(default_factory=dict)  # path of a person's own → (kind, owner uid)
    scratch_problems: Mapping[str, str] = field(default_factory=dict)  # directory → why nobody gets one there
    missing_shells: frozenset[str] = frozenset()  # wanted login shells that this host does not have
