"""Homes held to amounts by the kernel: where their disk is ext4 or xfs and has user quotas on.

Who turns quotas on is the admin: a mount option, or tune2fs on a disk that is not mounted. On btrfs homes are
directories of one subvolume, and people are told.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from gpuadmin.common.text import size_words

from ..errors import NodeError, in_words
from ..fields import FIRST_HUMAN_UID, valid_name
from ..files import flocked
from ..homes.directories import check_root
from ..limits import records
from ..limits.amounts import HOME, Amounts, Used, load
from ..limits.room import Kept, Places
from ..lookup import Lookup, system_lookup
from ..mounts import nearest, parse_mountinfo, read_mountinfo
from ..user_quotas import KINDS, UserQuotas, rounded

RECORD = "home-quotas.json"
_ON = {
    "ext4": "mount it with usrquota",
    "xfs": "mount it with uquota",
}


@dataclass(frozen=True)
class Own:
    """A limit that gpuadmin set, in bytes."""

    name: str
    uid: int
    most: int


@dataclass(frozen=True)
class Set:
    """What home-quotas.json has. ``device``: of the file system."""

    device: str
    own: Sequence[Own] = ()


@dataclass(frozen=True)
class Host:
    """What is asked of the host; tests have another."""

    mountinfo: Callable[[], str] = read_mountinfo
    quotas: Callable[[str], UserQuotas] = UserQuotas
    lookup: Lookup = system_lookup


def hold(places: Places, wanted: Amounts | None = None, *, check: bool = False, host: Host | None = None) -> Kept:
    """Have the kernel hold each home to its amount, and take back what was set here for those who have none now.

    ``wanted``: None for what is remembered. A limit that somebody else set, for a person without an amount, stays.
    """
    kept, record = Kept(), os.path.join(places.state, RECORD)
    wanted = load(places.state) if wanted is None else wanted
    if not os.path.exists(record) and (wanted is None or not wanted.bounds(HOME)):
        return kept
    try:
        # another than holding's: that one waits for Docker's data
        # guard: homes are held to amounts by one at a time
        with nullcontext() if check else flocked(os.path.join(places.run, "locks", "home-quotas")):
            _hold(record, wanted or Amounts(), kept, check, host or Host())
    except (NodeError, OSError) as error:
        kept.problems.append(f"no home is held to an amount: {in_words(error)}")
    return kept


def _hold(record: str, wanted: Amounts, kept: Kept, check: bool, host: Host) -> None:
    before = records.load(Set, record)
    device = _device(wanted, kept, host)
    own = [] if device is None else _wanted(wanted, kept, host)
    if before is not None:
        # guard: limits on a disk that the homes have left are taken back -> {one.uid for one in own}
        stays = {one.uid for one in own} if before.device == device else set()
        _take_back(before, stays, kept, host, check)
    if device is None:
        if not check:
            records.record(record, None)
        return
    if not check:
        # before the limits themselves: what is set and not recorded would stay for ever
        records.record(record, Set(device, own))
    quotas = host.quotas(device)
    for one in own:
        try:
            _bring(one, quotas, kept, check)
        except OSError as error:  # guard: a home's limit that fails keeps nobody else from theirs
            kept.problems.append(f"{wanted.homes}/{one.name}: the amount is not in force: {in_words(error)}")


def used(state: str, host: Host | None = None) -> dict[str, Used]:
    """What people have of homes that the kernel holds to an amount, as it counts now. Raises NodeError, OSError."""
    found = records.load(Set, os.path.join(state, RECORD))
    if found is None:
        return {}
    quotas = (host or Host()).quotas(found.device)
    result = {}
    for one in found.own:
        now = quotas.of(one.uid)
        if now.most is not None:
            result[one.name] = Used(now.used, now.most, held=True, when=time.time())
    return result


def _device(wanted: Amounts, kept: Kept, host: Host) -> str | None:
    """What the homes' file system is on, where the kernel can hold homes to amounts; None: people are told."""
    if wanted.homes is None or not wanted.bounds(HOME):
        return None
    table = host.mountinfo()
    # guard: no limits are set on the disk below while that of the homes is not mounted
    if not check_root(wanted.homes, wanted.mountpoint, table):
        return None
    mount = nearest(os.path.realpath(wanted.homes), parse_mountinfo(table))
    told = f"{wanted.homes}: people are told their amounts, and nothing enforces them"
    if mount is None or mount.fstype not in KINDS:
        kept.notes.append(told)
        return None
    if not host.quotas(mount.source).enforced():
        kept.notes.append(f"{told}: user quotas of {mount.point} are off ({_ON[mount.fstype]})")
        return None
    return mount.source


def _wanted(wanted: Amounts, kept: Kept, host: Host) -> list[Own]:
    """Who is to have which limit: people who have a home and an account here."""
    assert wanted.homes is not None
    found: dict[int, Own] = {}
    twice = set()
    for name in sorted(os.listdir(wanted.homes)):
        most = wanted.most(HOME, name) if valid_name(name) else None
        account = None if most is None else host.lookup(name)
        # guard: root, daemons and those who have no account get no limit
        if most is None or account is None or account[0] < FIRST_HUMAN_UID:
            continue
        if account[0] in found:
            twice.add(account[0])
            names = f"{found[account[0]].name} and {name}"
            kept.problems.append(f"{wanted.homes}: {names} have one uid, {account[0]}: neither is held to an amount")
        found[account[0]] = Own(name, account[0], most)
    return [one for uid, one in found.items() if uid not in twice]


def _take_back(before: Set, stays: set[int], kept: Kept, host: Host, check: bool) -> None:
    """Let those whom we limited have as much as there is; not where somebody has changed our limit."""
    quotas = host.quotas(before.device)
    for one in before.own:
        if one.uid in stays:
            continue
        try:
            now = quotas.of(one.uid).most
            if now is None or now != rounded(one.most):  # guard: a limit that an admin set since stays
                continue
            kept.done.append(f"{one.name}: no amount of the homes' disk any more")
            if not check:
                quotas.limit(one.uid, None)
        except OSError as error:
            kept.notes.append(f"{one.name}: {size_words(one.most)} could not be taken back: {in_words(error)}")


def _bring(one: Own, quotas: UserQuotas, kept: Kept, check: bool) -> None:
    now = quotas.of(one.uid)
    if now.most == rounded(one.most):
        return
    over = f"; {size_words(now.used)} are there: {one.name} can write nothing until it is less" * (now.used > one.most)
    kept.done.append(f"{one.name} may have {size_words(one.most)} of the homes' disk{over}")
    if check:
        return
    quotas.limit(one.uid, one.most)
    if quotas.of(one.uid).most != rounded(one.most):  # guard: a home's limit that the kernel does not have is told
        kept.problems.append(f"{one.name}: the amount of {size_words(one.most)} is not in force")
