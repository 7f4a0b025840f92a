"""Accounts in a renumbering are left alone; a daemon is restarted by its person's own manager alone."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import docker_restart, operations
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host, converge
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.docker_restart import restart
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.renumbered import PLAN
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished

from tests.support.operations import ask

MANAGER = ("systemctl", "--user", "-M", "minji@")


class Daemon:
    """What is run on its host; `bad`: the verb that its manager refuses."""

    def __init__(self, bad: str = "", uid: int = 20000, manager: str = "active") -> None:
        self.bad, self.uid, self.state = bad, uid, manager
        self.asked: list[tuple[str, ...]] = []

    def run(self, command: Sequence[str]) -> Finished:
        self.asked.append(tuple(command))
        return Finished(command, 1 if self.bad and self.bad in command else 0, "", "it is masked")

    def restart(self, name: object = "minji", uid: object = 20000, *, check: bool = False) -> dict[str, object]:
        found = (self.uid, self.uid)
        return restart(name, uid, check=check, lookup=lambda _: found, run=self.run, manager=lambda _: self.state)


def test_the_service_stops_before_its_socket_is_made_again() -> None:
    host = Daemon()
    assert host.restart()["changed"] is True
    assert host.asked == [
        (*MANAGER, "stop", "docker.service", "docker.socket"),
        (*MANAGER, "reset-failed", "docker.service", "docker.socket"),
        (*MANAGER, "start", "docker.socket"),
    ]


def test_a_check_or_a_host_without_a_manager_runs_nothing() -> None:
    host = Daemon()
    assert host.restart(check=True) == Daemon().restart()
    assert host.asked == []
    host = Daemon(manager="inactive")
    assert host.restart()["changed"] is False
    assert host.asked == []


@pytest.mark.parametrize(
    ("name", "uid", "theirs", "words"),
    [
        ("../x", 20000, 20000, "is refused"),
        ("minji", 20000, 20001, "has uid 20001 here, not 20000"),
        ("root", None, 0, "is not a person's"),
    ],
)
def test_nobody_elses_daemon(name: str, uid: int | None, theirs: int, words: str) -> None:
    host = Daemon(uid=theirs)
    with pytest.raises(NodeError, match=words):
        host.restart(name, uid)
    assert host.asked == []


def test_a_manager_that_refuses_and_somebody_whom_the_host_does_not_know() -> None:
    assert Daemon("reset-failed").restart()["changed"] is True
    with pytest.raises(NodeError, match="minji's manager refused: it is masked"):
        Daemon("start").restart()
    with pytest.raises(NodeError, match="does not know minji"):
        restart("minji", 20000, check=False, lookup=lambda _: None)


def test_a_manager_that_hangs_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """A person can stop it: each command to it has a deadline."""
    waits: list[float | None] = []

    def run_command(command: Sequence[str], *, seconds: float | None = None) -> Finished:
        waits.append(seconds)
        return Finished(command, 0, "", "")

    monkeypatch.setattr(docker_restart, "run_command", run_command)
    docker_restart.restart("minji", 20000, check=False, lookup=lambda _: (20000, 20000), manager=lambda _: "active")
    assert waits == [docker_restart.SECONDS] * 3


@pytest.mark.holds("the operation restarts no daemon in a check")
def test_the_operation_in_check_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bool] = []

    def looked(_name: str, _uid: int | None, *, check: bool) -> dict[str, object]:
        asked.append(check)
        return {"changed": True, "words": "the socket is made again"}

    monkeypatch.setattr(operations, "restart", looked)
    for check in (True, False):
        ask("docker_restart", {"name": "minji", "uid": 20000}, check=check)
    assert asked == [True, False]


USERS = [
    {"name": name, "uid": uid, "gid": uid, "home": f"/home/{name}"} for name, uid in (("minji", 20001), ("jiho", 20002))
]


def plan(host: Host, text: str) -> None:
    path = Path(host.path(host.state)) / PLAN
    path.parent.mkdir(parents=True)
    path.write_text(text)


@pytest.mark.root
@pytest.mark.holds("who is renumbered stays closed")
def test_who_is_being_renumbered_is_left_alone_and_the_others_are_not(host: Host) -> None:
    converge(Request(Settings(), USERS), host)
    shadow = Path(host.path("etc/shadow"))
    shadow.write_text(shadow.read_text().replace("minji:*:", "minji:!*:"))
    plan(host, json.dumps({"people": [{"name": "minji"}]}))
    locked = [{**one, "locked": True} for one in USERS]
    found = converge(Request(Settings(), locked), host).plan
    assert "by gpuadmin renumber until" in str(found.users["minji"].problem)
    assert found.users["jiho"].operations == ["lock"]
    assert "minji:!*:" in shadow.read_text()


@pytest.mark.root
@pytest.mark.parametrize(
    ("found", "verb"),
    [
        ({"people": [{"name": "kim", "was": "minji"}]}, "renumber until"),
        ({"people": [{"name": "minji", "was": "MinJi"}]}, "renumber until"),
        ({"people": [{"name": "minji"}], "verb": "move-homes"}, "move-homes goes on"),
    ],
)
def test_who_gets_another_name_is_left_alone_by_both_and_the_verb_is_named(
    host: Host, found: dict[str, object], verb: str
) -> None:
    converge(Request(Settings(), USERS), host)
    plan(host, json.dumps(found))
    planned = converge(Request(Settings(), [{**one, "locked": True} for one in USERS]), host).plan
    assert f"gpuadmin {verb}" in str(planned.users["minji"].problem)


@pytest.mark.root
@pytest.mark.holds("no newcomer gets an id that a file of somebody in a renumbering may still have")
@pytest.mark.parametrize(("old", "made"), [(20002, False), (20003, True), (20009, True)])
def test_no_newcomer_gets_an_id_that_a_file_may_still_have(host: Host, old: int, made: bool) -> None:
    """Their files would become the other's at the next boot. Who has it already was let in: nothing of it is left."""
    converge(Request(Settings(), [USERS[0]]), host)
    people = [{"name": "sora", "old": old, "new": 20003, "group": 20003}, {"name": "hana", "old": 20001, "new": 20004}]
    plan(host, json.dumps({"people": people}))
    found = converge(Request(Settings(), USERS), host).plan
    words = "uid 20002 was sora's until gpuadmin renumber, which has not ended: a file may still have it"
    assert found.users["jiho"].problem == (None if made else words)
    assert ("jiho:" in Path(host.path("etc/passwd")).read_text()) is made
    assert found.users["minji"].problem is None


def test_a_damaged_plan_opens_nobody(host: Host) -> None:
    plan(host, "[")
    with pytest.raises(NodeError, match="damaged"):
        converge(Request(Settings(), USERS), host)
