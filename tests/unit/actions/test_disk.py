"""gpuadmin disk, from its command line to what people and programs see of it."""

import json
import time
from typing import Any

import pytest

from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli
from tests.support.fake_ansible import ansible as bare
from tests.support.measured_site import ansible, inventory

__all__ = ["ansible", "bare"]
EMPTY: dict[str, Any] = {"places": [], "people": {}}


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
    answered(ansible, storage1=EMPTY, node1=EMPTY, node2=EMPTY)
    code, out, err = cli("disk", "minij")
    assert (code, out) == (2, "")
    assert "Error: not registered: 'minij'\nHint: did you mean 'minji'?" in err
    assert json.loads(cli("disk", "minij", "--json")[1])["result"]["error"] == "not registered: 'minij'"


@pytest.mark.parametrize("name", ["minji", "old"])
def test_who_is_known_and_has_nothing(ansible: Ansible, cli: Cli, name: str) -> None:
    answered(ansible, storage1=EMPTY, node1=EMPTY, node2=EMPTY)
    code, out, err = cli("disk", name)
    assert code == 0, err
    assert f"No files of {name} were found, or nothing was measured yet" in out


@pytest.mark.parametrize("name", ["visitor", "(unknown)"])
def test_who_is_in_no_list_and_has_files(ansible: Ansible, cli: Cli, name: str) -> None:
    with_files = {"places": [], "people": {name: {"homes": held(5_000_000_000)}}}
    answered(ansible, storage1=with_files, node1=EMPTY, node2=EMPTY)
    code, out, err = cli("disk", name)
    assert code == 0, err
    assert name in out


def test_who_may_have_files_on_a_host_that_is_away(ansible: Ansible, cli: Cli) -> None:
    answered(ansible, storage1=EMPTY)
    code, out, _err = cli("disk", "visitor")
    assert code == 4
    assert "node1: unknown: does not answer" in out


def test_a_directory_may_know_others(ansible: Ansible, cli: Cli) -> None:
    settings = inventory(ansible).parent / "gpuadmin.yml"
    settings.write_text(settings.read_text().replace("source: registry", "source: directory"))
    answered(ansible, storage1=EMPTY, node1=EMPTY, node2=EMPTY)
    code, out, err = cli("disk", "visitor")
    assert code == 0, err
    assert "No files of visitor" in out


@pytest.mark.parametrize("arguments", [("disk",), ("disk", "minji"), ("top", "--local")])
def test_without_a_monitor_no_host_is_asked(bare: Ansible, cli: Cli, arguments: tuple[str, ...]) -> None:
    code, _out, err = cli(*arguments)
    assert code == 2
    assert err.count("no monitor host") == 1
    assert "into the group monitor in inventory/hosts.yml, then gpuadmin provision" in err
    assert not bare.asked


def test_for_programs(ansible: Ansible, cli: Cli, storage: dict[str, Any]) -> None:
    answered(ansible, storage1=storage)
    found = json.loads(cli("disk", "--json")[1])["result"]
    assert found["hosts"]["storage1"]["people"]["jiho"]["homes"]["bytes"] == 7_000_000_000
    assert set(found["unknown"]) == {"node1", "node2"}
