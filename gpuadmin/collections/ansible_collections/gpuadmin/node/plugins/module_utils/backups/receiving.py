"""Taking a set from another host: received where nothing else can be written, looked at, and then moved to its name.

A set arrives in ``DIRECTORY/.incoming/NAME``, which nobody takes for a backup, whatever is in it. The caller keeps two
from doing so at once.
"""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from dataclasses import replace

from .. import btrfs
from ..errors import NodeError
from ..files import make_directory, sync_directory, sync_filesystem, write_atomic
from ..run import run
from . import backup_set, confined, received
from .backup_set import Backup
from .pour import BOUNDS, Bounds, check_room, pour

INCOMING = ".incoming"


def place(directory: str, name: str) -> str:
    return os.path.join(directory, INCOMING, name)


def make_own(directory: str) -> None:
    """Make the directory of sets, on btrfs as a subvolume: what receives sees nothing of its file system but that."""
    backup_set.check_directory(directory)
    if os.path.isdir(directory):
        return
    above = os.path.dirname(directory)
    os.makedirs(above, exist_ok=True)
    if btrfs.subvolume(above) is not None:
        btrfs.create(directory)
        os.chmod(directory, 0o700)
    make_directory(directory, 0o700, os.geteuid(), os.getegid())


def _subvolumes(path: str) -> list[str]:
    """The subvolumes below a directory, parents first. The kernel's own list: no name in it is followed."""
    holder = btrfs.holder(path)
    inside = os.path.relpath(path, holder) + "/"
    return [one[len(inside) :] for one in btrfs.nested(holder) if one.startswith(inside)]


def clear(directory: str) -> None:
    """Delete all that arrived and became no set. What a hostile stream left there is deleted, not followed."""
    top = os.path.join(directory, INCOMING)
    if not os.path.lexists(top):
        return
    if btrfs.subvolume(directory) is not None:
        btrfs.delete([os.path.join(top, one) for one in reversed(_subvolumes(top))])
    run(("rm", "-rf", "--one-file-system", "--", top))
    sync_directory(directory)


def begin(directory: str, name: str) -> None:
    """An empty place for a set; what an interruption left of others goes."""
    received.check_time(name)
    make_own(directory)
    clear(directory)
    backup_set.tidy(directory, "")
    check_room(directory)
    path = place(directory, name)
    for where in (os.path.dirname(path), path, f"{path}/nested", f"{path}/manifest"):
        make_directory(where, 0o700, os.geteuid(), os.getegid())


def _check_frame(path: str) -> None:
    """What begin made is what is there: three directories of root's."""
    for where in (path, f"{path}/nested", f"{path}/manifest"):
        try:
            facts = os.lstat(where)
        except FileNotFoundError:
            raise NodeError(f"{os.path.basename(path)} was not begun") from None
        if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid() or facts.st_mode & 0o077:
            raise NodeError(f"{where} is not what was begun")


def receive(directory: str, name: str, part: str, expected: str, stdin: int, bounds: Bounds = BOUNDS) -> None:
    """Receive one snapshot from a stream. Raises NodeError, and then nothing of the set is there any more.

    ``expected``: the uuid that it must be a copy of. A read-only subvolume cannot be moved to another directory, so it
    is received where it stays; its set's directory moves.
    """
    path = place(directory, name)
    try:
        _check_frame(path)
        check_room(path, bounds)
        target, own = os.path.dirname(os.path.join(path, part)), os.path.basename(part)
        there = set(os.listdir(target))
        if own in there:
            raise NodeError(f"{part} is there already")
        _run(confined.View(btrfs.holder(directory), target), stdin, path, bounds)
        _check_frame(path)
        if set(os.listdir(target)) != there | {own}:
            raise NodeError(f"{part}: more or less arrived than what was to be sent")
        found = btrfs.inspect(os.path.join(path, part))
        if found is None or found.received_uuid != expected or not found.read_only:
            raise NodeError(f"{part}: what arrived is not what was sent")
        if list(btrfs.nested(os.path.join(path, part))):
            raise NodeError(f"{part}: there are subvolumes in what arrived")
    except BaseException:
        clear(directory)
        raise


def _run(view: confined.View, stdin: int, path: str, bounds: Bounds) -> None:
    """btrfs receive of a stream that may be anything."""
    with tempfile.TemporaryFile() as output:
        process = confined.start(view, ("btrfs", "receive", "--quiet", "-m", confined.TOP, view.inside), output)
        assert process.stdin is not None
        try:
            pour(stdin, process.stdin.fileno(), path, bounds=bounds)
            process.stdin.close()
            status = process.wait(bounds.idle)
        except subprocess.TimeoutExpired:
            raise NodeError("btrfs receive stood still") from None
        finally:
            process.kill()
            process.wait()
            process.stdin.close()
        output.seek(0)
        if status != 0:
            raise NodeError(output.read(4000).decode(errors="replace").strip()[-400:] or f"it ended with {status}")


def take_manifest(directory: str, name: str, home: str, stdin: int, bounds: Bounds = BOUNDS) -> None:
    """Take the manifest of a home: a new file, of so many bytes at most."""
    path = place(directory, name)
    _check_frame(path)
    target = os.path.join(path, "manifest", f"{home}.gz")
    handle = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        pour(stdin, handle, path, most=received.MANIFEST, bounds=bounds)
    finally:
        os.close(handle)
    received.check_lines(target)


def settle(directory: str, claimed: Backup, *, stamped: bool) -> Backup:
    """Make a set of what arrived: look at all of it, write backup.json, and move it to its name. No home is verified.

    ``stamped``: write down that it came now, by this host's clock. Raises NodeError, and then it is no set.
    """
    path = place(directory, claimed.name)
    _check_frame(path)
    parts = received.parts(claimed)
    expected = {"nested", "manifest", *(part for part in parts if "/" not in part)}
    if set(os.listdir(path)) != expected or sorted(_subvolumes(path)) != sorted(parts):
        raise NodeError(f"{claimed.name}: what arrived are not the snapshots that it lists")
    if set(os.listdir(f"{path}/nested")) != {os.path.basename(part) for part in parts if "/" in part}:
        raise NodeError(f"{claimed.name}: there is more among its snapshots than it lists")
    if set(os.listdir(f"{path}/manifest")) != {f"{one}.gz" for one in claimed.homes}:
        raise NodeError(f"{claimed.name}: its manifests are not those of its homes")
    received.check_contents(claimed, path)
    sync_filesystem(path)
    homes = {one: replace(home, verified=None) for one, home in claimed.homes.items()}
    if stamped:
        write_atomic(os.path.join(path, received.STAMP), received.stamp(), mode=0o600)
    backup_set.store(replace(claimed, path=path, homes=homes))
    final = os.path.join(directory, claimed.name)
    if os.path.lexists(final):
        raise NodeError(f"{final} is there already")
    os.rename(path, final)
    sync_directory(os.path.dirname(path))
    sync_directory(directory)
    return replace(claimed, path=final, homes=homes)
