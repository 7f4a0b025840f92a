"""Operations on what people's files take: as it was measured, and how much each may have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from gpuadmin.common.amounts import UNLIMITED
from gpuadmin.common.records.homes import SharedDirectory

from ..answer import Answer
from ..errors import NodeError, in_words
from ..limits import place_amounts
from ..limits.amounts import OF_DOCKER, Amounts, OwnAmounts
from ..limits.room import Places
from ..operation import operation
from ..paths import STATE
from . import amount_notices, command, home_quotas, shared_amounts
from .records import in_state


@dataclass(frozen=True)
class UsageOrder:
    """What people's files take on a host's disks, as it was measured last.

    Reads what ``gpuadmin-disk-usage.service`` measured; nothing is walked for it.
    It changes nothing.
    """

    #: Only these people; empty for everybody.
    names: Sequence[str] = ()
    #: Directory of this node's own state.
    state_directory: str = STATE


@operation("disk_usage", UsageOrder, looks=True)
def report_usage(document: UsageOrder, check: bool) -> Answer:
    state = document.state_directory
    return Answer(report={"disk": command.report(state, in_state(state), document.names)})


@dataclass(frozen=True)
class DiskAmounts:
    """Give each person an amount of the homes' disk, and of a node's disk for Docker's data and scratch.

    The kernel holds to it: Docker's data and scratch on btrfs, in places that are subvolumes, and homes on ext4 or xfs
    with user quotas. For other homes and Docker's data people are told what was measured. It looks every minute for
    who has come, with ``keep-room``.
    """

    #: What a home may have: a size of disks (``500G`` is 500 GB), or ``unlimited``.
    home: str
    #: What somebody's Docker data may have on this host.
    docker: str
    #: Amounts of certain people; the later ones win.
    amounts_people: Sequence[OwnAmounts] = ()
    #: The directory of homes, on the storage host.
    amounts_homes: Optional[str] = None
    #: Where the disk of the homes is mounted. Without it their directory must be on no root file system.
    amounts_mountpoint: Optional[str] = None
    #: The directory of everybody's Docker data, on a node.
    amounts_data: Optional[str] = None
    #: What somebody's scratch may have on this host.
    scratch: str = UNLIMITED
    #: The directories of scratch in which each person has one, on a node.
    amounts_scratch: Sequence[str] = ()
    #: The account that no amount concerns.
    admin: Optional[str] = None
    #: What several people share, on the storage host.
    amounts_shared: Sequence[SharedDirectory] = ()


@operation("disk_amounts", DiskAmounts, role="limits")
def hold_amounts(document: DiskAmounts, check: bool, places: Places | None = None, warnings: str = OF_DOCKER) -> Answer:
    where = places or Places()
    amounts = Amounts(
        document.home, document.docker, document.amounts_people, document.amounts_homes, document.amounts_mountpoint,
        document.amounts_data, document.admin, document.scratch, document.amounts_scratch,
    )  # fmt: skip
    held = place_amounts.hold(where, amounts, check=check)
    homes = home_quotas.hold(where, amounts, check=check)
    for more in (homes, shared_amounts.hold(document.amounts_shared, check=check)):
        held.done += more.done
        held.notes += more.notes
        held.problems += more.problems
    measured = command.known(where.state, in_state(where.state)) if document.amounts_homes else {}
    if held.done and document.amounts_homes:
        found = amount_notices.homes(amounts, measured, where.state)
        held.done += [f"{document.amounts_homes}: {one}" for one in amount_notices.over(found)]
    if not check:
        try:
            amount_notices.tell_homes(amounts, measured, where.state)
            amount_notices.tell_node(amounts, warnings, where.state)
        except (NodeError, OSError) as error:
            held.problems.append(f"people are not told what they have: {in_words(error)}")
    return Answer(held.done, {"problems": held.notes}, held.problems)
