"""A cause, and the person it is about as their site knows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

#: What a host's part of a diagnosis found, by the part's name; see diagnosis/collect.py.
Facts = Mapping[str, Any]


@dataclass(frozen=True)
class Cause:
    """``code``: which one; the controller's gpuadmin/diagnosis/finding.py says how bad each is.

    ``cause``: a sentence. ``remedy``: what an admin does; HOSTS, STORAGE and EXPORT in it are the controller's to fill
    in. ``evidence``: lines of where it was seen. ``values``: what a text for the person themselves needs.
    """

    code: str
    cause: str
    remedy: str
    evidence: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "evidence": list(self.evidence), "values": list(self.values)}


@dataclass(frozen=True)
class Person:
    """Somebody as users.yml has them. ``registered``: whether it does. ``expires``: their last day, YYYY-MM-DD, or
    None.

    ``keys``: whether users.yml has a key of theirs. ``uid`` None: a directory gives it.
    """

    name: str
    uid: int | None = None
    registered: bool = True
    locked: bool = False
    expires: str | None = None
    keys: bool = False
    docker: bool = True
