"""Records of people: accounts, homes, backups, and the facts that the end of a term needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, Optional

from .bounds import Count, Stamp, Uid, Uids, Words

#: 2: whole paths in manifests; 1: other checksums of contents, too; such sets are verified and restored.
BACKUP_FORMAT = 3


@dataclass(frozen=True)
class PersonEntry:
    """One person, as `people.parse` takes them: it checks names, and that no two share an id."""

    name: str
    uid: int
    subid_start: int = 0
    subid_count: int = 0


@dataclass(frozen=True)
class UnixGroup:
    """A group of people that is a Unix group: its members are who has it as ``group``, and nobody else of people."""

    name: str
    gid: int


@dataclass(frozen=True)
class AccountSettings:
    """What holds for all accounts of a host."""

    #: ``registry`` makes accounts; ``directory`` takes them from NSS and adds subids and Docker only.
    source: Literal["registry", "directory"] = "registry"
    #: First uid that this module may touch.
    uid_first: int = 20000
    #: Last uid that this module may touch.
    uid_last: int = 49999
    #: Group that all users are in.
    group: str = "gpuusers"
    #: Id of ``group``.
    gid: int = 19999
    #: False on hosts where nobody logs in. Accounts then have no shell, no keys and no Docker.
    login: bool = True
    #: First subordinate id of the user with the uid ``uid_first``.
    subid_base: int = 2147483648
    #: Number of subordinate ids for each user.
    subid_size: int = 65536
    #: Directory of the users' Docker data, on a local disk. Without it nobody gets Docker or subids here.
    docker_data: Optional[str] = None
    #: Directories of this host's own disks in which each person has one of their own.
    scratch: list[str] = field(default_factory=list)
    #: Groups of people that are Unix groups. One that is left out stays as it is.
    groups: Sequence[UnixGroup] = ()


@dataclass
class UserReport:
    """The report on one person. `operations`: what is done, in words. `problem`: what is wrong."""

    status: str
    operations: list[str] = field(default_factory=list)
    problem: Optional[str] = None


@dataclass
class ItemReport(UserReport):
    """The report on a thing of a person's (`user`): a home, an entry of scratch. Of thousands nothing else is kept."""

    files: Count = 0
    bytes: Count = 0
    user: str = ""


@dataclass(frozen=True)
class Home:
    """A home in a backup. `inode` and `volume` say which directory it was. `verified`: the time, or None."""

    uid: Count
    files: Count
    bytes: Count
    checksum: str
    verified: Optional[str]
    inode: Count = 0
    volume: str = ""
    entries: Count = 0
    nested: Words = field(default_factory=dict)


@dataclass(frozen=True)
class Backup:
    """A complete set. `copies`: host → when a copy of it was there, and those homes in it verified that are verified
    here. `uncopied`: host → the homes that its copy lacks, and why.

    `begun`: nanoseconds before the first snapshot. What was changed since may be in it with its new times and its old
    content, because btrfs writes times at once (of mmap, or with a mode) and contents later; 0: not known.
    """

    name: str
    created: Stamp
    homes: dict[str, Home]
    problems: Words
    copies: Words
    path: str = ""
    root: str = ""
    inside: str = ""
    uncopied: dict[str, Words] = field(default_factory=dict)
    format: int = BACKUP_FORMAT
    begun: Count = 0


@dataclass(frozen=True)
class KnownUids:
    """Uid → whom a storage host remembers (None if it cannot be read); uid → what carries it there."""

    memory: Optional[Uids]
    seen: Uids
    problem: Optional[str]


@dataclass(frozen=True)
class CarriedUids:
    """Uids that something on a host carries and no account of gpuadmin's has. `looked`, `not_looked`: the places."""

    ids: Uids
    looked: list[str]
    not_looked: list[str]


@dataclass(frozen=True)
class HomeEntry:
    """An entry of the home root. `of`: whose it would be by its name."""

    kind: str
    uid: int
    problem: Optional[str]
    of: Optional[str] = None


@dataclass(frozen=True)
class ScratchItem:
    """An entry of scratch. `name` has its unusual bytes as %XX, so that any name can be printed and sent."""

    user: str
    uid: int
    directory: str = ""
    name: str = ""
    kind: str = ""
    inode: Count = 0
    #: The size of a file; directories are not counted only to be deleted.
    bytes: Optional[Count] = None


@dataclass
class Scratch:
    """`unknown`: directory → entries of people nobody knows. `problems`: what stays, and why."""

    items: list[ScratchItem] = field(default_factory=list)
    problems: Words = field(default_factory=dict)
    unknown: dict[str, Count] = field(default_factory=dict)


@dataclass(frozen=True)
class TermFacts:
    """The facts of a host that a reset needs."""

    processes: dict[str, Count]
    homes: dict[str, HomeEntry] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)
    backups: list[Backup] = field(default_factory=list)
    scratch: Scratch = field(default_factory=Scratch)
    identities: dict[str, Uid] = field(default_factory=dict)


@dataclass
class Purged:
    """A deletion: the entries and bytes that went, how many entries stay (`kept`), and why the first few do."""

    bytes: Count
    kept: Count
    words: list[str]
    deleted: Count = 0
