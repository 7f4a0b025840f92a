"""What is known of images: the store's and the nodes', and their names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from gpuadmin.answers import Answers
from gpuadmin.common.names import IMAGE
from gpuadmin.errors import ConfigError

NAME = re.compile(IMAGE)


@dataclass(frozen=True)
class Facts:
    """What list-images found: the store's images by name, and what each node reports; hosts that did not answer.

    `store_known` says whether the store is what it says, or nobody could look at it.
    """

    store: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    nodes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    store_known: Answers = field(default_factory=Answers)
    nodes_known: Answers = field(default_factory=Answers)

    @property
    def complete(self) -> dict[str, Mapping[str, Any]]:
        """The manifests of the images that are complete, newest first."""
        found = {name: entry["manifest"] for name, entry in self.store.items() if entry.get("manifest")}
        return dict(sorted(found.items(), key=lambda item: -float(item[1]["created"])))


def check_name(name: str) -> str:
    """Given an image's name, return it. Raises ConfigError."""
    if len(name) > 64 or not NAME.fullmatch(name):  # guard: an image's name is a plain one for the controller too
        raise ConfigError(f"{name!r} cannot name an image", hint="lower-case letters, digits and . _ -, 64 at most")
    return name


def new_name(taken: Sequence[str], now: datetime | None = None) -> str:
    """A name for an image of today that none has: 2026-11-21, 2026-11-21.2, …"""
    base = f"{now or datetime.now(UTC):%Y-%m-%d}"
    name, number = base, 1
    while name in taken:
        number += 1
        name = f"{base}.{number}"
    return name
