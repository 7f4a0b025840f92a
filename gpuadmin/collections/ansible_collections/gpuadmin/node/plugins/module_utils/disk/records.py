"""What was measured of each directory, kept from day to day: a host that is switched off goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..paths import STATE


def in_state(directory: str) -> str:
    """The file in a host's state directory."""
    return os.path.join(directory, "metrics/disk.json")


FILE = in_state(STATE)
FORMAT = 1


@dataclass(frozen=True)
class Place:
    """A directory to measure. ``name``: as in the label. ``by_owner``: else each directory in it is its owner's."""

    name: str
    path: str
    by_owner: bool = False


@dataclass(frozen=True)
class Found:
    """Of one person: bytes, inodes, and (path, bytes, inodes) of the largest directories, relative to what it is of.

    ``problem``: why theirs alone is only a part.
    """

    bytes: int
    inodes: int
    largest: Sequence[Sequence[Any]] = ()
    problem: str = ""


@dataclass(frozen=True)
class Record:
    """Of one directory. ``people``: by uid. ``when``: seconds since 1970 when this was so. ``began``: when the last try
    did. ``inode``, ``generation``: of btrfs, which show that nothing has changed; 0 if unknown. ``problem``: why it is
    only a part. ``unowned``: uids of files in it that are nobody's; None: that is not known.
    """

    people: Mapping[str, Found]
    when: float
    began: float
    inode: int = 0
    generation: int = 0
    problem: str = ""
    unowned: Sequence[int] | None = None


#: By the place's path and the directory's name in it.
Records = dict[tuple[str, str], Record]


def load(path: str = FILE) -> Records:
    """What was measured before. Raises NodeError if the file is damaged: then all is measured again."""
    raw = read_bytes(path)
    if raw is None:
        return {}
    try:
        data = json.loads(raw)
        if data["format"] != FORMAT:
            raise ValueError(f"format {data['format']}")
        return {(str(place), str(name)): _record(one) for place, name, one in data["records"]}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise NodeError(f"{path} is damaged ({error}): everything is measured again") from None


def _record(one: Mapping[str, Any]) -> Record:
    people = {}
    for uid, of in one["people"].items():
        largest = [(str(path), int(size), int(inodes)) for path, size, inodes in of["largest"]]
        people[str(int(uid))] = Found(int(of["bytes"]), int(of["inodes"]), largest, str(of.get("problem", "")))
    unowned = one.get("unowned")
    return Record(
        people, float(one["when"]), float(one["began"]), int(one["inode"]), int(one["generation"]), str(one["problem"]),
        None if unowned is None else [int(uid) for uid in unowned],
    )  # fmt: skip


def save(records: Records, path: str = FILE) -> None:
    data = {"format": FORMAT, "records": [[*key, asdict(one)] for key, one in records.items()]}
    os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
    write_atomic(path, json.dumps(data).encode(), mode=0o600)
