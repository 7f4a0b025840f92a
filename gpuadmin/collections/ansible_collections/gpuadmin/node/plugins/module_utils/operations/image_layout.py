"""gpuadmin.node.image_layout: a node's disk layout, checked and completed."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

from gpuadmin.common.records.images import ImageSettings

from ..answer import Answer
from ..documents import to_plain
from ..images import layout
from ..images.mounting import mounted
from ..images.places import FORMAT, looking, read_json, write_json


@dataclass(frozen=True)
class Document:
    """Check and complete the layout that images need.

    Looks at how a node boots and where its root, ``/var`` and ``/local`` lie.
    Completes a node that is fit, and notes its identity. A node that is not is reported and not touched.
    """

    #: What ``images.json`` on the node should say.
    settings: ImageSettings


def operate(document: Document, check: bool) -> Answer:
    wanted = {"format": FORMAT, **to_plain(asdict(document.settings))}
    places = looking()
    found = layout.examine(places)
    if not found.problems:
        with mounted(places, document.settings, store=None):
            found = layout.prepare(places, document.settings, check=check)
    report = {"layout": {"problems": found.problems, **found.facts}}
    if found.problems:
        return Answer(report=report, problem=f"this node is not laid out for images: {'; '.join(found.problems)}")
    path = places.in_state("images.json")
    if read_json(path) != wanted:
        found.operations.append("note the site's settings for images")
        if not check:
            os.makedirs(places.state, mode=0o755, exist_ok=True)
            write_json(path, wanted)
    return Answer(found.operations, report)
