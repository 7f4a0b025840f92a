"""Operations of a semester's end: what is there, what is wiped, and what no backup had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Optional

from gpuadmin.common.records.people import PersonEntry
from gpuadmin.common.records.wipes import ClearLeftovers, WipeHomes, WipeScratch

from .. import background, people, unit
from ..answer import Answer
from ..errors import NodeError
from ..operation import operation
from . import homes, jobs, leftovers, scratch, term_facts

WIPE = "wipe-homes"


@dataclass(frozen=True)
class TermFacts:
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


@operation("term_facts", TermFacts, role="semester", looks=True)
def report_term(document: TermFacts, check: bool) -> Answer:
    facts = term_facts.collect(
        people.parse(document.people),
        home_root=document.home_root,
        mountpoint=document.mountpoint,
        backup_directory=document.backup_directory,
        directories=document.directories,
        docker=document.docker_data,
        names=document.names,
    )
    return Answer(report={"facts": facts, "problems": []})


@operation("wipe_homes", WipeHomes, each="homes")
def wipe_homes(document: WipeHomes, check: bool) -> Answer:
    plan = homes.converge(
        document,
        check=check,  # guard: check mode moves no home -> False
    )
    if check:  # guard: check mode empties no trash
        return Answer.of(plan)
    return Answer.of(plan, deleted=background.perform(WIPE, jobs.empty_trash, replace(document, users=())))


@operation("wipe_scratch", WipeScratch, each="scratch")
def wipe_scratch(document: WipeScratch, check: bool) -> Answer:
    if check:  # guard: check mode wipes no scratch
        return Answer.of(scratch.observe_and_compute(scratch.build_request(document)), deleted={})
    done: Any = background.perform("wipe-scratch", jobs.wipe_scratch, document)
    return Answer(done["operations"], {**done["report"], "deleted": done["done"]}, done["conflicts"])


@operation("leftovers", ClearLeftovers, each="cleared")
def clear_leftovers(document: ClearLeftovers, check: bool) -> Answer:
    name = unit.unit_name(WIPE)
    if unit.available() and unit.working(name):  # guard: what a wipe is at work on is no leftover
        raise NodeError(f"{name} is still deleting what its backup has: when it has ended, run this again")
    found = leftovers.observe(document)
    # guard: check mode clears no leftovers -> leftovers.clear(document)
    cleared = {} if check else leftovers.clear(document)
    kept = [f"{name}: {one.problem}" for name, one in cleared.items() if one.problem is not None]
    operations = [one.operation for one in found if one.name not in cleared or cleared[one.name].attic is not None]
    return Answer(operations, {"cleared": cleared, "problems": kept}, kept)
