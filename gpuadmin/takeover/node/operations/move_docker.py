"""gpuadmin.node.move_docker: images and volumes of root's Docker become a person's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Literal

from ansible_collections.gpuadmin.node.plugins.module_utils import background
from ansible_collections.gpuadmin.node.plugins.module_utils.answer import Answer
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import STATE
from ansible_collections.gpuadmin.node.plugins.module_utils.unit import BACKGROUND

from ..root_docker import jobs, looking, record

VERB = "move-docker"
#: A person's daemon can be as slow as they like.
PROPERTIES = (*BACKGROUND, "RuntimeMaxSec=86400")


@dataclass(frozen=True)
class Document:
    """Carry images and volumes of root's Docker into a person's own, on the same host.

    ``look`` reports what root's daemon has, and what was carried; ``carry`` brings it into the person's; ``discard``
    removes from root's daemon what was carried, and nothing else. The last two run in the unit
    ``gpuadmin-move-docker.service``, which goes on when the controller is interrupted.
    """

    #: What to do.
    step: Literal["look", "carry", "discard"]
    #: The directory with everybody's Docker data.
    data: str
    #: Who it is for; empty: it only looks.
    name: str = ""
    #: Their uid.
    uid: int = 0
    #: Ids of images.
    images: Sequence[str] = ()
    #: Names of volumes.
    volumes: Sequence[str] = ()
    #: Id → name of containers.
    containers: Mapping[str, str] = field(default_factory=dict)
    #: Directory of this host's own state.
    state_directory: str = STATE


def operate(document: Document, check: bool) -> Answer:
    if document.step == "look":
        found = looking.look(looking.daemon())
        moved = record.load(document.state_directory, document.name, document.uid) if document.name else None
        return Answer((), {"root_docker": {**found, "moved": asdict(moved) if moved else None}})
    things = [
        *(f"image {one}" for one in document.images),
        *(f"volume {one}" for one in document.volumes),
        *(f"container {one}" for one in (document.containers.values() if document.step == "discard" else ())),
    ]
    if check:  # guard: check mode carries nothing and removes nothing
        words = "carry" if document.step == "carry" else "remove"
        return Answer([f"{words} {one}" for one in things])
    arguments = {
        "name": document.name, "uid": document.uid, "data": document.data, "images": list(document.images),
        "volumes": list(document.volumes), "containers": dict(document.containers), "state": document.state_directory,
    }  # fmt: skip
    function = jobs.carry if document.step == "carry" else jobs.discard
    done = background.perform(VERB, function, arguments, properties=PROPERTIES)
    made = [f"{one['kind']} {one['name']}: {one['words']}" for one in done["parts"] if one["words"]]
    return Answer(made, {"docker_moved": done})
