"""What is reported where people get other uids, and where their homes are moved."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from gpuadmin.common.names import ACCOUNT
from gpuadmin.common.records.bounds import Count

_Name = Annotated[str, Field(max_length=64)]
_Uid = Annotated[int, Field(ge=0, lt=2**32)]
_Pair = Annotated[list[_Uid], Field(min_length=2, max_length=2)]
_Line = Annotated[str, Field(max_length=1000)]
_Lines = Annotated[list[_Line], Field(max_length=200)]


class Renamed(TypedDict):
    """Somebody who gets another name on a host: what becomes of their homes, and what keeps its name."""

    was: Annotated[str, Field(pattern=f"^(?:{ACCOUNT})$", max_length=64)]
    homes: Annotated[list[Annotated[list[_Line], Field(min_length=2, max_length=2)]], Field(max_length=2)]
    left: _Lines


class Renumbering(TypedDict):
    """Who has which uid on a host, and what giving them another would mean.

    `trees`: mount point → person → files and bytes. `problem`: what the last boot could not do. `closed`: whom an
    earlier run has closed that had changed nothing yet, with the uids that it was for. `seen`: entries to go through.
    `kept`: why somebody stays out; `staying`: ids that files still have; `rest`: all others have been let in.
    """

    has: dict[_Name, _Uid]
    problems: dict[_Name, _Line]
    people: dict[_Name, _Pair]
    under_way: bool
    whole: bool
    problem: _Line
    closed: dict[_Name, _Pair]
    kept: dict[_Name, _Line]
    staying: list[_Uid]
    rest: bool
    written: _Lines
    renamed: dict[_Name, Renamed]
    trees: NotRequired[dict[_Line, dict[_Name, Annotated[list[Count], Field(min_length=2, max_length=2)]]]]
    seen: NotRequired[Count]
    notes: NotRequired[_Lines]
    unknown: NotRequired[_Lines]


#: One of ed25519, or none; what one host says here becomes known to another.
PublicKey = Annotated[str, Field(pattern=r"^(ssh-ed25519 [A-Za-z0-9+/]{68}={0,2})?$", max_length=100)]


class NodeHome(TypedDict):
    """A person's home on a node's own disk."""

    device: Count
    inode: Count
    files: Count
    bytes: Count
    entries: Count
    before: Annotated[list[str], Field(max_length=100)]
    odd: _Lines


class Place(TypedDict):
    """What the storage host has at a home's place."""

    kind: str
    before: Annotated[list[str], Field(max_length=100)]


class MovedPart(TypedDict):
    """A home that is being moved, as the storage host has it written down."""

    name: _Name
    uid: _Uid
    host: _Line
    main: bool
    there: bool
    device: Count
    inode: Count
    step: str
    checksum: str
    files: Count
    bytes: Count
    placed: NotRequired[bool]


class Moving(TypedDict):
    """What a host has of people's homes, and what is being moved."""

    uids: dict[_Name, _Uid]
    elsewhere: dict[_Name, _Line]
    busy: dict[_Name, _Line]
    closed: list[_Name]
    working: bool
    host_key: PublicKey
    homes: dict[_Name, NodeHome]
    problems: dict[_Name, _Line]
    free: Count
    there: dict[_Name, Place]
    parts: list[MovedPart]
    note: _Line
    no_login: _Line
    reached: dict[_Line, PublicKey]


class MovedOne(TypedDict):
    """What was done with one home."""

    name: _Name
    host: NotRequired[_Line]
    checksum: NotRequired[Annotated[str, Field(max_length=64)]]
    missing: NotRequired[Count]


class Moved(TypedDict):
    """What was done with homes, and who had a problem."""

    parts: list[MovedOne]
    problems: dict[_Name, _Line]
    between: NotRequired[list[_Name]]
    closed: NotRequired[list[_Name]]
    working: NotRequired[bool]
