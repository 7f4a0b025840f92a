"""gpuadmin move-docker, from the command line to what a host is asked, and what stops it."""

import json
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Cli, ansible, answered_by

__all__ = ["ansible"]
IMAGE, OTHER = f"sha256:{'a' * 64}", f"sha256:{'ab' * 32}"
TRAIN: dict[str, Any] = {
    "id": "c1", "name": "minji-train", "image": IMAGE, "running": False, "volumes": ["data"], "binds": ["/home/jiho/x"],
    "labels": [], "changes": 3, "command": "docker create --name minji-train tiny", "differs": ["ports below 1024"],
}  # fmt: skip
LOOK: dict[str, Any] = {
    "running": True, "problem": "", "containers": [TRAIN],
    "images": [{"id": IMAGE, "tags": ["tiny:latest"], "bytes": 5}, {"id": OTHER, "tags": [], "bytes": 6}],
    "volumes": [{"name": "data", "bytes": 9, "cannot": ""}, {"name": "far", "bytes": -1, "cannot": "is far away"}],
    "moved": None,
}  # fmt: skip
EMPTY = {**LOOK, "containers": [], "images": [], "volumes": []}
MOVED = {
    "name": "minji", "images": {IMAGE: ["tiny:latest"]}, "containers": {"c1": "minji-train"},
    "volumes": {"data": {"step": "done", "files": 2, "bytes": 9}, "half": {"step": "begun", "files": 0, "bytes": 0}},
}  # fmt: skip
DONE = {"parts": [{"kind": "volume", "name": "data", "words": "2 files"}], "problems": {}, "notes": []}


class Hosts:
    def __init__(self) -> None:
        self.looks: dict[str, dict[str, Any] | None] = {"node1": LOOK, "node2": EMPTY}
        self.asked: list[dict[str, Any]] = []
        self.done: dict[str, Any] = DONE

    def run(self, invocation: Invocation, **_: object) -> RunResult:
        documents = invocation.variables["gpuadmin_move_docker"]
        found = {}
        for host, document in documents.items():
            if document["step"] == "look":
                look = self.looks[host]
                found[host] = HostResult("unreachable", message="is off") if look is None else HostResult(
                    "ok", reports={"root_docker": look}
                )  # fmt: skip
            else:
                self.asked.append({**document, "host": host, "check": invocation.check})
                found[host] = HostResult("changed", changed=["x"], reports={"docker_moved": self.done})
        return RunResult(found)


hosts = answered_by(Hosts)


