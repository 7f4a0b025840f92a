"""A node with root's Docker and a person's, as two daemons that are not real over directories that are."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.takeover.node.root_docker import jobs, record
from gpuadmin.takeover.node.root_docker.api import Daemon
from gpuadmin.takeover.node.root_docker.namespace import Person
from tests.support import independent
from tests.support.fake_docker import FakeDocker

UID, FIRST = 31001, 3_000_000
MINJI = Person("minji", UID, UID, FIRST, FIRST, 65536)


@dataclass
class Node:
    root: FakeDocker
    hers: FakeDocker
    arguments: dict[str, Any]

    def carry(self, *, images: tuple[str, ...] = (), volumes: tuple[str, ...] = (), **containers: str) -> Any:
        return jobs.carry({**self.arguments, "images": images, "volumes": volumes, "containers": containers})

    def discard(self, *, images: tuple[str, ...] = (), volumes: tuple[str, ...] = (), **containers: str) -> Any:
        return jobs.discard({**self.arguments, "images": images, "volumes": volumes, "containers": containers})

    def refused(self, name: str = "data") -> str:
        """Why a volume is not carried."""
        return str(self.carry(volumes=(name,))["problems"][f"volume {name}"])

    @property
    def moved(self) -> record.Moved:
        return record.load(self.arguments["state"], "minji", UID)

    @property
    def data(self) -> Path:
        return self.root.root / "volumes/data/_data"

    @property
    def copy(self) -> Path:
        return self.hers.root / "volumes/data/_data"

    def differences(self) -> list[str]:
        have = independent.manifest(str(self.copy))
        for one in have.values():
            for kind in ("uid", "gid"):
                value = one[kind]
                assert isinstance(value, int)
                one[kind] = 0 if value == UID else value - FIRST + 1
        return independent.differences(independent.manifest(str(self.data)), have)


@contextmanager
def two_daemons(monkeypatch: pytest.MonkeyPatch) -> Iterator[Node]:
    """The jobs find both; root's Docker has the volume `data`, which is empty."""
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory)
        base.chmod(0o711)
        places = {name: base / name for name in ("root", "docker", "docker/minji", "state")}
        for place in places.values():
            place.mkdir()
        os.chown(places["docker/minji"], UID, UID)
        (base / "docker").chmod(0o711)
        root = FakeDocker(places["root"], base / "root.sock")
        hers = FakeDocker(places["docker/minji"], base / "hers.sock", UID)
        monkeypatch.setattr(jobs, "of", lambda *_: MINJI)
        monkeypatch.setattr(
            jobs, "theirs", lambda *_: (Daemon(str(hers.socket), (UID, UID)), str(places["docker/minji"]))
        )
        monkeypatch.setattr(jobs, "_root", lambda _: Daemon(str(root.socket)))
        root.start()
        hers.start()
        root.volume("data")
        arguments = {"name": "minji", "uid": UID, "data": str(base / "docker"), "state": str(places["state"])}
        try:
            yield Node(root, hers, arguments)
        finally:
            root.stop()
            hers.stop()
