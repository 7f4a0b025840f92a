"""From a root to an image in the store: sealed, sent as streams, its signed manifest written last."""

from __future__ import annotations

import hashlib
import os
import platform
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO

from gpuadmin.common.records.images import ImageSettings

from .. import btrfs
from ..errors import NodeError, in_words
from ..files import read_bytes, sync_directory, write_atomic
from ..root import guard
from ..run import run
from . import identity, subvolumes
from .manifest import load, package_changes, parse, render, verify
from .places import FORMAT, Places, check_name
from .records import journal
from .root_facts import check_boots, check_driver, kernel_version, os_release, packages
from .stream import Progress, clean


def seal(places: Places, settings: ImageSettings, name: str, *, tried: bool = True) -> str:
    """Make the image from the root of its name: nothing of this node in it, read-only, durable. Returns its uuid."""
    final, writable = places.in_top("images", name), places.in_top("incoming", name)
    there = btrfs.inspect(final)
    if there is not None and there.read_only:
        return there.received_uuid or there.uuid
    root = places.in_top("roots", name)
    found, last = btrfs.inspect(root), journal(places)
    if found is None:
        raise NodeError(f"there is no root {name} on this node to make an image from")
    # guard: an image was booted by its golden node
    if tried and (found.id != subvolumes.running_root(places).id or last.get("stage") != "confirmed"):
        raise NodeError(
            f"this node does not run {name}, confirmed; an image that its golden node has not booted is not built"
        )
    clean(places)
    btrfs.snapshot(root, writable, read_only=False)
    identity.strip(writable, settings.uid_first, settings.uid_last, settings.identity)
    left = identity.leftovers(writable, settings.uid_first, settings.uid_last, settings.identity)
    if left:  # guard: an image holds nothing of the golden node
        raise NodeError(f"{name} is not sealed: {'; '.join(left[:6])}")
    check_boots(writable, name)
    check_driver(writable, name, settings.gpus)  # guard: an image on which GPUs would not work is not sealed
    guard.sync(places.top)
    # a read-only subvolume cannot move to another directory, but a snapshot can be made there, in one transaction
    btrfs.snapshot(writable, final)
    guard.sync(places.top)
    subvolumes.delete(writable, places)
    sealed = btrfs.inspect(final)
    assert sealed is not None
    return sealed.uuid


def send(
    places: Places,
    settings: ImageSettings,
    name: str,
    parents: Sequence[str],
    *,
    full: bool,
    who: str,
    progress: Progress,
    protocol: int = 1,
) -> str:
    """Send an image to the store, against each parent and in full if wanted; return the manifest's text, to be signed.

    ``protocol``: the version of the stream, one that every node that is to receive it knows.
    A stream is written as .part, fsynced and renamed. Nothing of it counts before a signed manifest names it.
    """
    image = places.in_top("images", name)
    found = btrfs.inspect(image)
    if found is None or not found.read_only:
        raise NodeError(f"there is no image {name} on this node")
    directory = os.path.join(places.store, name)
    os.makedirs(directory, mode=0o700, exist_ok=True)
    # it is signed again, with what is added: what somebody changed in the store would be signed with it
    complete = os.path.lexists(os.path.join(directory, "manifest.json"))
    old = (
        load(
            directory,
            settings.signers,  # guard: a manifest is verified before it is signed again -> None
        ).raw
        if complete
        else None
    )
    # guard: a name in the store is one image
    if old is not None and old.get("uuid") != (found.received_uuid or found.uuid):
        raise NodeError(f"the store has another image {name}; choose another name")
    streams: dict[str, Mapping[str, object]] = {}
    for item in (old or {}).get("streams") or []:
        streams[str(item["file"])] = item
    wanted: list[str | None] = [*parents, *([None] if full else [])]
    for parent in wanted:
        file = "full.btrfs.zst" if parent is None else f"from-{check_name(parent)}.btrfs.zst"
        if file not in streams:
            streams[file] = _send(places, image, parent, os.path.join(directory, file), progress, protocol)
    if not streams:
        raise NodeError(f"{name} has no parent, and no full stream is wanted")
    parent = parents[0] if parents else None
    before, list_now = packages(places.in_top("images", parent)) if parent else {}, packages(image)
    release = os_release(image)
    return render(
        (old and {**old, "streams": [streams[file] for file in sorted(streams)]})
        or {
            "format": FORMAT, "name": name, "uuid": found.received_uuid or found.uuid,
            "parent": _read_image_identity(places, parent), "created": round(time.time()), "by": who,
            "distribution": release.get("ID", ""), "version": release.get("VERSION_ID", ""),
            "machine": platform.machine(), "kernel": kernel_version(image), "size": _size(image), "packages": list_now,
            "changes": package_changes(before, list_now) if parent else {"added": {}, "removed": {}, "changed": {}},
            "streams": [streams[file] for file in sorted(streams)],
        }
    ).decode()  # fmt: skip


