"""gpuadmin.node.image_facts: what a node runs and holds, and what it would receive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from ..answer import Answer
from ..images.manifest import parse
from ..images.mounting import mounted
from ..images.observe import observe
from ..images.places import load_settings, looking


@dataclass(frozen=True)
class Document:
    """Report a node's images and roots.

    Reports which root runs, what boots next, which images are there, and how the last switch ended.
    With a manifest it also says what the node would receive for that image. Changes nothing.
    """

    #: The text of a manifest, as the store has it.
    manifest: Optional[str] = None
    #: The full image is wanted, also where a difference is there.
    full: bool = False


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    places = looking()
    settings = load_settings(places)
    manifest = parse(document.manifest.encode()) if document.manifest else None
    with mounted(places, settings, store=None):
        report = observe(places, settings, manifest, full=document.full)
    there = sorted({*report["people"], *report["gpu_work"]})
    return Answer(report={"node": report}, more={"progress": f"waits for {', '.join(there)}"})
