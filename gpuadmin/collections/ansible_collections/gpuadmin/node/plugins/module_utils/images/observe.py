"""What a node says about its images and roots, and who is on it. Changes nothing."""

from __future__ import annotations

import os
from typing import Any

from gpuadmin.common.records.images import ImageSettings
from gpuadmin.common.text import counted

from .. import btrfs
from ..errors import NodeError
from ..logins.occupants import gpu_users, people
from . import prune, subvolumes
from .grubenv import read
from .manifest import Manifest, choose_stream
from .mounting import mounted
from .places import Places, load_settings, looking
from .records import find_image, held_images, journal, known_manifests, records
from .root_facts import packages, send_version


def observe(
    places: Places, settings: ImageSettings, manifest: Manifest | None = None, *, full: bool = False
) -> dict[str, Any]:
    """What a node has and runs, and what it would receive for an image. The top level is mounted."""
    running = subvolumes.running_root(places)
    held = held_images(places)
    environment, known = read(places.boot), records(places)
    report: dict[str, Any] = {
        "running": running.name,
        "current": environment.get("current", ""),
        "trial": environment.get("trial", ""),
        "image": find_image(places, running.name),
        "held": held,
        "roots": sorted(btrfs.listing(places.in_top("roots"))),
        "confirmed": known.confirmed,
        "refused": known.refused,
        "last": {key: value for key, value in journal(places).items() if key != "before"},
        "rollback": rollback_target(places),
        "people": people(settings.uid_first, settings.uid_last),
        "gpu_work": gpu_users(settings.uid_first),
        "drift": drift(places),
        "send_version": send_version(),
    }
    roots, images = prune.plan_node(places)
    report["prunable"] = {"roots": roots, "images": images}
    if manifest is not None:
        try:
            if held.get(manifest.name) == manifest.uuid:
                report["receives"] = {"bytes": 0, "parent": None, "held": True}
            else:
                stream = choose_stream(manifest, held, full=full, protocol=send_version())
                report["receives"] = {"bytes": stream.bytes, "parent": (stream.parent or (None,))[0], "held": False}
        except NodeError as error:
            report["problem"] = str(error)
    return report


def drift(places: Places) -> list[str]:
    """In what the running root is not as its image: a sentence each. Nothing where the image's list is not known."""
    found = []
    root = btrfs.inspect(places.root)
    if root is not None and not root.read_only:
        found.append("its root is writable")
    manifest = known_manifests(places).get(find_image(places, subvolumes.running_root(places).name))
    if manifest is None:
        return found
    wanted, there = dict(manifest.raw["packages"]), packages(places.root)
    other = sorted(name for name in {*wanted, *there} if wanted.get(name) != there.get(name))
    if other:
        listed = ", ".join(other[:5]) + (" …" if len(other) > 5 else "")
        found.append(f"{counted(len(other), 'package differs', 'packages differ')} from its image: {listed}")
    return found


def rollback_target(places: Places) -> str | None:
    """The last confirmed root before the one that runs, if it is still there."""
    running = subvolumes.running_root(places).name
    for name in records(places).confirmed:
        if name != running and btrfs.inspect(places.in_top("roots", name)) is not None:
            return name
    return None


def report_image(places: Places | None = None) -> dict[str, Any] | None:
    """What a node runs and boots next, and in what it is not as its image; None if it has no images."""
    places = places or looking()
    if not os.path.exists(places.in_state("images.json")):
        return None
    settings = load_settings(places)
    with mounted(places, settings, store=None):
        report = observe(places, settings)
    return {key: report[key] for key in ("running", "current", "trial", "image", "last", "drift")}
