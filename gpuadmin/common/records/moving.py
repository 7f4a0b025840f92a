"""Records of homes that move from nodes' disks to the storage host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from .bounds import Count, Pattern, Size, Uid
from .renumbering import Name, Sentence, Sentences

#: A key of ed25519, or none. What a host says here becomes known to another.
PublicKey = Annotated[str, Size(100), Pattern("(ssh-ed25519 [A-Za-z0-9+/]{68}={0,2})?", "an ed25519 key")]
Names = Annotated[list[str], Size(100)]


@dataclass(frozen=True)
class MovedHome:
    """A home of a person on a node. `main`: it becomes the home; else it goes into it as `before-HOST`.

    `device` and `inode`: which directory it is on the node. `there`: whether the storage host had a home of theirs
    already, which stays the home. `checksum`: of its manifest; empty before it was compared.
    """

    name: Name
    uid: Uid
    host: Sentence
    main: bool
    there: bool
    device: Count
    inode: Count
    step: str
    checksum: str
    files: Count
    bytes: Count


@dataclass(frozen=True)
class PlacedHome(MovedHome):
    """A home as the storage host reports it. `placed`: it has its name there."""

    placed: bool = False


@dataclass(frozen=True)
class NodeHome:
    """A person's home on a node's own disk. `before`: names in it of homes that were moved. `odd`: what stays."""

    device: Count
    inode: Count
    files: Count
    bytes: Count
    entries: Count
    before: Names
    odd: Sentences


@dataclass(frozen=True)
class Place:
    """What the storage host has at a home's place: none, untouched or theirs."""

    kind: str
    before: Names


@dataclass(frozen=True)
class Moving:
    """What a host has of people's homes, and what is being moved."""

    uids: dict[Name, Uid]
    elsewhere: dict[Name, Sentence]
    busy: dict[Name, Sentence]
    closed: list[Name]
    working: bool
    host_key: PublicKey
    homes: dict[Name, NodeHome]
    problems: dict[Name, Sentence]
    free: Count
    there: dict[Name, Place]
    parts: list[PlacedHome]
    note: Sentence
    no_login: Sentence
    reached: dict[Sentence, PublicKey]


@dataclass(frozen=True)
class Done:
    """What was done with a home."""

    name: Name
    host: Sentence = ""
    checksum: Annotated[str, Size(64)] = ""
    missing: Count = 0


@dataclass(frozen=True)
class Moved:
    """What was done with homes, and people who had a problem."""

    parts: list[Done]
    problems: dict[Name, Sentence]
    between: list[Name] = field(default_factory=list)
    closed: list[Name] = field(default_factory=list)
    working: bool = False