def test_it_lists_what_there_is_and_whose_it_may_be(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node2"] = {**EMPTY, "running": False}
    code, out, err = cli("move-docker")
    assert code == 0, err
    for words in ("container minji-train: image tiny:latest, volumes data; perhaps of jiho, minji", "3 files of its",
                  "docker create --name minji-train tiny", "volume far: is far away", "systemd-run"):  # fmt: skip
        assert words in out + err
    assert hosts.asked == []


CHOSEN = [
    (("--container", "minji-train"), [IMAGE], ["data"]),
    (("--volume", "data"), [], ["data"]),
    (("--image", "tiny"), [IMAGE], []),
    (("--image", "tiny:latest", "--container", "minji-train"), [IMAGE], ["data"]),
    (("--image", "abab"), [OTHER], []),
]


@pytest.mark.parametrize(("named", "images", "volumes"), CHOSEN)
def test_what_is_named_is_carried(
    hosts: Hosts, cli: Cli, named: tuple[str, ...], images: list[str], volumes: list[str]
) -> None:
    code, out, err = cli("move-docker", "minji", *named, "--yes", "--json")
    assert code == 0, err
    (asked,) = hosts.asked
    assert (asked["host"], asked["step"], asked["name"], asked["uid"]) == ("node1", "carry", "minji", 20000)
    assert (asked["images"], asked["volumes"]) == (images, volumes)
    assert json.loads(out)["result"]["parts"] == DONE["parts"]


REFUSED = [
    pytest.param(("--volume", "far"), "is far away",
                 marks=pytest.mark.holds("what cannot be carried is said before anything is")),
    (("--volume", "none"), "no volume none"),
    pytest.param(("--image", "sha256:a"), "no image"),
    pytest.param(("--image", "aba", "--limit", "node2"), "no image"),
]  # fmt: skip


@pytest.mark.parametrize(("named", "words"), REFUSED)
def test_what_is_refused(hosts: Hosts, cli: Cli, named: tuple[str, ...], words: str) -> None:
    code, _, err = cli("move-docker", "minji", *named, "--yes")
    assert code != 0
    assert words in err
    assert hosts.asked == []


@pytest.mark.holds("the beginning of an id of two images is neither")
def test_an_id_that_is_none(hosts: Hosts, cli: Cli) -> None:
    third = {"id": f"sha256:{'abab' + 'c' * 60}", "tags": [], "bytes": 1}
    hosts.looks["node1"] = {**LOOK, "images": [*LOOK["images"], third]}
    code, _, err = cli("move-docker", "minji", "--image", "abab", "--yes")
    assert code != 0
    assert "several ids" in err


@pytest.mark.holds("what several hosts have is not carried from one of them by chance")
def test_two_hosts_have_it(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node2"] = LOOK
    code, _, err = cli("move-docker", "minji", "--volume", "data", "--yes")
    assert code != 0
    assert "--limit" in err
    assert hosts.asked == []


@pytest.mark.holds("what cannot be carried is said before anything is")
def test_a_volume_that_is_in_use(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node1"] = {**LOOK, "containers": [{**TRAIN, "running": True}]}
    code, _, err = cli("move-docker", "minji", "--volume", "data", "--yes")
    assert code != 0
    assert "docker stop minji-train" in err
    assert hosts.asked == []


@pytest.mark.holds("move-docker asks before it does something")
def test_without_a_yes_nothing_is_carried(hosts: Hosts, cli: Cli) -> None:
    code, _, err = cli("move-docker", "minji", "--volume", "data")
    assert code != 0
    assert "not confirmed" in err
    assert hosts.asked == []


def test_a_check_says_it(hosts: Hosts, cli: Cli) -> None:
    code, out, err = cli("move-docker", "minji", "--container", "minji-train", "--check")
    assert code == 0, err
    assert "volume data: to minji's Docker" in out + err
    assert [one["check"] for one in hosts.asked] == [True]


def test_what_goes_wrong_is_the_exit_code(hosts: Hosts, cli: Cli) -> None:
    hosts.done = {**DONE, "problems": {"volume data": "has no room"}}
    code, out, _ = cli("move-docker", "minji", "--volume", "data", "--yes")
    assert code == 3
    assert "volume data: has no room" in out


@pytest.mark.holds("what root's Docker has goes when that was confirmed")
def test_what_was_carried_is_discarded(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node1"] = {**LOOK, "moved": MOVED}
    code, _, err = cli("move-docker", "minji", "--discard")
    assert code != 0
    assert "not confirmed" in err
    assert hosts.asked == []
    code, out, err = cli("move-docker", "minji", "--discard", "--yes")
    assert code == 0, err
    (asked,) = hosts.asked
    assert (asked["step"], asked["images"], asked["volumes"]) == ("discard", [IMAGE], ["data"]), "half is none"
    assert asked["containers"] == {"c1": "minji-train"}
    assert "its own changes (docker diff) are lost" in out + err
    cli("move-docker", "minji", "--discard", "--yes", "--volume", "data")
    assert (hosts.asked[-1]["images"], hosts.asked[-1]["volumes"], hosts.asked[-1]["containers"]) == ([], ["data"], {})


@pytest.mark.parametrize("arguments", [("--discard",), ("--volume", "data")])
def test_whose_it_is_has_to_be_said(hosts: Hosts, cli: Cli, arguments: tuple[str, ...]) -> None:
    code, _, err = cli("move-docker", *arguments)
    assert code == 2
    assert "whose" in err
