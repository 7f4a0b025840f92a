"""gpuadmin.node.term_facts: what a semester's end has to know of a host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Optional

from gpuadmin.common.records.people import PersonEntry

from .. import people
from ..answer import Answer
from ..wipe import term_facts

#: A task of this role need not name a field that the role has a variable for.
ROLE = "semester"


@dataclass(frozen=True)
class Document:
    """What a semester's end has to know of a host.

    Looks at homes, backups, scratch directories and processes, as far as the arguments name them.
    It changes nothing, and counts no files one by one.
    """

    people: Sequence[PersonEntry] = ()
    #: Directory of homes, on the storage host.
    home_root: Optional[str] = None
    #: Mount point that must be mounted.
    mountpoint: Optional[str] = None
    #: Directory of backups.
    backup_directory: Optional[str] = None
    #: Scratch directories to look into.
    directories: Sequence[str] = ()
    #: Directory of everybody's Docker data.
    docker_data: Optional[str] = None
    #: Names whose uid is asked for on this host.
    names: Sequence[str] = ()


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    facts = term_facts.collect(
        people.parse(map(asdict, document.people)),
        home_root=document.home_root,
        mountpoint=document.mountpoint,
        backup_directory=document.backup_directory,
        directories=document.directories,
        docker=document.docker_data,
        names=document.names,
    )
    return Answer(report={"facts": facts, "problems": []})