def _read_image_identity(places: Places, parent: str | None) -> dict[str, str] | None:
    if parent is None:
        return None
    found = btrfs.inspect(places.in_top("images", parent))
    if found is None:
        raise NodeError(f"there is no image {parent} on this node to send the difference to")
    return {"name": parent, "uuid": found.received_uuid or found.uuid}


def _size(image: str) -> int:
    columns = run(("du", "--summarize", "--one-file-system", "--block-size=1", image)).split()
    return int(columns[0])


def _send(
    places: Places, image: str, parent: str | None, target: str, progress: Progress, protocol: int = 1
) -> dict[str, object]:
    """btrfs send | zstd, counted and hashed on its way. Both must end with 0: zstd alone proves nothing."""
    command: tuple[str, ...] = ("btrfs", "-q", "send")
    if protocol > 1:
        # what is compressed on this disk goes as it is, and is not compressed again by whoever receives it
        command += ("--proto", str(protocol), "--compressed-data")
    identity_of_parent = _read_image_identity(places, parent)
    if parent is not None:
        command += ("-p", places.in_top("images", parent))
    progress(f"sending {os.path.basename(image)} {'in full' if parent is None else f'as its difference to {parent}'}")
    part = f"{target}.part"
    counted: list[int] = [0]
    total, size = hashlib.sha256(), 0
    sender = subprocess.Popen((*command, image), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    packer = subprocess.Popen(("zstd", "-q", "-3", "-T0", "-c"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert sender.stdout is not None
    assert sender.stderr is not None
    assert packer.stdin is not None
    assert packer.stdout is not None
    pump = threading.Thread(target=_pump, args=(sender.stdout, packer.stdin, counted), daemon=True)
    pump.start()
    try:
        with open(part, "wb") as stream:
            while True:
                block = packer.stdout.read(1 << 20)
                if not block:
                    break
                total.update(block)
                stream.write(block)
                size += len(block)
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        sender.kill()
        packer.kill()
        raise NodeError(f"the image store does not take {os.path.basename(image)}: {in_words(error)}") from error
    noise = sender.stderr.read().decode("utf-8", "replace").strip()
    pump.join()
    if (
        sender.wait() != 0  # guard: half of what was to be sent is no stream
        or packer.wait() != 0  # guard: half of what was packed is no stream
    ):
        os.unlink(part)
        raise NodeError(f"sending {os.path.basename(image)} failed: {noise or 'zstd failed'}")
    os.rename(part, target)
    sync_directory(os.path.dirname(target))
    return {
        "file": os.path.basename(target), "parent": identity_of_parent, "bytes": size, "stream_bytes": counted[0],
        "sha256": total.hexdigest(), "protocol": protocol,
    }  # fmt: skip


def _pump(source: IO[bytes], sink: IO[bytes], counted: list[int]) -> None:
    try:
        while True:
            block = source.read(1 << 18)
            if not block:
                break
            counted[0] += len(block)
            sink.write(block)
        sink.close()
    except OSError:
        source.close()


def publish(places: Places, settings: ImageSettings, name: str, text: str, signature: str) -> None:
    """Put the signed manifest into the store, durable; whenever it is cut, the manifest there has its signature there.

    Where another one is there, its signature stays until the new manifest is in its place (``manifest.load``).
    """
    manifest = parse(text.encode())
    verify(text.encode(), signature.encode(), settings.signers)  # guard: only what the site's key signed is published
    if manifest.name != name:  # guard: a manifest is published under its own name
        raise NodeError(f"this is the manifest of {manifest.name}, not of {name}")
    directory = os.path.join(places.store, name)
    for stream in manifest.streams:
        size = os.path.getsize(os.path.join(directory, stream.file))
        if size != stream.bytes:  # guard: what is published is whole
            raise NodeError(f"{stream.file} has {size} bytes in the store, not {stream.bytes}")
    signed = os.path.join(directory, "manifest.json.sig")
    _name_signature(directory, settings.signers)
    # guard: a manifest has its signature before it is there
    write_atomic(f"{signed}.new", signature.encode(), mode=0o600)
    write_atomic(os.path.join(directory, "manifest.json"), text.encode(), mode=0o600)
    os.rename(f"{signed}.new", signed)
    sync_directory(directory)
    kept = places.in_state("manifests")
    os.makedirs(kept, mode=0o755, exist_ok=True)
    write_atomic(os.path.join(kept, f"{name}.json"), text.encode(), mode=0o644)


def _name_signature(directory: str, signers: str) -> None:
    """Give the signature its name that a cut left without, where it is that of the manifest: it would be lost."""
    manifest = os.path.join(directory, "manifest.json")
    text, signature = read_bytes(manifest), read_bytes(f"{manifest}.sig.new")
    if text is None or signature is None:
        return
    try:
        verify(text, signature, signers)
    except NodeError:
        return  # that manifest never came
    os.rename(f"{manifest}.sig.new", f"{manifest}.sig")
    sync_directory(directory)
