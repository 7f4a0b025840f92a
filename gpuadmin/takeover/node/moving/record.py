"""What is known of a home that is being moved, on the storage host: a file for each person and node, and manifests.

It is written before what it says can be relied on, and stays until the old home is discarded.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.documents import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import valid_name
from ansible_collections.gpuadmin.node.plugins.module_utils.files import (
    make_directory,
    read_bytes,
    sync_directory,
    unlink_if_present,
    write_atomic,
)

from gpuadmin.common.records.moving import MovedHome

DIRECTORY = "move-homes"  # in the state
FORMAT = 1
BEGUN, COPIED, CHANGING, PLACED, ASIDE = "begun", "copied", "changing", "placed", "aside"
LATE = "late"  # what has changed since it was copied took too long: it is copied anew


@dataclass(frozen=True)
class Part(MovedHome):
    """One home of a person on one node. ``here``: the inode of the copy's top. ``seconds``: that the copy took."""

    here: int = 0
    entries: int = 0
    seconds: float = 0.0

    @property
    def before(self) -> str:
        """The name that it has in the home where it is not the main one."""
        return f"before-{self.host}"


def directory(state: str) -> str:
    return os.path.join(state, DIRECTORY)


def path(state: str, name: str, host: str, ending: str) -> str:
    """Where something of a home is kept: ``json``, ``have.gz`` (the copy as it is), ``gz`` (the manifest)."""
    if not valid_name(name) or "/" in host:  # guard: what a node says leads to no file elsewhere
        raise NodeError("that is not the home of a person on a host")
    return os.path.join(directory(state), f"{name}@{host}.{ending}")


def make(state: str) -> None:
    make_directory(state, 0o755)
    make_directory(directory(state), 0o700)


def save(state: str, part: Part) -> Part:
    """Write it, durably, and return it."""
    make(state)
    text = json.dumps({"format": FORMAT, **asdict(part)})
    # guard: a step of a move stays done after a power cut
    write_atomic(path(state, part.name, part.host, "json"), text.encode() + b"\n", mode=0o600)
    return part


def load(state: str, name: str, host: str) -> Part | None:
    """What is known of it; None: nothing. Raises NodeError for what is damaged."""
    where = path(state, name, host, "json")
    data = read_bytes(where)
    if data is None:
        return None
    try:
        raw: dict[str, Any] = json.loads(data)
        if raw.pop("format") != FORMAT:
            raise NodeError(f"{where} is of another version of gpuadmin: finish with that one (gpuadmin move-homes)")
        return parse(Part, raw, f"{where} is damaged: its home")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NodeError(f"{where} is damaged ({error}): it records where a home is") from None


def forget(state: str, part: Part) -> None:
    """Nothing is left to be known of it."""
    for ending in ("json", "have.gz", "gz"):
        unlink_if_present(path(state, part.name, part.host, ending))
    sync_directory(directory(state))


def known(state: str) -> list[Part]:
    """All homes that are known of, by person and node."""
    try:
        names = sorted(one for one in os.listdir(directory(state)) if one.endswith(".json"))
    except FileNotFoundError:
        return []
    found = []
    for one in names:
        name, _, host = one[: -len(".json")].partition("@")
        if not valid_name(name):
            continue
        part = load(state, name, host)
        if part is not None:
            found.append(part)
    return found
