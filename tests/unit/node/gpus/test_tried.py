"""Whether the gate is closed, as others read it: what nobody tried, or not lately, is not called closed."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import tried

NOW = 10_000.0


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "var/lib/gpuadmin").mkdir(parents=True)
    (tmp_path / "run/gpuadmin").mkdir(parents=True)
    (tmp_path / "var/lib/gpuadmin/gpu-gate.json").write_text('{"access": "granted"}')
    monkeypatch.setattr(tried, "_clock", lambda: NOW)
    return tmp_path


def write(root: Path, *problems: str) -> None:
    tried.write(problems, str(root / "run/gpuadmin"))


def test_a_gate_that_is_closed(root: Path) -> None:
    write(root)
    assert tried.problems(str(root)) == []


def test_what_was_wrong_is_said(root: Path) -> None:
    write(root, "ssh.service: /dev/nvidia1 can be opened, and is not granted")
    assert tried.problems(str(root)) == ["ssh.service: /dev/nvidia1 can be opened, and is not granted"]


def test_a_gate_that_nobody_tried_is_not_closed(root: Path) -> None:
    (problem,) = tried.problems(str(root)) or []
    assert "was not tried since the boot" in problem


def test_a_gate_that_was_tried_long_ago_is_not_closed(root: Path) -> None:
    write(root)
    assert tried.problems(str(root), NOW + tried.LATE) == []
    (problem,) = tried.problems(str(root), NOW + tried.LATE + 60) or []
    assert problem.startswith("the GPUs' gate was last tried 6 minutes ago")


@pytest.mark.parametrize("text", ["{", "[]", '{"seconds": "x", "problems": []}'])
def test_a_damaged_record_is_not_closed(root: Path, text: str) -> None:
    (root / "run/gpuadmin" / tried.RECORD).write_text(text)
    assert tried.problems(str(root)) == [f"whether the GPUs' gate is closed is not known: {tried.RECORD} is damaged"]


def test_damaged_settings_are_not_closed(root: Path) -> None:
    (root / "var/lib/gpuadmin/gpu-gate.json").write_text("{")
    (problem,) = tried.problems(str(root)) or []
    assert "is damaged" in problem


def test_where_everybody_may_nothing_is_wrong(root: Path) -> None:
    settings = root / "var/lib/gpuadmin/gpu-gate.json"
    settings.write_text('{"access": "open"}')
    assert tried.problems(str(root)) is None
    settings.unlink()
    assert tried.problems(str(root)) is None
