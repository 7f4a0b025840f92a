"""gpuadmin.node.slurm_accounts: who may ask Slurm for GPUs, how many, and with which share."""

from __future__ import annotations

import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuadmin.common.records.queue import Group

from ..answer import Answer
from ..documents import entries
from ..errors import NodeError
from ..run import run
from ..slurm import accounts, booking, queue
from ..slurm.accounts import ASK_PEOPLE, ASK_QOS
from ..slurm.booking import Reservation

ROLE = "slurm_controller"
#: Seconds for slurmctld to register the cluster with slurmdbd, once both have started.
REGISTERED = 90
_CLUSTER = ("sacctmgr", "-nP", "show", "cluster", "format=cluster,controlhost")


@dataclass(frozen=True)
class Document:
    """Bring Slurm's accounts to people and groups.

    Accounts that are not mentioned are kept. Whoever is locked, over or removed may submit nothing, and what of theirs
    runs or waits is cancelled; what they have used stays known.
    """

    #: People, as the operation ``accounts`` takes them.
    users: Any = "[]"
    #: People who have left.
    absent: Any = "[]"
    #: The groups; one is called ``people`` and has everybody who is not in another.
    groups: Sequence[Group] = ()


def operate(document: Document, check: bool) -> Answer:
    users, absent = entries("users", document.users), entries("absent", document.absent)
    people = accounts.people_of(users, absent, document.groups, int(time.time() // 86400))
    if shutil.which("sacctmgr") is None:
        if not check:
            raise NodeError("Slurm is not set up on this host yet: gpuadmin provision; it brings these people along")
        there = accounts.Seen()
    else:
        _wait()
        there = accounts.seen(run(ASK_PEOPLE), run(ASK_QOS), _bookings())
    found = accounts.commands(document.groups, people, there)
    problems = []
    for command in [] if check else found:
        try:
            run(command)
        except NodeError as error:  # guard: what Slurm refuses of one keeps nobody else from their account
            problems.append(str(error))
    if problems:
        raise NodeError("; ".join(problems))
    return Answer([_words(one) for one in found])


def _bookings() -> Sequence[Reservation]:
    """Those that have not begun. Where slurmctld does not say, nobody is kept from being locked."""
    try:
        queue.alive()
        return [one for one in booking.reservations() if one.begin > time.time()]
    except NodeError:
        return ()


def _words(command: Sequence[str]) -> str:
    return f"Slurm: {' '.join(one for one in command if one != '-i')}"


def _wait() -> None:
    """Nobody can be added before that: sacctmgr says "Nothing added"."""
    end = time.monotonic() + REGISTERED
    while True:
        try:
            if any(line.partition("|")[2] for line in run(_CLUSTER).splitlines()):
                return
            why = "slurmctld has not registered"
        except NodeError as error:
            why = str(error)
        if time.monotonic() > end:
            raise NodeError(f"Slurm's accounting does not answer: {why}")
        time.sleep(1)  # between two questions
