"""A host of second copies becomes the one that serves homes: writable snapshots of the copies, where homes belong.

They are made under another name, which one rename ends. ``promoted.json`` says that this host serves: from then on it takes
no copies, and whoever sent them hears of it before he serves homes again.
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass

from gpuadmin.common.records.backups import BackupOrder, PromoteOrder
from gpuadmin.common.text import counted

from .. import btrfs, mounts
from ..documents import parse_settings
from ..errors import NodeError
from ..fields import home_owner, quoted
from ..files import flocked, make_directory, read_bytes, sync_filesystem, write_atomic
from ..homes import directories
from ..paths import STATE
from ..renaming import rename_new
from ..run import Runner, failure, run_command
from . import backup_set, copy_server, transfer

MAKING = ".gpuadmin-promoting"
PLACE = "served"  # in the directory of copies: what is mounted where homes belong
EXPORTS = "/etc/exports.d/gpuadmin.exports"
TAKEN = 9  # what `homes-mine` ends with where another host serves the homes
SECONDS = 30.0  # for that question, at boot
_UNIT = """# Managed by gpuadmin. Homes are on the file system of the copies that they were made from.
[Unit]
Before=nfs-server.service
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


def look(order: PromoteOrder, state: str = STATE, exports: str = EXPORTS) -> Plan:
    """Decide what is to be done. Raises NodeError for what cannot be."""
    backup_set.check_directory(order.directory)
    for name, label in order.homes.items():
        _find_home(order, name, label)
    made = read_bytes(os.path.join(state, copy_server.PROMOTED)) == _record(order) and os.path.isdir(order.root)
    if made and not os.path.exists(exports):  # guard: homes that somebody may have written in are kept aside -> made
        return Plan(())
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
    above = os.path.dirname(order.root)
    while not os.path.isdir(above):
        above = os.path.dirname(above)
    try:
        directories.check_root(order.root, order.mountpoint, mounts.read_mountinfo())
        handles = [btrfs.open_directory(one) for one in (above, order.directory)]
    except NodeError:
        return False
    found = [btrfs.read_file_system_uuid(one) for one in handles]
    for one in handles:
        os.close(one)
    return found[0] == found[1]


def _find_home(order: PromoteOrder, name: str, label: str) -> str:
    """The subvolume of a copy. Raises NodeError."""
    found = backup_set.load(order.directory, label)
    if not home_owner(name) or found is None or name not in found.homes:
        raise NodeError(f"there is no home of {quoted(name)} in {label}")
    if btrfs.inspect(found.home(name)) is None:
        raise NodeError(
            f"{found.home(name)} is of an older gpuadmin, no subvolume: it must be restored by restore-home"
        )
    return found.home(name)


def _record(order: PromoteOrder) -> bytes:
    return json.dumps({"former": order.former, "homes": dict(order.homes)}).encode()


def execute(
    order: PromoteOrder, state: str = STATE, exports: str = EXPORTS, units: str = "/etc/systemd/system",
    command: Runner = run_command, lock: str = directories.LOCK,
) -> object:  # fmt: skip
    """Make the homes. It can be cut and run again; nothing of what was there is deleted."""
    with flocked(os.path.join(order.directory, copy_server.LOCK)), flocked(lock):
        plan = look(order, state, exports)
        if not plan.operations:
            return None
        if plan.mount is not None:
            _mount(*plan.mount, command, units)
        above, name = os.path.split(order.root)
        os.makedirs(above, mode=0o755, exist_ok=True)
        making = f"{order.root}{MAKING}"
        if btrfs.inspect(making) is not None:  # a run that was cut left it; nobody has ever seen it
            btrfs.delete([*(os.path.join(making, one) for one in btrfs.listing(making)), making])
        btrfs.create(making)
        os.chmod(making, 0o755)
        for user, label in order.homes.items():
            with backup_set.reading(order.directory, label):
                btrfs.snapshot(_find_home(order, user, label), os.path.join(making, user), read_only=False)
        sync_filesystem(making)
        at = btrfs.open_directory(above)
        try:
            if plan.aside:
                rename_new(name, at, os.path.basename(plan.aside), at)
            rename_new(os.path.basename(making), at, name, at)
            os.fsync(at)
        finally:
            os.close(at)
        write_atomic(os.path.join(state, copy_server.PROMOTED), _record(order), mode=0o600)
    return None


def _mount(place: str, point: str, command: Runner, units: str) -> None:
    make_directory(place, 0o755)
    unit = point.strip("/").replace("-", "\\x2d").replace("/", "-") + ".mount"  # systemd-escape --path
    write_atomic(os.path.join(units, unit), _UNIT.format(place, point).encode(), mode=0o644)
    for words in (("systemctl", "daemon-reload"), ("systemctl", "enable", "--now", unit)):
        done = command(words)
        if done.returncode != 0:
            raise failure(words, done, f"{place} is not mounted at {point}")


def main(settings: str = f"{STATE}/backups.json") -> int:
    """`homes-mine`: whether nfs-server may start here. Only a clear word of the other host's keeps it from that."""
    taken = False  # guard: homes are served where nobody says that they are elsewhere -> True
    try:
        remote = transfer.connect(parse_settings(BackupOrder, json.loads(read_bytes(settings) or b""), settings).remote)
        taken = remote is not None and transfer.serves(remote, SECONDS)
    except (NodeError, OSError, ValueError) as error:
        print(f"not known whether another host serves the homes: {error}", file=sys.stderr)
    if taken:
        print("another host serves the homes (gpuadmin promote): not here", file=sys.stderr)
    return TAKEN if taken else 0
