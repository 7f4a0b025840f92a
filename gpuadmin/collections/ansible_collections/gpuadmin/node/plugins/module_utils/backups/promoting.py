"""A host of second copies becomes the one that serves homes: writable snapshots of the copies, where homes belong.

They are made under another name, which one rename ends. ``promoted.json`` says that this host serves: from then on it
takes no copies, and whoever sent them hears of it before he serves homes again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass

from gpuadmin.common.records.backups import BackupOrder, PromoteOrder
from gpuadmin.common.text import counted, name_unit

from .. import btrfs, mounts
from ..documents import parse_settings
from ..errors import NodeError, in_words
from ..fields import home_owner, quoted
from ..files import flocked, make_directory, read_bytes, sync_directory, sync_filesystem, write_atomic
from ..homes import directories
from ..paths import STATE
from ..run import run
from . import backup_set, copy_server, transfer

MAKING, PLACE = ".gpuadmin-promoting", "served"  # the second: in the directory of copies, mounted where homes belong
EXPORTS, UNITS = "/etc/exports.d/gpuadmin.exports", "/etc/systemd/system"
TAKEN, SECONDS = 9, 30.0  # what `homes-mine` ends with where another host serves the homes; for that question
_UNIT = """# Managed by gpuadmin. Homes are on the file system of the copies that they were made from.
[Mount]
What={}
Where={}
Options=bind
[Install]
WantedBy=local-fs.target
"""


@dataclass(frozen=True)
class Plan:
    """``mount``: what is mounted, and where, because the homes' place is on another file system. ``aside``: what homes
    that are there are called then."""

    operations: tuple[str, ...]
    mount: tuple[str, str] | None = None
    aside: str = ""


def look(order: PromoteOrder) -> Plan:
    """Decide what is to be done. Raises NodeError for what cannot be."""
    backup_set.check_directory(order.directory)
    _find_homes(order)
    made = read_bytes(copy_server.PROMOTED) == _record(order) and os.path.isdir(order.root)
    if made and not os.path.exists(EXPORTS):  # guard: homes that somebody may have written in are kept aside -> made
        return Plan(())
    own = {
        (order.mountpoint or "").rstrip("/"),
        *(one.point for one in mounts.parse_mountinfo(mounts.read_mountinfo())),
    }
    if order.root in own:  # guard: homes are not made where they could not get their name
        above = os.path.dirname(order.root)
        raise NodeError(
            f"{order.root} is a mount of its own, and homes of copies take its name by one rename: have the file "
            f"system mounted at {above} (homes.mountpoint)"
        )
    operations = [f"make {counted(len(order.homes), 'home')} in {order.root}: writable snapshots of the copies"]
    if _is_beside(order):
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        aside = f"{order.root}.before-{stamp}" if os.path.lexists(order.root) else ""
        return Plan((*operations, *([f"keep what is there as {aside}"] if aside else [])), None, aside)
    point, place = order.mountpoint or os.path.dirname(order.root), os.path.join(order.directory, PLACE)
    # guard: what is in the place of homes is not hidden by a mount
    if os.path.isdir(point) and os.listdir(point):
        raise NodeError(f"{point} is not on the file system of the copies, and holds something: move that away")
    return Plan((f"mount {place} at {point}", *operations), (place, point))


def _is_beside(order: PromoteOrder) -> bool:
    """Whether the place of the homes is on the file system of the copies, and that is mounted."""
    table = mounts.read_mountinfo()
    try:
        directories.check_root(order.root, order.mountpoint, table)
    except NodeError:
        return False
    found = [mounts.nearest(one, mounts.parse_mountinfo(table)) for one in (order.root, order.directory)]
    return len({one.source for one in found if one is not None}) == 1


def _find_homes(order: PromoteOrder) -> dict[str, str]:
    """Home → the subvolume of its copy. Raises NodeError."""
    sets = {label: backup_set.load(order.directory, label) for label in {*order.homes.values()}}
    found = {}
    for name, label in order.homes.items():
        copy = sets[label]
        if not home_owner(name) or copy is None or name not in copy.homes:
            raise NodeError(f"there is no home of {quoted(name)} in {label}")
        if btrfs.inspect(copy.home(name)) is None:
            raise NodeError(f"{copy.home(name)} is of an older gpuadmin: no subvolume, which could be served")
        found[name] = copy.home(name)
    return found


def _record(order: PromoteOrder) -> bytes:
    return json.dumps({"former": order.former, "homes": dict(order.homes)}).encode()


def execute(order: PromoteOrder) -> None:
    """Make the homes. It can be cut and run again; nothing of what was there is deleted."""
    with ExitStack() as stack, flocked(os.path.join(order.directory, copy_server.LOCK)), flocked(directories.LOCK):
        for one in {*order.homes.values()}:  # none of them is deleted meanwhile
            stack.enter_context(backup_set.reading(order.directory, one))
        plan = look(order)
        if not plan.operations:
            return
        if plan.mount is not None:
            _mount(*plan.mount)
        above = os.path.dirname(order.root)
        os.makedirs(above, mode=0o755, exist_ok=True)
        making = f"{order.root}{MAKING}"
        if btrfs.inspect(making) is not None:  # a run that was cut left it; nobody has ever seen it
            btrfs.delete([*(os.path.join(making, one) for one in btrfs.listing(making)), making])
        btrfs.create(making)
        os.chmod(making, 0o755)
        for name, copy in _find_homes(order).items():
            btrfs.snapshot(copy, os.path.join(making, name), read_only=False)
        sync_filesystem(making)
        if plan.aside:
            os.rename(order.root, plan.aside)
        os.rename(making, order.root)
        sync_directory(above)
        write_atomic(copy_server.PROMOTED, _record(order), mode=0o600)


def _mount(place: str, point: str) -> None:
    make_directory(place, 0o755)
    unit = f"{name_unit(point)}.mount"
    write_atomic(os.path.join(UNITS, unit), _UNIT.format(place, point).encode(), mode=0o644)
    for words in (("systemctl", "daemon-reload"), ("systemctl", "enable", "--now", unit)):
        run(words, what=f"{place} is not mounted at {point}")


def main(settings: str = f"{STATE}/backups.json") -> int:
    """`homes-mine`: whether nfs-server may start here. Only a clear word of the other host's keeps it from that."""
    taken = False  # guard: homes are served where nobody says that they are elsewhere -> True
    try:
        remote = transfer.connect(parse_settings(BackupOrder, json.loads(read_bytes(settings) or b""), settings).remote)
        taken = remote is not None and transfer.serves(remote, SECONDS)
    except (NodeError, OSError, ValueError) as error:
        print(f"not known whether another host serves the homes: {in_words(error)}", file=sys.stderr)
    if taken:
        print("another host serves the homes (gpuadmin promote): not here", file=sys.stderr)
    return TAKEN if taken else 0
