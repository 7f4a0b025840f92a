"""The commands that install packages on a host, in a unit."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import background, unit
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.operations import packages
from ansible_collections.gpuadmin.node.plugins.module_utils.operations.packages import last_words
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


def test_installation_runs_in_a_named_unit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "without_index", lambda _: False)
    ran = Unit(monkeypatch, 0)
    packages.install("debian", ["x"], refresh=False, timeout=60)
    assert ran.commands == ["x"]


def test_an_old_index_is_fetched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "without_index", lambda _: False)
    ran = Unit(monkeypatch, 100, 0, 0)
    packages.install("debian", ["x"], refresh=False, timeout=60)
    assert ran.commands == ["x", "update", "x"]
    for statuses, problem in (
        ((100, 0, 100), "x cannot be installed: E: no"),
        ((100, "killed"), "x cannot be install"),
    ):
        Unit(monkeypatch, *statuses)
        with pytest.raises(NodeError, match=problem):
            packages.install("debian", ["x"], refresh=False, timeout=60)
    Unit(monkeypatch, "gpuadmin-packages.service ended without an answer: time is over")
    with pytest.raises(NodeError, match=r"index of packages cannot be fetched: .* time is over"):
        packages.install("debian", ["x"], refresh=True, timeout=60)


def test_an_earlier_installation_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def working(name: str) -> bool:
        looked.append(name)
        return len(looked) < 3

    monkeypatch.setattr(unit, "working", working)
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
