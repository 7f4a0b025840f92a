"""The node's own commands about images: what they print and end with."""

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import commands
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import ImageSettings


@pytest.mark.parametrize(
    ("last", "root", "output", "status"),
    [
        ({"stage": "confirmed", "root": "b"}, "b", "confirmed", 0),
        ({"stage": "failed", "root": "b", "reason": "sshd is down"}, "a", "failed sshd is down", 3),
        ({"stage": "failed", "root": "b", "reason": "sshd is down"}, "b", "leaving sshd is down", 1),
        ({"stage": "trying", "root": "b"}, "b", "trying", 1),
        ({}, "a", "None", 1),
    ],
)
def test_the_outcome_of_a_trial(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    last: dict[str, object],
    root: str,
    output: str,
    status: int,
) -> None:
    """A root that has failed and still runs is about to reboot: who asks then asks again."""
    monkeypatch.setattr(commands, "journal", lambda _: last)
    monkeypatch.setattr(commands, "running_root", lambda _: SimpleNamespace(name=root))
    assert commands.main(["image-outcome"]) == status
    assert capsys.readouterr().out == f"{output}\n"


@pytest.mark.parametrize(("problem", "status"), [(None, 0), ("sshd is down", 1)])
def test_a_check_ends_with_its_problem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], problem: str | None, status: int
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(commands, "load_settings", lambda _: ImageSettings())
    monkeypatch.setattr(commands.trial, "check", lambda _places, _settings, name: asked.append(name) or problem)
    assert commands.main(["image-check", "sshd"]) == status
    assert asked == ["sshd"]
    assert capsys.readouterr().err == (f"{problem}\n" if problem else "")


@pytest.mark.parametrize("arguments", [["image-check"], ["image-check", "sshd", "root"], ["nothing"]])
def test_what_is_no_command_is_refused(monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    monkeypatch.setattr(commands, "load_settings", lambda _: ImageSettings())
    with pytest.raises(NodeError, match="usage"):
        commands.main(arguments)
