"""A store and nodes, as the verbs about images hear of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult
from tests.support.sites import make_site

A, B = (f"{digit * 8}-0000-0000-0000-000000000000" for digit in "ab")

Cli = Callable[..., tuple[int, str, str]]


def manifest(name: str, uuid: str, parent: str | None) -> dict[str, Any]:
    stream = {"file": "x", "parent": parent and {"name": parent, "uuid": A}, "bytes": 6_000_000, "sha256": "0" * 64}
    return {
        "name": name, "uuid": uuid, "created": 1.0, "by": "somebody", "parent": parent and {"name": parent, "uuid": A},
        "distribution": "debian", "version": "13", "machine": "x86_64", "kernel": "6.12", "size": 9,
        "packages": {"rsync": "3"}, "changes": {"added": {"rsync": "3"}, "removed": {}, "changed": {}},
        "streams": [stream],
    }  # fmt: skip


def node(**changes: Any) -> dict[str, Any]:
    return {
        "running": "a", "current": "a", "trial": "", "image": "a", "held": {"a": A}, "roots": ["a"], "confirmed": ["a"],
        "refused": {}, "last": {}, "rollback": None, "people": [], "gpu_work": [], "drift": [], "send_version": 2,
        "prunable": {"roots": [], "images": []}, "receives": {"bytes": 6_000_000, "parent": "a", "held": False},
        **changes,
    }  # fmt: skip


class Cluster:
    """Answers for Ansible: what the store and the nodes say, and how the work goes."""

    def __init__(self) -> None:
        self.asked: list[Invocation] = []
        self.nodes: dict[str, dict[str, Any]] = {"node1": node(), "node2": node()}
        entry = {"manifest": manifest("b", B, "a"), "text": "{}", "problem": None}
        self.store: dict[str, Any] = {"b": entry}
        self.answer: dict[str, HostResult] = {"node1": HostResult("changed"), "node2": HostResult("changed")}

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        self.asked.append(invocation)
        if invocation.playbook != "list-images" or "gpuadmin_verify_images" in invocation.variables:
            return RunResult(self.answer)
        hosts = {"storage1": HostResult("ok", reports={"store": self.store})}
        hosts |= {name: HostResult("ok", reports={"node": report}) for name, report in self.nodes.items()}
        return RunResult(hosts)

    @property
    def changing(self) -> list[Invocation]:
        return [one for one in self.asked if one.playbook != "list-images"]


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    fake = Cluster()
    site = make_site(tmp_path / "site", "users: []\nretired: []\n")
    (site / "image_signing_key").write_text("a key")
    monkeypatch.setattr("gpuadmin.ansible.runner.run", fake.run)
    monkeypatch.setenv("GPUADMIN_SITE", str(site))
    return fake
