"""A site with a queue, for verbs that ask it: what its host says, by a playbook."""

from __future__ import annotations

from typing import Any

import pytest

from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible

JOB = {
    "id": "4", "user": "minji", "group": "people", "gpus": 2, "nodes": "node1", "place": 0, "asked": 1, "start": 2,
    "end": 1795608428, "why": "",
}  # fmt: skip
WAITS = {**JOB, "id": "5", "user": "jiho", "nodes": "", "place": 1, "end": None, "why": "others come first"}
NODES = [
    {"name": "node1", "state": "idle", "reason": ""},
    {"name": "node2", "state": "drained", "reason": "Prolog error"},
]


@pytest.fixture
def queue(ansible: Ansible, monkeypatch: pytest.MonkeyPatch) -> Ansible:
    """A site with a queue, whose host's code is too old to be asked without a playbook."""
    monkeypatch.setattr("gpuadmin.actions.shared.directly.require_ssh", lambda: "false")
    assert ansible.site is not None
    settings = ansible.site / "gpuadmin.yml"
    settings.write_text(f"{settings.read_text()}\nslurm: {{}}\n")
    (ansible.site / "inventory/queue.yml").write_text("slurm: {hosts: {storage1: {}}}\n")
    return ansible


def whole(report: dict[str, Any], **sick: list[str]) -> RunResult:
    """What the queue's host says, and two nodes of which nothing is known to be wrong but what ``sick`` has."""
    nodes = {
        name: HostResult("ok", reports={"gpus": {"nvml": None, "closed": sick.get(name, [])}})
        for name in ("node1", "node2")
    }
    return RunResult({"storage1": HostResult("ok", reports={"queue": report}), **nodes})


def says(queue: Ansible, *jobs: dict[str, Any]) -> None:
    queue.answer = whole({"jobs": list(jobs), "nodes": NODES})
