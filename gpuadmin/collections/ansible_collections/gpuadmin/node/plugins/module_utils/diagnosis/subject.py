"""The subject of a diagnosis: the person and the host that it is about."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ..paths import STATE


@dataclass(frozen=True)
class Subject:
    """The subject. ``name``: None if only the host is asked about. ``uid``: by users.yml; None if it has none.

    ``homes``: the directory of all homes here. ``docker``: that of everybody's Docker data, or None. ``servers``: names
    or addresses that this host must be able to find. ``gpus``, ``gpu_model``: what the inventory says of them. ``own``:
    the person asks for themselves, without privileges; what only root may read is left out. ``root``: where the host's
    files are; tests have another one. ``trial``: a session of theirs is tried.
    """

    name: str | None = None
    uid: int | None = None
    homes: str = "/home"
    docker: str | None = None
    node: bool = True
    state: str = STATE
    servers: tuple[str, ...] = ()
    gpus: int | None = None
    gpu_model: str = ""
    own: bool = False
    root: str = "/"
    trial: bool = False

    def path(self, name: str) -> str:
        return os.path.join(self.root, name.lstrip("/"))
