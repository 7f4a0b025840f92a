"""gpuadmin.node.files: what a role wants in the file system, in one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import followed
from ..answer import Answer
from ..root.tree import (
    Directory,
    File,
    Link,
    Request,
    enabled,
    execute,
    masked,
    plan,
    run_after,
    validate,
)


@dataclass(frozen=True)
class WantedDirectory:
    path: str
    mode: str = "0755"
    exclusive: bool = False


@dataclass(frozen=True)
class WantedFile:
    path: str
    content: str
    show_diff: bool = True
    mode: str = "0644"
    validate: Sequence[str] = ()


@dataclass(frozen=True)
class WantedLink:
    path: str
    target: str


@dataclass(frozen=True)
class Document:
    """Directories, files and links in one call.

    Makes everything that a role wants in the file system of a host, in one round trip.
    Files are replaced atomically. New files are validated before any of them is in place.
    A root that is read-only by its btrfs property is opened only if something in it differs, and closed again.
    Everything belongs to root.
    """

    #: Directories to have.
    directories: Sequence[WantedDirectory] = ()
    #: Files to have. Directories above them are made, with mode 0755.
    files: Sequence[WantedFile] = ()
    #: Symbolic links to have.
    links: Sequence[WantedLink] = ()
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


def operate(document: Document, check: bool) -> Answer:
    directories = [Directory(one.path, int(one.mode, 8), one.exclusive) for one in document.directories]
    files = [
        File(one.path, one.content, int(one.mode, 8), tuple(one.validate), one.show_diff) for one in document.files
    ]
    links = [Link(one.path, one.target) for one in document.links]
    links += enabled(document.enable, files) + masked(document.mask)
    steps = plan(Request(directories, files, links, document.absent))
    validate(steps.operations, check=check)
    paths = [one.path for one in steps.operations]
    name = document.follows or (followed.name_of(_named(document)) if document.after else "")  # "": nothing follows
    # guard: what has to follow a change follows it after a run that was cut off, too -> []
    left = followed.left(name) if name else []
    if not check:
        if steps.operations:
            if name:
                followed.remember(name, {*left, *paths})
            execute(steps)
        if document.after and (steps.operations or left):
            run_after(document.after)
            if not document.follows:
                followed.forget(name)
        for one in document.followed:
            followed.forget(one)
    again = [f"finish what an earlier change needs ({', '.join(left)})"] if left and not steps.operations else []
    return Answer(
        [*steps.summaries, *again], changed=bool(steps.operations or left), diff=steps.diff(),
        more={"paths": sorted({*left, *paths})},
    )  # fmt: skip


def _named(document: Document) -> list[str]:
    there = [one.path for one in document.directories] + [one.path for one in document.files]
    return [*there, *(one.path for one in document.links), *document.enable, *document.mask, *document.absent]
