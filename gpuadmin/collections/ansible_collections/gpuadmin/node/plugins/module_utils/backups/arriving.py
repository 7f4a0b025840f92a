"""Taking homes from another host, each by itself: a subvolume that is compared with its manifest, then part of its set.

``NAME/homes/USER`` is a home, ``NAME/homes/.USER.part`` one that is still arriving and counts for nothing. A set exists
from its first home on: it holds the homes that came whole, and backup.json names them.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from gpuadmin.common.records.people import Home

from .. import btrfs
from ..budget import unlimited
from ..errors import NodeError
from ..files import flocked, make_directory, sync_directory, sync_filesystem, unlink_if_present, write_atomic
from ..purge import purge
from . import backup_set, home_manifest, home_reader, received
from .applying import Applier, take_manifest
from .backup_set import Backup
from .copy_stream import BOUNDS, Bounds, check_room
from .copying import Copier
from .verifying import Limits
from .wire import Link

TICK = 10**9  # nanoseconds; more than the clock that files have their times from lags behind


def make_own(directory: str) -> None:
    """Make the directory of sets. Raises NodeError off btrfs."""
    backup_set.check_directory(directory)
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    make_directory(directory, 0o700, os.geteuid(), os.getegid())
    btrfs.holder(directory)


def begin(directory: str, claimed: Backup, bounds: Bounds = BOUNDS) -> dict[str, list[str]]:
    """Make a place for another host's set, and put into it the homes that are here already and have not changed.

    Returns ``there``: homes that the set had, ``kept``: those that it has from an earlier one. Raises NodeError.
    """
    check_room(directory, bounds)
    path = os.path.join(directory, claimed.name)
    found = backup_set.load(directory, claimed.name)
    if found is not None and found.created != claimed.created:  # guard: a set is not begun as another one
        raise NodeError(f"{claimed.name} is another set here, of {found.created}")
    if found is None:
        for where in (path, f"{path}/homes", f"{path}/manifest"):
            make_directory(where, 0o700, os.geteuid(), os.getegid(), sync=False)
        write_atomic(os.path.join(path, received.STAMP), received.stamp(), mode=0o600)
        found = replace(claimed, inside=".", homes={})
        backup_set.store(found, backup_set.UNFINISHED)
    there = [one for one, home in claimed.homes.items() if _same(found.homes.get(one), home)]
    return {"there": there, "kept": [] if btrfs.inspect(f"{path}/homes") else _keep(directory, claimed)}


def _same(here: Home | None, there: Home) -> bool:
    return here is not None and (here.uid, here.checksum) == (there.uid, there.checksum)


def _keep(directory: str, claimed: Backup) -> list[str]:
    """Keep homes that have not changed. While another connection brings one or reads one, all of them are sent."""
    try:
        with backup_set.reading(
            directory,
            claimed.name,
            alone=True,  # guard: nothing is kept while a home arrives
        ):
            found = backup_set.load(directory, claimed.name) or backup_set.unfinished(directory, claimed.name)
            kept = {} if found is None else _kept(directory, claimed, found)
            if kept:
                # guard: the manifest of a home that is kept is on disk before the set has the home
                sync_directory(os.path.join(directory, claimed.name, "manifest"))
                _record(directory, claimed.name, kept)
            return sorted(kept)
    except backup_set.InUse:
        return []


def _kept(directory: str, claimed: Backup, found: Backup) -> dict[str, Home]:
    """Homes that have not changed since they came: snapshots of what is here, and the same manifests."""
    kept: dict[str, Home] = {}
    for earlier in reversed(backup_set.complete(directory)):
        rest = [one for one in earlier.homes if one in claimed.homes and one not in found.homes and one not in kept]
        if not rest or (earlier.format == 1) != (claimed.format == 1):
            continue
        with backup_set.reading(directory, earlier.name):
            for user in rest:
                home = claimed.homes[user]
                if _same(earlier.homes[user], home) and btrfs.inspect(earlier.home(user)) is not None:
                    _clear(found.path, user)
                    btrfs.snapshot(earlier.home(user), os.path.join(found.path, "homes", user))
                    os.link(earlier.manifest(user), found.manifest(user))
                    kept[user] = replace(home, nested={}, verified=None)
    return kept


def _record(directory: str, name: str, homes: Mapping[str, Home], place: Callable[[], None] = lambda: None) -> None:
    """Add these homes to the set. The first of them makes it a set. ``place``: what is done right before."""
    with flocked(backup_set.RECORDS):
        place()  # guard: a manifest has its name when the set has the home, and not before
        found = backup_set.load(directory, name) or backup_set.unfinished(directory, name)
        if found is None:
            raise NodeError(f"{name} was deleted while homes of it arrived")
        backup_set.finish(replace(found, homes=dict(sorted({**found.homes, **homes}.items()))))


def _clear(path: str, user: str) -> None:
    """Delete what an interruption left of a home that is not in the set."""
    volumes = [os.path.join(path, "homes", one) for one in (user, f".{user}.part")]
    btrfs.delete([one for one in volumes if btrfs.inspect(one) is not None])
    unlink_if_present(os.path.join(path, "manifest", f"{user}.gz"))


def clear(directory: str) -> None:
    """Delete what interruptions left: homes that arrived in part and that no connection is filling."""
    for name in backup_set.names(directory):
        path = os.path.join(directory, name)
        homes = os.path.join(path, "homes")
        if btrfs.inspect(homes) is not None:
            continue
        for part in [one for one in btrfs.listing(homes) if one.startswith(".") and one.endswith(".part")]:
            try:
                with _alone(path, part[1 : -len(".part")]) as (_handle, manifest):
                    btrfs.delete([os.path.join(homes, part)])
                    os.unlink(manifest)
            except NodeError:
                continue


@contextmanager
def _alone(path: str, user: str) -> Iterator[tuple[int, str]]:
    """The file that a home's manifest arrives in, open and locked: one connection at a time brings a home."""
    manifest = os.path.join(path, "manifest", f".{user}.part")
    handle = os.open(manifest, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # guard: one connection brings a home
        except BlockingIOError:
            raise NodeError(f"{user}: another connection is bringing this home right now") from None
        if not os.path.lexists(manifest) or not os.path.samestat(os.lstat(manifest), os.fstat(handle)):
            raise NodeError(f"{user}: another connection has just brought this home")
        os.ftruncate(handle, 0)
        yield handle, manifest
    finally:
        os.close(handle)


def arrive(
    directory: str, name: str, user: str, parent: str | None, home: Home, link: Link, limits: Limits,
    bounds: Bounds = BOUNDS,
) -> Iterator[None]:  # fmt: skip
    """Take one home: its manifest, then its content, or how that differs from the home in the set ``parent``.

    Yields once, when everything has come and only the comparison is left. Raises NodeError; then the set is as it was.
    """
    with backup_set.reading(directory, name):
        found = backup_set.load(directory, name) or backup_set.unfinished(directory, name)
        path = os.path.join(directory, name)
        if found is None or btrfs.inspect(f"{path}/homes") is not None:
            raise NodeError(f"{name} was not begun here")
        with _alone(path, user) as (handle, manifest):
            _begin_anew(directory, name, user, manifest)
            part = os.path.join(path, "homes", f".{user}.part")
            try:
                take_manifest(link, handle, received.MANIFEST, bounds)
                untouched, earlier = _base(directory, parent, user, found, part, limits)
                _apply(part, link, limits, bounds)
                yield
                known = None if earlier is None else home_manifest.read(earlier)
                _compare(part, manifest, home, found.format, known, untouched, limits)
                _settle(part, os.path.join(path, "homes", user))
            except BaseException:
                _clear(path, user)  # guard: what does not arrive whole leaves nothing
                os.unlink(manifest)
                raise

            def place() -> None:
                os.rename(manifest, found.manifest(user))
                # guard: a manifest's name is on disk before the set has the home
                sync_directory(os.path.dirname(manifest))  # before the set says that it has it

            _record(
                directory,
                name,
                {
                    user: replace(
                        home,
                        nested={},
                        verified=None,  # guard: no home is verified by word of mouth
                    )
                },
                place,
            )


def _begin_anew(directory: str, name: str, user: str, manifest: str) -> None:
    """Clear what an interruption left of a home; what another connection has brought meanwhile does not count."""
    with flocked(backup_set.RECORDS):
        found = backup_set.load(directory, name)
        if found is None or user not in found.homes:  # guard: a home that is there is not changed -> True
            _clear(os.path.join(directory, name), user)
            return
    os.unlink(manifest)
    raise NodeError(f"{user} is in {name} already")


def _base(
    directory: str, parent: str | None, user: str, found: Backup, part: str, limits: Limits
) -> tuple[int | None, str | None]:
    """Make a home's subvolume: empty, or as the earlier one. Returns the time from which it changes, and that one's
    manifest."""
    if parent is None:
        btrfs.create(part)
        return None, None
    with backup_set.reading(directory, parent):
        earlier = backup_set.load(directory, parent)
        if earlier is None or user not in earlier.homes:
            raise NodeError(f"there is no home of {user} in {parent} here")
        if btrfs.inspect(earlier.home(user)) is not None:
            btrfs.snapshot(earlier.home(user), part, read_only=False)
            same = (earlier.format == 1) == (found.format == 1)
            return (time.time_ns() - TICK, earlier.manifest(user)) if same else (None, None)
        btrfs.create(part)
        _copy_old(earlier, user, part, limits)
    return None, None


def _copy_old(earlier: Backup, user: str, part: str, limits: Limits) -> None:
    """A home in a set of an older gpuadmin is a directory of one snapshot of all: it is copied, sharing its blocks."""
    top, nested = backup_set.source(earlier, user)
    source, there = btrfs.open_directory(top), btrfs.open_directory(part)
    try:
        with _links(there) as links:
            Copier(links, limits.budget()).fill(source, nested, there)
    finally:
        os.close(source)
        os.close(there)


_LINKS = b".gpuadmin-links-"


@contextmanager
def _links(top: int) -> Iterator[int]:
    """A directory in a home while it is being made. Files with several names wait there, on the same subvolume."""
    name = _LINKS + secrets.token_hex(16).encode()
    os.mkdir(name, 0o700, dir_fd=top)
    handle = btrfs.open_directory(name, top)
    try:
        yield handle
    finally:
        os.close(handle)
        purge(top, name, lambda entry: None)


def _apply(part: str, link: Link, limits: Limits, bounds: Bounds) -> None:
    top = btrfs.open_directory(part)
    try:
        with _links(top) as links:
            applier = Applier(top, links, link, limits.budget(), bounds=bounds)
            fields = applier.run()
        applier.finish(fields)
    finally:
        os.close(top)


def _compare(
    part: str, manifest: str, home: Home, form: int, known: Iterator[home_manifest.Line] | None, untouched: int | None,
    limits: Limits,
) -> None:  # fmt: skip
    """Check that what arrived equals its manifest, and that the manifest is the one its set names."""
    recorded = home_manifest.total(home_manifest.read(manifest, limits.budget()))
    # guard: its manifest is the one that was told of
    if any(getattr(home, what) != value for what, value in vars(recorded).items()):
        raise NodeError("its manifest is not the one that its set names")
    budget = limits.budget()
    found = home_reader.lines(part, earlier=known, budget=budget, form=form, untouched=untouched)
    if home_manifest.total(found).checksum != home.checksum:  # guard: what arrived is compared
        again = home_reader.lines(part, budget=limits.budget(), form=form)
        words = home_manifest.compare(home_manifest.read(manifest, unlimited()), again)
        raise NodeError(f"what arrived is not what was sent: {', '.join(words) or 'differs'}")


def _settle(part: str, final: str) -> None:
    """Make it read-only and on disk, under its name."""
    sync_filesystem(part)
    handle = btrfs.open_directory(part)
    try:
        btrfs.set_read_only(handle)
    finally:
        os.close(handle)
    os.rename(part, final)
    sync_directory(os.path.dirname(final))  # guard: a home's name is on disk before the set has the home
