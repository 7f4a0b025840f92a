"""One process for all, and another only where one was lost: what hangs or dies is one thing's problem."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import in_turn as module
from ansible_collections.gpuadmin.node.plugins.module_utils.each import Failed
from ansible_collections.gpuadmin.node.plugins.module_utils.in_turn import in_turn


def job(task: str) -> str:
    if task == "dies":
        os._exit(7)
    if task == "hangs":
        time.sleep(600)  # a file server that is away
    if task == "is forbidden":
        raise PermissionError(13, "Permission denied", "/home/minji")
    return f"{task} {os.getpid()}"


@pytest.mark.holds("what hangs in one's home is that one's problem")
def test_whatever_one_does_the_others_have_results_in_their_order() -> None:
    tasks = ["a", "dies", "b", "is forbidden", "c", "hangs", "d"]
    found = list(in_turn(job, tasks, seconds=1, total=60))
    assert [task for task, _ in found] == tasks
    told = dict(found)
    assert [str(told[one]).split()[0] for one in "abcd"] == ["a", "b", "c", "d"]
    assert told["dies"] == Failed("its process was ended")
    assert told["hangs"] == Failed("did not answer in 1 s", late=True)
    assert told["is forbidden"] == Failed("/home/minji: Permission denied")
    assert str(told["b"]).split()[1] == str(told["c"]).split()[1] != str(os.getpid()), "one process for all"


@pytest.mark.holds("what is not reached in time starts no more processes")
def test_all_together_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    begin, processes = module._begin, []

    def counted(function: Any, tasks: Any) -> Any:
        processes.append(len(tasks))
        return begin(function, tasks)

    monkeypatch.setattr(module, "_begin", counted)
    begun = time.monotonic()
    found = list(in_turn(job, ["a", *["hangs"] * 50, "b"], seconds=0.5, total=2))
    assert 2 <= len(processes) <= 6
    assert time.monotonic() - begun < 10
    assert len(found) == 52
    assert found[-1] == ("b", Failed("was not reached in time", late=True))


def _outputs(_: str) -> list[str]:
    return [str(Path(f"/proc/self/fd/{number}").readlink()) for number in (0, 1, 2)]


@pytest.mark.holds("what hangs holds nothing of ours")
def test_one_that_nobody_can_end_does_not_hold_our_output() -> None:
    """A FUSE that has read a request and never answers keeps its process, and with it ssh, which waits for the end."""
    assert list(in_turn(_outputs, ["a"], seconds=10, total=10)) == [("a", ["/dev/null"] * 3)]
