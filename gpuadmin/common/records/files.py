"""Records of directories, files and links that a role wants on a host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Directory:
    """`mode`: in octal digits. `exclusive`: it belongs to the order alone, and anything else in it is deleted."""

    path: str
    mode: str = "0755"
    exclusive: bool = False


@dataclass(frozen=True)
class File:
    """`validate`: a command that must accept the new content; `%s` in it stands for a file with that content."""

    path: str
    content: str
    mode: str = "0644"
    validate: Sequence[str] = ()
    show_diff: bool = True


@dataclass(frozen=True)
class Link:
    path: str
    target: str


@dataclass(frozen=True)
class FilesOrder:
    """Directories, files and links in one call.

    Makes everything that a role wants in the file system of a host, in one round trip.
    Files are replaced atomically. New files are validated before any of them is in place.
    A root that is read-only by its btrfs property is opened only if something in it differs, and closed again.
    Everything belongs to root.
    """

    #: Directories to have.
    directories: Sequence[Directory] = ()
    #: Files to have. Directories above them are made, with mode 0755.
    files: Sequence[File] = ()
    #: Symbolic links to have.
    links: Sequence[Link] = ()
    #: Unit files among ``files`` that start by themselves, as their ``[Install]`` sections say.
    #: Nothing is started now.
    enable: Sequence[str] = ()
    #: Names of units that must never run.
    mask: Sequence[str] = ()
    #: Paths that must not exist.
    absent: Sequence[str] = ()
    #: Commands to run, in this order, once something was changed and the root is closed again. If they were cut off,
    #: the next call runs them, whether it has something to change or not.
    after: Sequence[Sequence[str]] = ()
    #: A name for what handlers have to do after a change: until one says that it is done (``followed``), each call
    #: reports a change.
    follows: str = ""
    #: The names of what handlers have done.
    followed: Sequence[str] = ()
