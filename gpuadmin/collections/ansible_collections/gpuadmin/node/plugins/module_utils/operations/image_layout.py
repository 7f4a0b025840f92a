"""gpuadmin.node.image_layout: a node's disk layout, checked and completed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal, Optional

from ..answer import Answer
from ..images import layout
from ..images.mounting import mounted
from ..images.places import (
    FORMAT,
    ImageSettings,
    looking,
    read_json,
    write_json,
)


@dataclass(frozen=True)
class Settings:
    store: str = ""
    signers: str = ""
    deadline: int = 600
    settle: int = 60
    identity: Sequence[str] = ()
    uid_first: int = 20000
    uid_last: int = 49999
    gpus: Optional[int] = None
    gpu_model: str = ""
    gpus_worse: Literal["report", "refuse"] = "report"


@dataclass(frozen=True)
class Document:
    """Check and complete the layout that images need.

    Looks at how a node boots and where its root, ``/var`` and ``/local`` lie.
    Completes a node that is fit, and notes its identity. A node that is not is reported and not touched.
    """

    #: What ``images.json`` on the node should say.
    settings: Settings


def operate(document: Document, check: bool) -> Answer:
    wanted = {"format": FORMAT, **asdict(document.settings)}
    places = looking()
    known = {key: value for key, value in wanted.items() if key in ImageSettings.__dataclass_fields__}
    settings = ImageSettings(**{**known, "identity": tuple(wanted["identity"])})
    found = layout.examine(places)
    if not found.problems:
        with mounted(places, settings, store=None):
            found = layout.prepare(places, settings, check=check)
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
