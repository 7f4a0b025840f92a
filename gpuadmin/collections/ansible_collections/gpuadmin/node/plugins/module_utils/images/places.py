"""Where images, roots and their records are on a node, and what the site wants there (images.json)."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gpuadmin.common.names import IMAGE
from gpuadmin.common.records.images import ImageSettings

from ..documents import parse_settings
from ..errors import NodeError
from ..files import read_bytes, write_atomic
from ..paths import RUN, STATE

NAME = re.compile(IMAGE)
FORMAT = 1


@dataclass(frozen=True)
class Running:
    """The subvolume that is mounted as the root: its id, and its path from the top level."""

    id: int
    path: str

    @property
    def name(self) -> str:
        """The root's name; empty if it is not one of ours."""
        return self.path[len("/roots/") :] if self.path.startswith("/roots/") else ""


@dataclass(frozen=True)
class Places:
    """Paths on a node. Tests put them elsewhere and say which root "runs".

    ``own``: what is mounted there is for this process alone, and ends with it.
    """

    top: str = f"{RUN}/top"
    root: str = "/"
    var: str = "/var"
    state: str = STATE
    boot: str = "/boot/grub"
    store: str = f"{RUN}/store"
    run: str = RUN
    early_deadline: str = "/run/gpuadmin-trial.pid"
    running: Running | None = None
    boot_id: str | None = None
    own: bool = False

    def in_top(self, *parts: str) -> str:
        return os.path.join(self.top, *parts)

    def in_state(self, *parts: str) -> str:
        return os.path.join(self.state, *parts)


def looking() -> Places:
    """The places for a process that only looks: it mounts the disk for itself, so that no other look, which ends
    first, leaves it an empty directory, and nothing stays mounted where it is killed."""
    return Places(
        top=f"{RUN}/look-{os.getpid()}",  # guard: a look that ends leaves the others what they look at -> f'{RUN}/look'
        own=True,
    )


def check_name(name: object) -> str:
    """Given a name, return it if it is an image's. Raises NodeError."""
    if (
        not isinstance(name, str)
        or len(name) > 64
        # guard: an image's name is a plain one
        or not NAME.fullmatch(name)
    ):
        raise NodeError(f"{name!r} is not a name for an image: lower-case letters, digits and . _ -, 64 at most")
    return name


def read_json(path: str) -> dict[str, Any] | None:
    """The object in a file; None if there is no file. Damage is an error, never an empty record."""
    data = read_bytes(path)
    if data is None:
        return None
    try:
        value = json.loads(data.decode("utf-8"))
        if not isinstance(value, dict):
            raise ValueError("not an object")
    except ValueError as error:
        # guard: a record that cannot be read is not an empty one
        raise NodeError(f"{path} cannot be read ({error}); restore it or move it away") from error
    if value.get("format", FORMAT) != FORMAT:
        raise NodeError(
            f"{path} has format {value.get('format')!r}; this code knows {FORMAT}: run gpuadmin prepare-root"
        )
    return value


def write_json(path: str, value: Mapping[str, object]) -> None:
    """Replace a file by an object, durably."""
    text = json.dumps({"format": FORMAT, **value}, indent=1, sort_keys=True) + "\n"
    write_atomic(path, text.encode(), mode=0o600)


def load_settings(places: Places) -> ImageSettings:
    """The site's settings on this node. Raises NodeError if prepare-root has not been."""
    raw = read_json(places.in_state("images.json"))
    if raw is None:
        raise NodeError("this node is not prepared for images: run gpuadmin prepare-root")
    return parse_settings(ImageSettings, raw, "images.json")


def boot_id(places: Places) -> str:
    """An id that changes with every boot."""
    if places.boot_id is not None:
        return places.boot_id
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
        return stream.read().strip()
