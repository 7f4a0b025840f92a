"""What has to hold before a switch: refused in words that say what to do, before anything is touched."""

from __future__ import annotations

import platform
import time

from gpuadmin.common.records.images import ImageSettings
from gpuadmin.common.text import size_words

from .. import btrfs
from ..accounts.desired import load as load_accounts
from ..errors import NodeError
from ..run import run
from . import grubenv, identity, subvolumes
from .manifest import Manifest, Stream, choose_stream
from .places import Places, boot_id
from .records import held_images, journal
from .root_facts import free_bytes, os_release, send_version

CLOCK_SLACK = 600.0  # seconds that the node's clock may be behind the one that built the image
SPARE = 512 << 20  # bytes that stay free


def preflight(places: Places, settings: ImageSettings) -> None:
    """Refuse a node that cannot be switched in its state. Raises NodeError."""
    running = subvolumes.running_root(places)
    there = btrfs.inspect(places.in_top(running.path.lstrip("/")))
    if (
        not running.name
        or there is None
        or there.id != running.id  # guard: the running root is one of roots/, by its id
    ):
        raise NodeError(
            f"the running root ({running.path}) is not one of roots/ on this disk: run gpuadmin prepare-root"
        )
    last, environment = journal(places), grubenv.read(places.boot)
    if last.get("stage") == "pending":
        # guard: a switch that waits for its reboot is not pushed over
        if last.get("boot_id") == boot_id(places) and environment.get("trial") == last.get("root"):
            raise NodeError(
                f"a switch to {last.get('root')} waits for this node's reboot; reboot it, or: gpuadmin rollback-image"
            )
        if running.name == last.get("root"):  # guard: a trial that is going on is not pushed over
            raise NodeError(
                f"the trial of {last.get('root')} is still going on; wait until it is confirmed or has failed"
            )
    current = environment.get("current", "")
    if current != running.name:  # guard: a root that is not confirmed is not pushed over
        raise NodeError(f"{running.name} runs and {current} is confirmed: reboot this node first")
    _check_disk(places)
    _check_people(places, settings)


def _check_disk(places: Places) -> None:
    errors = run(("btrfs", "device", "stats", places.top))
    bad = [line for line in errors.splitlines() if not line.endswith(" 0")]
    if bad:  # guard: a disk with errors gets no image
        raise NodeError(
            f"this node's disk has errors ({'; '.join(' '.join(line.split()) for line in bad)}); deal with that first"
        )


def _check_people(places: Places, settings: ImageSettings) -> None:
    """A new root gets the accounts that gpuadmin knows. One that was made by hand would be lost."""
    known = load_accounts(places.state)
    there = identity.people(places.root, settings.uid_first, settings.uid_last)
    gone = {name for name, _uid in known.removed}
    lost = sorted(name for name in there if name not in known.records and name not in gone)
    if lost:  # guard: accounts that gpuadmin does not know are not lost
        raise NodeError(
            f"{', '.join(lost)} on this node: gpuadmin does not know these accounts, and a new root would not have "
            "them. Register them (gpuadmin add-user NAME --uid UID) or delete them, then run again"
        )


def preflight_image(places: Places, manifest: Manifest, *, full: bool) -> Stream | None:
    """Refuse an image that this node cannot use; return the stream to receive, None if the image is here already."""
    if time.time() < manifest.created - CLOCK_SLACK:  # guard: a node's clock is right
        now = time.strftime("%Y-%m-%d %H:%M", time.gmtime())
        raise NodeError(
            f"this node's clock is wrong: it says {now} UTC, before {manifest.name} was built. Set it, then run again"
        )
    release = os_release(places.root)
    if release.get("ID", "") != manifest.distribution:  # guard: an image is of the node's distribution
        raise NodeError(
            f"{manifest.name} is an image of {manifest.distribution}, this node runs {release.get('ID')}; "
            "it is not used"
        )
    if platform.machine() != manifest.machine:  # guard: an image is for the node's machine
        raise NodeError(
            f"{manifest.name} is for {manifest.machine} machines, this node is {platform.machine()}; it is not used"
        )
    held = held_images(places)
    if held.get(manifest.name) == manifest.uuid:
        return None
    stream = choose_stream(manifest, held, full=full, protocol=send_version())
    _check_space(places, manifest, stream)
    return stream


def _check_space(places: Places, manifest: Manifest, stream: Stream) -> None:
    need = stream.bytes + stream.stream_bytes + SPARE
    free = free_bytes(places.top)
    if free["data"] < need:  # guard: there is room for an image's data
        raise NodeError(
            f"{manifest.name} needs {size_words(need)} on this node's disk, {size_words(free['data'])} are free; "
            "make room in /local, or gpuadmin prune-images"
        )
    # metadata of a root is some 4 % of its data; 64 MiB are always kept by the kernel itself
    if free["metadata"] < stream.stream_bytes // 20 + (64 << 20):  # guard: there is room for an image's metadata
        raise NodeError(
            f"only {size_words(free['metadata'])} are left for metadata on this node's disk, {manifest.name} needs "
            "more: btrfs balance start -dusage=20 / gives room back"
        )
