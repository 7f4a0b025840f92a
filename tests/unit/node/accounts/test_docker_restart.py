"""Restarting somebody's Docker: through their own manager, and nobody else's."""

from collections.abc import Sequence

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import docker_restart, operations
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.docker_restart import restart
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished

from tests.support.operations import ask

MANAGER = ("systemctl", "--user", "-M", "minji@")


class Host:
    """What is run on it; `bad`: the verb that its manager refuses."""

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
    host = Host()
    assert host.restart()["changed"] is True
    assert host.asked == [
        (*MANAGER, "stop", "docker.service", "docker.socket"),
        (*MANAGER, "reset-failed", "docker.service", "docker.socket"),
        (*MANAGER, "start", "docker.socket"),
    ]


def test_a_check_does_nothing_and_says_the_same() -> None:
    host = Host()
    assert host.restart(check=True) == Host().restart()
    assert host.asked == []


def test_nothing_runs_without_a_manager() -> None:
    host = Host(manager="inactive")
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
    host = Host(uid=theirs)
    with pytest.raises(NodeError, match=words):
        host.restart(name, uid)
    assert host.asked == []


def test_a_manager_that_refuses() -> None:
    assert Host("reset-failed").restart()["changed"] is True
    with pytest.raises(NodeError, match="minji's manager refused: it is masked"):
        Host("start").restart()


def test_somebody_whom_the_host_does_not_know() -> None:
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
