"""What was carried over for a person, on the node: written before it can be relied on, and kept until --discard."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import valid_name
from ansible_collections.gpuadmin.node.plugins.module_utils.files import make_directory, read_bytes, write_atomic

from gpuadmin.common.records import root_docker

DIRECTORY = "move-docker"  # in the state
FORMAT = 1
BEGUN, COPIED, DONE = "begun", "copied", "done"


@dataclass
class Volume(root_docker.CarriedVolume):
    """``token``: its label in the person's daemon, by which it is known as ours. ``inode``: of their ``_data``.

    ``created``: when root's was, as its daemon says.
    """

    token: str
    created: str
    inode: int = 0
    checksum: str = ""


@dataclass
class Moved(root_docker.Moved):
    """All that was carried for somebody."""

    volumes: dict[str, Volume]  # type: ignore[assignment]  # with what only this host knows of each
    uid: int

    def empty(self) -> bool:
        return not (self.images or self.volumes or self.containers)


def _path(state: str, name: str) -> str:
    if not valid_name(name):  # guard: what was carried is looked up in its own directory alone
        raise NodeError("that is not the name of a person")
    return os.path.join(state, DIRECTORY, f"{name}.json")


def load(state: str, name: str, uid: int) -> Moved:
    """What is known of somebody. Raises NodeError for what is damaged, or of somebody else who had the name."""
    where = _path(state, name)
    data = read_bytes(where)
    if data is None:
        return Moved(name, {}, {}, {}, uid)
    try:
        raw: dict[str, Any] = json.loads(data)
        if raw.pop("format") != FORMAT:  # guard: what another version has carried is not taken for ours
            raise NodeError(f"{where} is of another version of gpuadmin")
        volumes = {key: Volume(**value) for key, value in raw.pop("volumes").items()}
        found = Moved(volumes=volumes, **{"images": {}, "containers": {}, **raw})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise NodeError(f"{where} is damaged ({error}): it records what was carried over") from None
    if found.uid != uid:  # guard: what another of the same name had is not discarded
        raise NodeError(f"{where} is of {name} with uid {found.uid}, not {uid}: look at it, then delete it")
    return found


def save(state: str, moved: Moved) -> None:
    """Write it, durably; what is empty goes."""
    where = _path(state, moved.name)
    make_directory(state, 0o755)
    make_directory(os.path.dirname(where), 0o700)
    if moved.empty():
        if os.path.lexists(where):
            os.unlink(where)
        return
    # guard: a volume that was carried stays carried after a power cut
    write_atomic(where, json.dumps({"format": FORMAT, **asdict(moved)}).encode() + b"\n", mode=0o600)
