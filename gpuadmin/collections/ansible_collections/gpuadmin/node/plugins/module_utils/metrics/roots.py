"""The image that a node runs, and whether something of it waits for somebody: by the node's own records."""

from __future__ import annotations

import os

from .. import btrfs
from ..images import subvolumes
from ..images.places import Places
from ..images.records import find_image, journal
from .exposition import Samples


def put(samples: Samples, places: Places) -> None:
    """Nothing where the node has no images. Raises NodeError or OSError if its records cannot be read."""
    if not os.path.exists(places.in_state("images.json")):
        return
    last, running = journal(places), subvolumes.running_root(places).name
    samples.put("gpuadmin_image_info", 1, image=find_image(places, running))
    root = btrfs.inspect(places.root)
    if root is not None:
        samples.put("gpuadmin_image_root_writable", 0 if root.read_only else 1)
    since = last.get("time")
    if last.get("stage") == "pending" and isinstance(since, (int, float)):
        trial = "true" if running == last.get("root") else "false"
        samples.put(
            "gpuadmin_image_pending_since_timestamp_seconds", since, image=str(last.get("image") or ""), trial=trial
        )
