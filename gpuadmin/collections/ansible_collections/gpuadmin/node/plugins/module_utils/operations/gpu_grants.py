"""gpuadmin.node.gpu_grants: who was granted which GPU of a host; one is added, some end, and the gate follows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from ..answer import Answer
from ..errors import NodeError
from ..files import flocked
from ..gpus import device_files, grants, reconcile
from ..gpus.grants import Grant


@dataclass(frozen=True)
class Wanted:
    """A grant as an admin asks for it. ``number``: so many GPUs that nobody has; or ``gpus``, by name or place."""

    id: str
    user: str
    uid: int
    until: int
    who: str
    number: int = 0
    gpus: Sequence[str] = ()
    reason: str = ""


@dataclass(frozen=True)
class Document:
    """Grant GPUs to somebody, or end grants, and open or close them at once.

    Without either it only says what is granted.
    """

    #: The grant to add. One of this id that is there is left as it is.
    grant: Wanted | None = None
    #: Ids of the grants to end. One that is not there has ended.
    end: Sequence[str] = ()


def operate(document: Document, check: bool, places: reconcile.Places | None = None) -> Answer:
    where = places or reconcile.Places()
    now = time.time()
    with flocked(reconcile.lock_path(where)):
        found, problems = grants.read(where.state)
        settings = reconcile.settings_of(where)
        there = device_files.gpus(settings, where.root)
        ending = [one for one in found if one.id in document.end]
        done = [f"end the grant {one.id} of {one.user}" for one in ending]
        new = None
        if document.grant is not None and all(one.id != document.grant.id for one in found):
            # guard: a grant where the gate is open would promise what nobody keeps
            if settings.access != "granted":
                raise NodeError(
                    "GPUs of this host are open to everybody: `gpus.access: granted` is not set, or not provisioned"
                )
            new = _grant(document.grant, list(there), [one for one in found if one not in ending], now)
            until = time.strftime("%Y-%m-%d %H:%M", time.localtime(new.until))
            done.append(f"grant {', '.join(new.gpus)} to {new.user} until {until}")
        if done and not check:
            grants.delete([one.id for one in ending], where.state)
            if new is not None:
                grants.write(new, where.state)
            outcome = reconcile.under_lock(where, now)
            found, problems = outcome.grants, outcome.problems
        elif new is not None:
            found = [*(one for one in found if one not in ending), new]
    report = {
        "access": settings.access,
        "gpus": list(there),
        "grants": [asdict(one) for one in found if one.holds(now)],
    }
    return Answer(done, {"grants": report, "problems": problems}, problems if not check else ())


def _grant(wanted: Wanted, there: list[str], others: list[Grant], now: float) -> Grant:
    # a place (0, 1, …) is what people see in nvidia-smi
    named = [
        there[int(one)] if one.isdecimal() and int(one) < len(there) and one not in there else one
        for one in wanted.gpus
    ]
    gpus = grants.choose(named or wanted.number, there, others, now)
    return grants.checked(
        Grant(wanted.id, wanted.user, wanted.uid, gpus, int(now), wanted.until, wanted.who, wanted.reason)
    )
