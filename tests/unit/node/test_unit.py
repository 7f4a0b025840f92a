"""Units of systemd: silence is neither yes nor no, and a name is free only after a moment."""

import subprocess
from collections.abc import Sequence

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import unit
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished


class Answers:
    """Answers each command of systemctl and systemd-run as it is told; other ones succeed."""

    def __init__(self, *answers: tuple[int, str]) -> None:
        self.answers, self.commands = list(answers), []

    def __call__(self, command: Sequence[str]) -> Finished:
        self.commands.append(tuple(command))
        if command[1] == "reset-failed":
            return subprocess.CompletedProcess(command, 1, "", "not loaded")
        status, text = self.answers.pop(0)
        return subprocess.CompletedProcess(command, status, text, text)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unit, "POLL", 0.02)


def test_a_name_that_is_taken_for_a_moment_is_tried_again() -> None:
    systemd = Answers((1, "Unit x.service was already loaded"), (0, ""))
    unit.start("x.service", ("true",), "x", ("PrivateMounts=yes",), run=systemd)
    assert systemd.commands[-1] == (
        "systemd-run", "--unit=x.service", "--collect", "--quiet", "--description=x", "--property=PrivateMounts=yes",
        "--", "true",
    )  # fmt: skip
    with pytest.raises(NodeError, match="no such property"):
        unit.start("x.service", ("true",), "x", run=Answers((1, "no such property")))
    with pytest.raises(NodeError, match="already loaded"):
        unit.start("x.service", ("true",), "x", run=Answers((1, "it was already loaded")), patience=-1)


def test_systemd_that_is_being_replaced_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Installing packages may do that, and must not be taken for having ended."""
    monkeypatch.setattr(unit, "available", lambda: True)
    assert unit.working("x.service", Answers((1, "Connection reset by peer"), (0, "active\n")))
    monkeypatch.setattr(unit, "SILENCE", -1)
    with pytest.raises(NodeError, match=r"not known whether x\.service works: Connection refused"):
        unit.working("x.service", Answers((1, "Connection refused")))
    monkeypatch.setattr(unit, "available", lambda: False)
    assert not unit.working("x.service", Answers((1, "System has not been booted with systemd")))


def test_starved_systemd_that_answers_late_has_begun_it_or_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    late = (1, "Failed to start transient service unit: Connection timed out")
    begun = Answers(late, (0, "activating"))
    unit.start("x.service", ("true",), "x", run=begun)
    assert [command[0] for command in begun.commands] == ["systemctl", "systemd-run", "systemctl"]
    lost = Answers(late, (0, "inactive"), (0, ""))
    unit.start("x.service", ("true",), "x", run=lost, patience=0)
    assert [command[0] for command in lost.commands].count("systemd-run") == 2
    monkeypatch.setattr(unit, "SILENCE", -1)
    with pytest.raises(NodeError, match=r"x\.service could not be started: .*timed out"):
        unit.start("x.service", ("true",), "x", run=Answers(late))


@pytest.mark.parametrize(
    ("text", "expected"),
    [("active", True), ("activating", True), ("deactivating", True), ("inactive", False), ("failed", False)],
)
def test_what_works(text: str, expected: bool) -> None:
    assert unit.working("x.service", Answers((0, text))) is expected


def test_a_unit_that_does_not_stop() -> None:
    unit.stop("x.service", Answers((0, "")))
    unit.stop("x.service", Answers((5, "not loaded")))
    unit.stop("x.service", Answers((1, "timed out"), (0, "inactive")))
    with pytest.raises(NodeError, match=r"x\.service does not stop: timed out"):
        unit.stop("x.service", Answers((1, "timed out"), (0, "active")))
