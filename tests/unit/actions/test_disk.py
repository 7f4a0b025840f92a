"""gpuadmin disk, from its command line to what people and programs see of it."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from gpuadmin.results import HostResult, RunResult
from tests.unit.actions.test_verbs import Ansible, Cli, ansible

__all__ = ["ansible"]


def held(size: int, inodes: int = 1234, **other: Any) -> dict[str, Any]:
    return {"bytes": size, "inodes": inodes, "when": time.time() - 7300, "partial": False, "largest": [], **other}


@pytest.fixture
def minji() -> dict[str, Any]:
    return {"homes": held(5_000_000_000, largest=[{"path": "/srv/homes/minji/\x1b]0;x", "bytes": 4, "inodes": 2}])}


@pytest.fixture
def storage(minji: dict[str, Any]) -> dict[str, Any]:
    return {
        "places": [{"name": "homes", "path": "/srv/homes", "by_owner": False}],
        "people": {"minji": minji, "jiho": {"homes": held(7_000_000_000, partial=True)}},
    }


def answered(ansible: Ansible, **reports: Any) -> None:
    hosts = {name: HostResult("ok", reports={"disk": found}) for name, found in reports.items()}
    gone = HostResult("unreachable", message="does not answer (timed out)")
    ansible.answer = RunResult({"node1": gone, "node2": gone, "storage1": gone, **hosts})


def test_whose_it_is(ansible: Ansible, cli: Cli, storage: dict[str, Any]) -> None:
    node = {"places": [], "people": {"minji": {"docker": held(6_000_000_000)}}}
    answered(ansible, storage1=storage, node1=node)
    code, out, err = cli("disk")
    assert code == 4, err
    (invocation,) = ansible.asked
    assert (invocation.playbook, invocation.check) == ("disk", True)
    people = [line.split()[:5] for line in out.splitlines() if "GB" in line]
    assert people == [
        ["jiho", "homes", "storage1", "7.0", "GB+"], ["minji", "docker", "node1", "6.0", "GB"],
        ["minji", "homes", "storage1", "5.0", "GB"],
    ]  # fmt: skip
    assert "2 h ago" in out
    assert "+: more than that" in out
    assert "Largest" not in out
    assert "node2: unknown: does not answer (timed out)" in out


def test_one_persons_directories(ansible: Ansible, cli: Cli, minji: dict[str, Any]) -> None:
    answered(ansible, storage1={"places": [], "people": {"minji": minji}})
    _code, out, _err = cli("disk", "minji")
    (invocation,) = ansible.asked
    assert invocation.variables["gpuadmin_disk_names"] == ["minji"]
    assert "/srv/homes/minji/" in out
    assert "\x1b]" not in out


def test_nobody_of_that_name(ansible: Ansible, cli: Cli) -> None:
    answered(ansible, storage1={"places": [], "people": {}})
    assert "No files of nobody1 were found" in cli("disk", "nobody1")[1]


def test_for_programs(ansible: Ansible, cli: Cli, storage: dict[str, Any]) -> None:
    answered(ansible, storage1=storage)
    found = json.loads(cli("disk", "--json")[1])["result"]
    assert found["hosts"]["storage1"]["people"]["jiho"]["homes"]["bytes"] == 7_000_000_000
    assert set(found["unknown"]) == {"node1", "node2"}
