"""The same job on many homes: the others go on, whatever one does to its process, and each costs so much at most."""

import errno
import mmap
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import budget
from ansible_collections.gpuadmin.node.plugins.module_utils import in_turn as module
from ansible_collections.gpuadmin.node.plugins.module_utils.budget import Budget, OverBudget
from ansible_collections.gpuadmin.node.plugins.module_utils.each import MEMORY, Failed, each
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.in_turn import in_turn


def job(task: str) -> str:
    if task == "dies":
        os._exit(7)
    if task == "refuses":
        raise NodeError("there is no such home")
    if task == "is broken":
        raise ZeroDivisionError("oops")
    if task == "takes long":
        time.sleep(60)  # longer than the deadline
    if task == "is forbidden":
        raise PermissionError(errno.EACCES, "Permission denied", "/home/minji")
    if task == "takes memory":
        raise MemoryError
    return task.upper()


def test_whatever_one_does_the_others_have_results() -> None:
    tasks = ["a", "dies", "refuses", "is broken", "takes memory", "is forbidden", "b"]
    done = dict(each(job, tasks, 2, 50))
    assert (done["a"], done["b"]) == ("A", "B")
    assert done["dies"] == Failed("its process was ended (status 7)")
    assert done["refuses"] == Failed("there is no such home")
    assert done["is broken"] == Failed("ZeroDivisionError: oops")
    assert done["is forbidden"] == Failed("/home/minji: Permission denied"), "people read it: gpuadmin-me"
    assert done["takes memory"] == Failed("takes more than 6 GiB of memory")


def test_one_that_goes_on_is_ended() -> None:
    begun = time.monotonic()
    done = dict(each(job, ["takes long", "a"], 2, 3, grace=0.5, setting=" (backups.home_seconds)"))
    assert done == {"takes long": Failed("did not end within 3 seconds (backups.home_seconds)", late=True), "a": "A"}
    assert time.monotonic() - begun < 30


def test_a_full_disk_is_nobody_s_problem_by_itself() -> None:
    def full(_: str) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(OSError, match="No space left") as caught:
        list(each(full, ["a"], 1, 50))
    assert caught.value.errno == errno.ENOSPC


def test_who_stops_asking_leaves_no_process() -> None:
    before = set(multiprocessing.active_children())
    running = each(job, ["a", "takes long", "takes long"], 3, 50)
    assert next(running) == ("a", "A")
    assert len(set(multiprocessing.active_children()) - before) == 2
    running.close()
    assert set(multiprocessing.active_children()) == before


def reserve(size: int) -> mmap.mmap:
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # linux/mman.h: MAP_NORESERVE


def test_what_the_parent_had_is_not_counted() -> None:
    """A parent with a large address space leaves its children as much as any other does."""
    tasks = [MEMORY // 2, MEMORY + (1 << 30)]
    with reserve(MEMORY + (1 << 30)):
        done = dict(each(lambda size: len(reserve(size)), tasks, 1, 50))
    assert done[tasks[0]] == tasks[0]
    assert isinstance(done[tasks[1]], Failed)
    assert "Cannot allocate memory" in done[tasks[1]].why


def _outputs(_: str) -> list[str]:
    return [str(Path(f"/proc/self/fd/{number}").readlink()) for number in (0, 1, 2)]


@pytest.mark.holds("what hangs holds nothing of ours")
def test_one_that_nobody_can_end_does_not_hold_our_output() -> None:
    """A FUSE that has read a request and never answers keeps its process, and with it ssh, which waits for the end."""
    assert list(each(_outputs, ["a"], 1, 50)) == [("a", ["/dev/null"] * 3)]
    assert list(in_turn(_outputs, ["a"], seconds=10, total=10)) == [("a", ["/dev/null"] * 3)]


def answer_slowly(task: str) -> str:
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
    found = list(in_turn(answer_slowly, tasks, seconds=1, total=60))
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
    found = list(in_turn(answer_slowly, ["a", *["hangs"] * 50, "b"], seconds=0.5, total=2))
    assert 2 <= len(processes) <= 6
    assert time.monotonic() - begun < 10
    assert len(found) == 52
    assert found[-1] == ("b", Failed("was not reached in time", late=True))


def test_entries_are_counted_and_a_long_path_counts_more() -> None:
    one = Budget(60, 3)
    for _ in range(3):
        one.spend(b"a")
    with pytest.raises(OverBudget, match=r"more than 3 entries \(backups.home_entries\)"):
        one.spend(b"a")
    with pytest.raises(OverBudget, match="more than 3 entries"):
        Budget(60, 3).spend(b"a" * 3072)
    with pytest.raises(OverBudget, match="a path of more than"):
        budget.unlimited().spend(b"a" * (budget.PATH + 1))


def test_the_time_is_one_for_all_walks_and_the_entries_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(budget.time, "monotonic", lambda: now[0])
    first = Budget(10, 1, setting=False)
    first.spend(b"a")
    now[0] = 109
    second = first.again()
    second.spend(b"a")
    now[0] = 111
    with pytest.raises(OverBudget, match=r"longer than 10 seconds$"):
        second.check()


def test_names_take_memory_until_they_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budget, "MEMORY", 1000)
    one = Budget(60, 100)
    held = one.names([b"a" * 300, b"b" * 300])
    with pytest.raises(OverBudget, match="more names at once"):
        one.hold(b"c" * 300)
    one = Budget(60, 100)
    for name in held * 5:
        one.hold(name)
        one.release(name)


def test_what_is_written_has_an_end() -> None:
    one = Budget(60, 1, 10)
    one.write(10)
    with pytest.raises(OverBudget, match="too large to be copied"):
        one.write(1)
