"""gpuadmin.node.gpu_grants: who was granted which GPU of a host; one is added, some end, and the gate follows."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Optional

from ..answer import Answer
from ..errors import NodeError, nothing_begun
from ..fields import FIRST_HUMAN_UID
from ..files import flocked
from ..gpus import device_files, gate, grants, mig_devices, reconcile, telling
from ..gpus.grants import Grant
from ..gpus.mig_devices import MigDevice
from ..logins.occupants import holders


@dataclass(frozen=True)
class Wanted:
    """A grant as an admin asks for it. ``number``: so many GPUs that nobody has; or ``gpus``, by name or place; or a
    MIG device of the profile ``mig`` that nobody has."""

    id: str
    user: str
    uid: int
    until: int
    who: str
    number: int = 0
    gpus: Sequence[str] = ()
    reason: str = ""
    mig: str = ""


@dataclass(frozen=True)
class Document:
    """Grant GPUs to somebody, or end grants, and open or close them at once.

    Without either it only says what is granted.
    """

    #: The grant to add. One of this id that is there is left as it is.
    grant: Optional[Wanted] = None
    #: Ids of the grants to end. One that is not there has ended.
    end: Sequence[str] = ()


def operate(document: Document, check: bool, places: telling.Places | None = None) -> Answer:
    where = places or telling.Places()
    with ExitStack() as stack:
        if document.grant is not None:
            stack.enter_context(flocked(reconcile.adding_path(where)))
        # guard: grants are changed by one at a time
        stack.enter_context(flocked(reconcile.lock_path(where)))
        now = time.time()  # somebody else may have had the lock for a while
        found, problems = grants.read(where.state, where.run)
        settings = gate.read(where.settings)
        there = device_files.gpus(settings, where.root)
        parts = {one.uuid: one for one in mig_devices.read(where.run) if one.uuid in there}
        ending = [one for one in found if one.id in document.end]
        done = [f"end the grant {one.id} of {one.user}" for one in ending]
        new = None
        if document.grant is not None and all(one.id != document.grant.id for one in found):
            with nothing_begun():  # a refusal says that nothing was changed
                others = [one for one in found if one not in ending]
                new = _new(document.grant, settings, problems, there, parts, others, now, where)
            until = time.strftime("%Y-%m-%d %H:%M", time.localtime(new.until))
            done.append(f"grant {grants.words(new.gpus)} to {new.user} until {until}")
        if done and not check:
            grants.delete([one.id for one in ending], where.state, where.run)
            if new is not None:
                grants.write(new, where.state)
            outcome = reconcile.under_lock(where, now, whole=False)  # it says what could not be deleted
            found, problems = outcome.grants, outcome.problems
        else:
            found = [*(one for one in found if one not in ending), *([] if new is None else [new])]
    held = {} if new is None or not check else _held(new, there, parts, where)
    report = {
        "access": settings.access,
        "held": held,
        "gpus": [one for one in there if one not in parts],
        "grants": [one for one in found if now < one.until],
    }
    return Answer(done, {"grants": report, "problems": problems}, problems if not check else ())


def _held(grant: Grant, there: Mapping[str, Sequence[str]], parts: Collection[str], where: telling.Places) -> object:
    """GPU → who has it open now, besides the person of the grant: what is open stays open."""
    # of a MIG device what is its own alone: everybody on a part has the GPU's file open
    files = {gpu: set(there[gpu][1:] if gpu in parts else there[gpu]) for gpu in grant.gpus}
    wanted = re.compile("|".join(re.escape(path) for paths in files.values() for path in paths))
    found = holders(wanted, FIRST_HUMAN_UID, where.proc)
    return {
        gpu: sorted(user for user, opened in found.items() if opened & paths and user != grant.user)
        for gpu, paths in files.items()
    }


def _new(
    wanted: Wanted,
    settings: gate.Settings,
    problems: Sequence[str],
    there: Iterable[str],
    parts: Mapping[str, MigDevice],
    others: list[Grant],
    now: float,
    where: telling.Places,
) -> Grant:
    """The grant that is asked for. Raises NodeError where it cannot be given."""
    # guard: a grant where the gate is open would promise what nobody keeps
    if settings.access != "granted":
        raise NodeError(
            "GPUs of this host are open to everybody, so there is nothing to grant: set `gpus.access: granted`,"
            " or `gpus_access` of this host, and run `gpuadmin provision`"
        )
    if problems:  # guard: where a grant cannot be read no GPU is known to be free
        raise NodeError(problems[0])
    owner = where.lookup(wanted.user)
    # guard: a grant is of whoever has the uid on this host
    if owner is None or owner[0] != wanted.uid:
        raise NodeError(f"{wanted.user[:40]} does not have the uid {wanted.uid} on this host: gpuadmin sync-users")
    return _grant(wanted, list(there), parts, others, now, mig_devices.waiting(where.run).gpus)


def _grant(
    wanted: Wanted,
    there: list[str],
    parts: Mapping[str, MigDevice],
    others: list[Grant],
    now: float,
    waiting: Sequence[str],
) -> Grant:
    whole = [one for one in there if one not in parts]
    # a place (0, 1, …) is what people see in nvidia-smi
    named = [
        whole[int(one)] if one.isdecimal() and int(one) < len(whole) and one not in there else one
        for one in wanted.gpus
    ]
    # guard: a GPU that waits to be divided is granted to nobody
    if any(one in waiting or (one in parts and parts[one].gpu in waiting) for one in named):
        raise NodeError(
            "the GPU waits to be divided (gpuadmin mig --when-idle): nobody is granted it until that is done"
        )
    parts = {name: one for name, one in parts.items() if one.gpu not in waiting}
    taken = [_related(one, parts) for one in others]
    if wanted.mig:
        gpus = [_part(wanted.mig, parts, taken, now)]
    elif named:
        gpus = grants.choose(named, there, taken, now)
    else:  # one that is divided is not among those that anybody means who says how many
        divided = {one.gpu for one in parts.values()}
        gpus = grants.choose(wanted.number, [one for one in whole if one not in {*divided, *waiting}], taken, now)
    return grants.checked(
        Grant(wanted.id, wanted.user, wanted.uid, gpus, int(now), wanted.until, wanted.who, wanted.reason)
    )


def _related(grant: Grant, parts: Mapping[str, MigDevice]) -> Grant:
    """A grant with what nobody else can have meanwhile: the GPU of a MIG device, the MIG devices of a GPU."""
    above = [parts[one].gpu for one in grant.gpus if one in parts]
    below = [one.uuid for one in parts.values() if one.gpu in grant.gpus]
    # guard: a GPU and a MIG device of it are not granted to two -> grant
    return replace(grant, gpus=[*grant.gpus, *above, *below])


def _part(profile: str, parts: Mapping[str, MigDevice], taken: Iterable[Grant], now: float) -> str:
    """A MIG device of this profile that nobody was granted. Raises NodeError."""
    of_it = [one.uuid for one in parts.values() if one.profile == profile]
    gone = {gpu for one in taken if now < one.until for gpu in one.gpus}
    free = [one for one in of_it if one not in gone]
    if not free:
        kinds = ", ".join(sorted({one.profile for one in parts.values()})) or "none"
        raise NodeError(
            f"all {len(of_it)} MIG devices of the profile {profile[:40]} are granted"
            if of_it
            else f"there is no MIG device of the profile {profile[:40]}; there are: {kinds}"
        )
    return free[0]
