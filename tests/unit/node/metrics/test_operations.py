"""MIG as a verb asks for it: what is answered, in check mode and in a run, and who is told."""

import os
from collections.abc import Collection
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import gate, mig
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.mig import Waiting
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import dividing, operations
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.dividing import Places
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.operations import MigOrder

from gpuadmin.common.records.gpus import Division

FREE = Division(0, mig.CHANGE, "7g.80gb (now whole)", (), (("nvidia-smi", "-mig", "1"),))
DONE = Division(0, mig.AS_WANTED, "7g.80gb", ())
HELD = Division(1, mig.WAITS, "7g.80gb (now whole)", ("minji holds it",))
REFUSED = Division(2, mig.REFUSED, "it has no MIG", ())
ALWAYS = Division(3, mig.AS_WANTED, "whole", ())


class Fake:
    """A host on which GPU 0 can be divided."""

    first = (FREE, HELD, REFUSED, ALWAYS)
    last = (DONE, HELD, REFUSED, ALWAYS)
    uuids: ClassVar = {0: "GPU-a", 1: "GPU-b"}
    uids: ClassVar = {"minji holds it": 20001, "(unknown) holds it": -1}

    def __init__(self, wanted: object, places: object) -> None:
        assert wanted == {0: ["7g.80gb"]}

    def look(self, only: Collection[int] | None) -> list[Division]:
        return [one for one in self.first if only is None or one.gpu in only]

    def run(self, only: Collection[int] | None) -> list[Division]:
        return [one for one in self.last if only is None or one.gpu in only]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    found: list[int] = []
    monkeypatch.setattr(dividing, "Divider", Fake)
    monkeypatch.setattr(operations.terminals, "tell", lambda message, uid: found.append(uid))
    return found


def asked(at: Path, check: bool = False, **more: Any) -> dict[str, Any]:
    document = MigOrder(mig={"0": ["7g.80gb"]}, **more)
    return dict(operations.divide_gpus(document, check, Places(gate=gate.Places(run=str(at)))).result())


def test_a_check_says_every_difference(told: list[int], tmp_path: Path) -> None:
    found = asked(tmp_path, check=True, mig_waiting="go")
    assert (found["changed"], "failed" in found, told) == (True, False, [])
    assert found["operations"] == [
        "GPU 0: 7g.80gb (now whole)", "GPU 1: 7g.80gb (now whole) waits: minji holds it", "GPU 2: it has no MIG",
    ]  # fmt: skip
    assert [one["state"] for one in found["report"]["mig"]["steps"]] == ["change", "waits", "refused", "as wanted"]
    assert asked(tmp_path, check=True, mig_gpus=[3])["changed"] is False


@pytest.mark.holds("a GPU that was not divided is not said to be")
def test_a_run_says_what_was_done_and_fails_for_what_was_left(told: list[int], tmp_path: Path) -> None:
    found = asked(tmp_path)
    assert found["operations"] == ["GPU 0: 7g.80gb"]
    assert found["conflicts"] == ["GPU 1: 7g.80gb (now whole) waits: minji holds it", "GPU 2: it has no MIG"]
    assert found["failed"] is True
    found = asked(tmp_path, mig_gpus=[0])
    assert (found["changed"], "failed" in found) == (True, False)
    assert asked(tmp_path, mig_gpus=[3])["changed"] is False


def test_who_is_waited_for_is_told_once(told: list[int], tmp_path: Path) -> None:
    for _ in range(2):
        found = asked(tmp_path, mig_gpus=[0, 1], mig_waiting="go")
        assert "failed" not in found, "they are waited for"
        assert found["msg"].startswith("GPU 1: ")
    assert told == [20001]
    assert mig.waiting(str(tmp_path)) == Waiting(["GPU-b"], [20001])
    asked(tmp_path, mig_gpus=[0], mig_waiting="go")
    assert mig.waiting(str(tmp_path)).gpus == [], "nobody waits any more"
    path = tmp_path / mig.WAITING
    os.utime(path, (1.0, 1.0))
    asked(tmp_path, mig_gpus=[1], mig_waiting="go")
    assert told == [20001, 20001], "told again another day"
    os.utime(path, (1.0, 1.0))
    assert mig.waiting(str(tmp_path)) == Waiting(), "whoever waited was cut off"
    path.write_text("no JSON")
    assert mig.waiting(str(tmp_path)) == Waiting()


def test_a_site_that_says_nothing_of_mig(told: list[int], tmp_path: Path) -> None:
    found = operations.divide_gpus(MigOrder(), False).result()
    assert (found["changed"], found["report"]) == (False, {"mig": {"steps": []}})
