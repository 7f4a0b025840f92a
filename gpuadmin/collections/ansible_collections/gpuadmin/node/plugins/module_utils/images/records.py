"""What a node has written down about its images and roots: the last switch, confirmed roots, manifests."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from gpuadmin.common.records.images import ImageSettings

from .. import btrfs
from ..files import write_atomic
from .manifest import Manifest, load_text, parse
from .places import Places, read_json, write_json


def journal(places: Places) -> dict[str, object]:
    """What is known of the last switch: kind, image, root, previous, boot_id, stage, reason, deadline, before.

    ``stage``: pending, confirmed, failed or called off. ``time``, ``ended``: of the record and of the outcome, seconds
    since 1970. ``uptime``: seconds from the start of the kernel to the outcome.
    """
    return read_json(places.in_state("switch.json")) or {}


@dataclass(frozen=True)
class RootRecords:
    """``confirmed``: roots, newest first. ``images``: root → image it was made from. ``refused``: image → why."""

    confirmed: tuple[str, ...] = ()
    images: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def write(self, places: Places) -> None:
        """Record it, durably."""
        write_json(places.in_state("roots.json"), asdict(self))


def records(places: Places) -> RootRecords:
    """What is recorded of this node's roots."""
    raw: dict[str, Any] = read_json(places.in_state("roots.json")) or {}
    return RootRecords(tuple(raw.get("confirmed", ())), raw.get("images", {}), raw.get("refused", {}))


def held_images(places: Places) -> dict[str, str]:
    """Image name → uuid, of the pristine images on this node."""
    found = btrfs.listing(places.in_top("images"))
    return {name: one.received_uuid or one.uuid for name, one in found.items() if one.read_only}


def find_image(places: Places, root: str) -> str:
    """The image that a root was made from; the root's own name where that is not recorded."""
    return records(places).images.get(root, root)


def load_manifest(places: Places, name: str, settings: ImageSettings) -> Manifest:
    """The manifest of an image, verified: from the store, or kept on the node where the image already is."""
    manifest, text = load_text(os.path.join(places.store, name), settings.signers)
    directory = places.in_state("manifests")
    os.makedirs(directory, mode=0o755, exist_ok=True)
    write_atomic(
        os.path.join(directory, f"{name}.json"),
        # guard: the manifest that is kept was verified -> open(f"{places.store}/{name}/manifest.json", "rb").read()
        text,
        mode=0o644,
    )
    return manifest


def known_manifests(places: Places) -> Mapping[str, Manifest]:
    """The manifests kept on this node, by image name."""
    found = {}
    for path in sorted(glob.glob(places.in_state("manifests", "*.json"))):
        with open(path, "rb") as stream:
            manifest = parse(stream.read(), path)
        found[manifest.name] = manifest
    return found
