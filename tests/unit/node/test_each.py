"""The same job on many homes: what one does to its process is that home's problem, and the others go on."""

import errno
import mmap
import multiprocessing
import os
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.each import MEMORY, Failed, each
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError


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
