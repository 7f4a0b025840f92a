"""Restoring all homes that are not there: each by itself, by the code that restores one."""

from __future__ import annotations

import os

from gpuadmin.common.records.backups import RestoreAllOrder, RestoreOrder

from .. import btrfs, mounts
from ..errors import NodeError, in_words
from ..fields import home_owner, quoted
from ..homes import creating
from . import restore


def bring_back(order: RestoreAllOrder, *, check: bool) -> dict[str, str]:
    """Restore them, and return of each person why their home is not restored; empty where it is."""
    found, table = {}, mounts.read_mountinfo()
    for name, backup in order.homes.items():
        one = RestoreOrder(
            order.root, order.directory, name, backup, order.mountpoint, "in-place", uid=order.uids.get(name),
            subids=order.subids, remote=order.remote,
        )  # fmt: skip
        try:
            _refuse_used(order, one)
            restore.look(one, table) if check else restore.execute(one)
        except (NodeError, OSError) as error:
            found[name] = in_words(error)
        else:
            found[name] = ""
    return found


def _refuse_used(order: RestoreAllOrder, one: RestoreOrder) -> None:
    """Raise NodeError for a home that has more in it than a new one, and for one that was restored already."""
    if home_owner(one.user) != one.user:  # guard: homes are restored to where people have theirs
        raise NodeError(f"{quoted(one.user)} is not the name of a home")
    home, uid = os.path.join(order.root, one.user), one.uid
    if os.path.lexists(f"{home}.before-{one.backup.partition('-')[0]}"):
        raise NodeError("it was restored from this backup already")
    try:
        handle = btrfs.open_directory(home)
    except FileNotFoundError:
        return
    try:
        # guard: a restore leaves a home that somebody has used
        if not creating.is_untouched(handle, order.skeleton, os.fstat(handle).st_uid if uid is None else uid):
            raise NodeError("there is a home that somebody has used")
    finally:
        os.close(handle)
