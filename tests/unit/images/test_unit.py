"""The work on a node as a unit: begun once in a run, looked after in short calls, found again by the next run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import units
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import trial, unit
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places

PUSH = {"action": "push", "name": "one"}


class Systemd:
    """A unit that works for as long as a test says."""

    def __init__(self, places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
        self.places, self.begun, self.works = places, 0, False
        monkeypatch.setattr(unit, "active", lambda: self.works)
        monkeypatch.setattr(unit, "start_unit", self.start)

    def start(self, *_arguments: object) -> None:
        self.begun, self.works = self.begun + 1, True

    def end(self, *, result: bool = True) -> None:
        request = json.loads((Path(self.places.run) / unit.REQUEST).read_text())
        if result:
            text = json.dumps({"format": 1, "request": request["id"], "failed": False, "operations": ["done"]})
            (Path(self.places.run) / unit.RESULT).write_text(text)
        self.works = False


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(run=str(tmp_path / "run"), early_deadline=str(tmp_path / "pid"))


@pytest.fixture
def systemd(places: Places, monkeypatch: pytest.MonkeyPatch) -> Systemd:
    return Systemd(places, monkeypatch)


def attend(places: Places, run_id: str, request: dict[str, Any] | None = None) -> dict[str, object]:
    return unit.attend(request or PUSH, run_id, "/code", places, wait=0.0, python="python3")


def test_it_is_begun_once_and_its_result_is_found(places: Places, systemd: Systemd) -> None:
    assert attend(places, "a push") == {"finished": False, "progress": ""}
    (Path(places.run) / unit.PROGRESS).write_text("fetching 1.0 of 2.0 MB\n")
    assert attend(places, "a push")["progress"] == "fetching 1.0 of 2.0 MB"
    systemd.end()
    done = attend(places, "a push")
    assert (done["finished"], done["operations"]) == (True, ["done"])
    assert systemd.begun == 1


def test_the_next_run_waits_for_what_an_earlier_one_began_and_then_does_its_own(
    places: Places, systemd: Systemd
) -> None:
    attend(places, "a push")
    assert attend(places, "b push")["finished"] is False
    assert systemd.begun == 1
    systemd.end()
    assert attend(places, "b push")["finished"] is False
    assert systemd.begun == 2
    systemd.end()
    assert attend(places, "b push")["finished"] is True


def test_other_work_is_not_disturbed(places: Places, systemd: Systemd) -> None:
    attend(places, "a push")
    with pytest.raises(NodeError, match=r"is at other work on images \(push one\)"):
        attend(places, "b push", {"action": "push", "name": "two"})


def test_work_that_was_killed_is_not_begun_again_by_itself(places: Places, systemd: Systemd) -> None:
    attend(places, "a push")
    systemd.end(result=False)
    with pytest.raises(NodeError, match="ended from outside"):
        attend(places, "a push")
    assert attend(places, "b push")["finished"] is False
    assert systemd.begun == 2


def test_a_name_that_is_taken_for_a_moment_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [NodeError("Unit x.service was already loaded"), None]

    def run(*_arguments: object, **_more: object) -> str:
        answer = answers.pop(0)
        if answer is not None:
            raise answer
        return ""

    monkeypatch.setattr(units, "run", run)
    units.start_unit("x.service", "yes", "x", ("true",))
    assert answers == []
    answers.append(NodeError("no such property"))
    with pytest.raises(NodeError, match="no such property"):
        units.start_unit("x.service", "yes", "x", ("true",))


def test_the_early_deadline_is_ended_and_no_other_process(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed: list[int] = []
    monkeypatch.setattr(trial.os, "kill", lambda pid, number: killed.append(pid))
    for pid, words in ((41, b"/bin/sh\0/scripts/init-top/gpuadmin-trial\0"), (42, b"/usr/bin/python3\0train.py\0")):
        (tmp_path / str(pid)).mkdir()
        (tmp_path / str(pid) / "cmdline").write_bytes(words)
        Path(places.early_deadline).write_text(f"{pid}\n")
        trial.end_early_deadline(places, proc=str(tmp_path))
        assert not Path(places.early_deadline).exists()
    Path(places.early_deadline).write_text("43\n")
    trial.end_early_deadline(places, proc=str(tmp_path))
    trial.end_early_deadline(places, proc=str(tmp_path))
    assert killed == [41]
