"""Where a process's open files are: real ones, of a kind that hides some."""

import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.open_files import places

from tests.support.unfinished import first_thread_ended

#: Threads: one that shares the files of the first, and one that has its own.
APART = """
import ctypes, threading, time
def apart():
    ctypes.CDLL(None).unshare(0x400)  # CLONE_FILES
    print(threading.get_native_id(), flush=True)
    time.sleep(60)
threading.Thread(target=time.sleep, args=(60,)).start()
threading.Thread(target=apart).start()
"""


def listed(directory: str) -> set[str]:
    return {one.name for one in Path(directory).iterdir()}


def test_of_an_ordinary_process_it_is_the_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as process:
        assert places(f"/proc/{process.pid}") == [f"/proc/{process.pid}"]
        process.kill()
    with pytest.raises(FileNotFoundError):
        places(f"/proc/{process.pid}")


@pytest.mark.root
@pytest.mark.holds("what a thread has opened in files of its own is held as well")
def test_a_thread_with_files_of_its_own_is_another_place() -> None:
    with subprocess.Popen([sys.executable, "-c", APART], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        thread = process.stdout.readline().strip()
        base = f"/proc/{process.pid}"
        assert len(listed(f"{base}/task")) == 3
        assert places(base) == [base, f"{base}/task/{thread}"], "what shares the first one's is not read again"
        process.kill()


@pytest.mark.root
@pytest.mark.holds("who ended their first thread alone still holds what the others have open")
def test_a_process_without_its_first_thread_has_its_others(tmp_path: Path) -> None:
    with (tmp_path / "x").open("w") as stream, first_thread_ended(31154, stream.fileno()) as process:
        base = f"/proc/{process.pid}"
        (thread,) = listed(f"{base}/task") - {str(process.pid)}
        assert listed(f"{base}/fd") == set()
        assert f"{base}/task/{thread}" in places(base)
