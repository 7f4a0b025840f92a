"""What is reported of people: accounts, homes, backups, and what the end of a term has to know."""

from __future__ import annotations

from typing import Annotated, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from gpuadmin.ansible.shapes.bounds import Count, Stamp, Uids, Words


class Person(TypedDict):
    """What was done for one person, or for one thing of theirs. Of thousands nothing else is kept, or looked at."""

    status: str
    operations: NotRequired[list[str]]
    problem: NotRequired[str | None]
    files: NotRequired[Count]
    bytes: NotRequired[Count]
    user: NotRequired[str]


class Home(TypedDict):
    """A home in a backup."""

    uid: Count
    files: Count
    bytes: Count
    checksum: str
    verified: str | bool | None


class Backup(TypedDict):
    name: str
    path: NotRequired[str]
    created: Stamp
    homes: dict[str, Home]
    problems: Words
    copies: Words
    uncopied: NotRequired[dict[str, Words]]


class Taken(TypedDict):
    """Which uids a storage host remembers and sees."""

    memory: Uids | None
    seen: Uids
    problem: str | None


class Entry(TypedDict):
    """An entry of the home root."""

    kind: str
    uid: int
    problem: str | None
    of: NotRequired[str | None]


class Scratch(TypedDict):
    user: str
    uid: int
    path: NotRequired[str]


class Scratches(TypedDict):
    items: list[Scratch]
    problems: NotRequired[Words]


class Term(TypedDict):
    """What a reset has to know of a host."""

    processes: dict[str, Count]
    homes: NotRequired[dict[str, Entry]]
    waiting: NotRequired[list[str]]
    backups: NotRequired[list[Backup]]
    scratch: NotRequired[Scratches]
    identities: NotRequired[dict[str, Annotated[int, Field(ge=0, lt=2**32)]]]


class Deleted(TypedDict):
    kept: Count
    words: list[str]
    bytes: Count


People = dict[str, Person]
