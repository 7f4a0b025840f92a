"""The commands that install packages on a host, in a unit."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background, unit
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.root import operations, packages, session
from ansible_collections.gpuadmin.node.plugins.module_utils.root.packages import last_words
from ansible_collections.gpuadmin.node.plugins.module_utils.run import program


class Unit:
    """Notes what to do in a unit, and how; answers as it is told."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *statuses: int | str) -> None:
        self.statuses = list(statuses)
        self.commands: list[str] = []
        monkeypatch.setattr(background, "perform", self)

    def __call__(self, name: str, work: object, arguments: dict[str, Any], *, properties: object) -> dict[str, object]:
        assert (name, work, properties) == ("packages", program, ("RuntimeMaxSec=60",))
        assert arguments["environment"]["DEBIAN_FRONTEND"] == "noninteractive"
        self.commands.append(arguments["command"][-1])
        status = self.statuses.pop(0)
        if isinstance(status, str):
            raise NodeError(status)
        return {"status": status, "output": "E: no\n" if status else ""}


def test_an_old_index_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "without_index", lambda: False)
    ran = Unit(monkeypatch, 100, 0, 0)
    packages.install(["x"], refresh=False, timeout=60)
    assert ran.commands == ["x", "update", "x"]
    for statuses, problem in (
        ((100, 0, 100), "x cannot be installed: E: no"),
        ((100, "killed"), "x cannot be install"),
    ):
        Unit(monkeypatch, *statuses)
        with pytest.raises(NodeError, match=problem):
            packages.install(["x"], refresh=False, timeout=60)
    Unit(monkeypatch, "gpuadmin-packages.service ended without an answer: time is over")
    with pytest.raises(NodeError, match=r"index of packages cannot be fetched: .* time is over"):
        packages.install(["x"], refresh=True, timeout=60)


def test_an_earlier_installation_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    monkeypatch.setattr(unit, "working", lambda name: looked.append(name) or (len(looked) < 3))
    monkeypatch.setattr(packages.time, "sleep", lambda _: None)
    packages.wait_for_another(60)
    assert looked == ["gpuadmin-packages.service"] * 3
    looked.clear()
    with pytest.raises(NodeError, match="has not ended in -1 seconds"):
        packages.wait_for_another(-1)


def test_last_words_are_the_errors() -> None:
    text = "Reading package lists...\nE: Unable to locate package x\nE: y\n"
    assert last_words(text) == "E: Unable to locate package x E: y"
    assert last_words("one\n\ntwo\n") == "one two"


@pytest.mark.holds("an installation removes no package")
@pytest.mark.parametrize("check", [True, False])
@pytest.mark.parametrize(
    ("installed", "on", "said", "done"),
    [
        (["x"], "x.service y.service", [], []),
        (["x"], "y.service", ["enable x.service"], ["systemctl enable x.service"]),
        (["x"], "", ["enable x.service", "enable y.service"], ["enable x.service y.service"]),
        ([], "", ["install x"], ["install --no-remove x", "systemctl enable x.service"]),
    ],
    ids=["all there", "one switched off", "both switched off", "not installed"],
)
def test_what_was_installed_and_switched_off_starts_at_boot(
    installed: list[str], on: str, said: list[str], done: list[str], check: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also on a read-only root, which is opened for it. Which distribution enables what it installs, differs: here
    one of two. Nothing is started: a role does that when its settings are there."""
    root: list[str] = []
    ran: list[str] = []
    waited: list[int] = []
    enabled = on.split()

    def asked(arguments: dict[str, Any]) -> dict[str, object]:
        *words, last = arguments["command"]
        if "--simulate" in words:
            return {"status": 0, "output": ""}
        assert words == ["systemctl", "is-enabled", "--quiet"]
        return {"status": 0 if last in enabled else 1, "output": ""}

    def in_unit(command: tuple[str, ...], _: int) -> packages.Done:
        ran.append(" ".join(command[-3:]))
        if "install" in command:
            enabled.append("y.service")
        return packages.Done(0, "")

    monkeypatch.setattr(operations, "is_debian", lambda _: True)
    monkeypatch.setattr(operations, "installed_packages", lambda: installed)
    monkeypatch.setattr(packages, "without_index", lambda: False)
    monkeypatch.setattr(packages, "program", asked)
    monkeypatch.setattr(packages, "in_unit", in_unit)
    monkeypatch.setattr(packages, "wait_for_another", waited.append)
    monkeypatch.setattr(session, "open_session", lambda _: root.append("opened"))
    monkeypatch.setattr(session, "close_session", lambda: root.append("closed"))
    answer = operations.ensure_packages(operations.PackagesOrder(["x"], enable=["x.service", "y.service"]), check)
    assert answer.operations == said
    assert ran == ([] if check else done)
    assert root == (["opened", "closed"] if ran else [])
    assert waited == ([] if check else [1800]), "an installation of an interrupted run goes on"


def test_a_check_says_what_cannot_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    simulated: list[str] = []

    def asked(arguments: dict[str, Any]) -> dict[str, object]:
        simulated.extend(arguments["command"][-4:])
        return {"status": 100, "output": "E: Packages need to be removed but remove is disabled.\n"}

    monkeypatch.setattr(operations, "is_debian", lambda _: True)
    monkeypatch.setattr(operations, "installed_packages", lambda: [])
    monkeypatch.setattr(packages, "without_index", lambda: False)
    monkeypatch.setattr(packages, "program", asked)
    with pytest.raises(NodeError, match="x could not be installed: E: Packages need to be removed"):
        operations.ensure_packages(operations.PackagesOrder(["x"]), True)
    assert simulated == ["install", "--no-remove", "--simulate", "x"]


def test_what_cannot_be_enabled_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "in_unit", lambda command, _: packages.Done(1, "Failed to enable unit: no\n"))
    with pytest.raises(NodeError, match=r"x\.service cannot be enabled: Failed to enable unit: no"):
        packages.enable(["x.service"])


def test_what_is_only_recommended_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """cron recommends a mail server, which would listen on every node."""
    monkeypatch.setattr(packages, "without_index", lambda: False)
    ran: list[list[str]] = []
    monkeypatch.setattr(packages, "in_unit", lambda command, _: ran.append(list(command)) or packages.Done(0, ""))
    for bare in (False, True):
        packages.install(["cron"], refresh=False, timeout=60, bare=bare)
    assert ["--no-install-recommends" in command for command in ran] == [False, True]
    assert all(command[-1] == "cron" for command in ran)
