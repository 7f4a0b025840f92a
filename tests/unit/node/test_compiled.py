"""What is compiled is whole, on disk before it has its name, for all to read, and written by one process at a time."""

import fcntl
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import code_cache, compiled
from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import code

COLLECTIONS = Path(compiled.__file__).parents[5]
pytestmark = pytest.mark.root  # what is kept is root's


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """All of the code, kept."""
    code_cache.keep(code().digest, code().text, str(tmp_path / "state"), str(tmp_path / "run"))
    return Path(code_cache.place(code().digest, str(tmp_path / "state")))


def waited(place: Path) -> None:
    """Return when nobody compiles."""
    with (place / code_cache.COMPILING).open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)


def only(place: Path, *names: str) -> Iterator[tuple[str, bytes]]:
    """Of all that is not compiled yet, files of these names alone."""
    wanted = {Path(cache_from_source(name)).name for name in names}
    return (one for one in compiled.every(str(place)) if Path(one[0]).name in wanted)


def caches(place: Path) -> set[Path]:
    return set(place.rglob("*.pyc"))


def test_all_of_it_is_compiled_for_all_to_read(place: Path) -> None:
    umask = os.umask(0o077)
    try:
        compiled.later(str(place), lambda: compiled.every(str(place)))
    finally:
        os.umask(umask)
    waited(place)
    assert caches(place) == {Path(cache_from_source(str(path))) for path in place.rglob("*.py")}
    assert not list(compiled.every(str(place)))
    assert not [path for path in place.rglob("*") if path.suffix not in (".py", ".pyc") and path.is_file()
                and path.name not in ("lock", "compiling")]  # fmt: skip
    for path in caches(place):
        assert stat.S_IMODE(path.stat().st_mode) == 0o644
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o755


def test_python_takes_it_without_a_look_at_the_source(place: Path) -> None:
    source = place / code_cache._OURS / "paths.py"
    compiled.write(only(place, "paths.py"))
    source.write_text("raise SystemExit('compiled again')\n")
    line = (
        f"import sys; sys.path.insert(0, {str(place)!r}); sys.dont_write_bytecode = True\n"
        "from ansible_collections.gpuadmin.node.plugins.module_utils import paths; print(paths.STATE)\n"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", line], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("/var/lib/gpuadmin\n", "")


def test_what_is_no_python_here_is_left_out(place: Path) -> None:
    odd, fine = place / "odd.py", place / "fine.py"
    odd.write_text("match 1: nonsense\n")
    fine.write_text("X = 1\n")
    compiled.write(only(place, "odd.py", "fine.py"))
    assert {path.name.partition(".")[0] for path in caches(place)} == {"fine"}


def test_it_is_on_disk_before_it_has_its_name(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A power cut between the two would leave a name with nothing behind it, and every run of that code ends there."""
    steps: list[str] = []
    fsync, rename, replace = os.fsync, os.rename, os.replace

    def synced(handle: int) -> None:
        if stat.S_ISREG(os.fstat(handle).st_mode):
            steps.append(f"synced {os.fstat(handle).st_size}")
        fsync(handle)

    monkeypatch.setattr(os, "fsync", synced)
    for name, real in (("rename", rename), ("replace", replace)):
        monkeypatch.setattr(os, name, lambda a, b, real=real: (steps.append("named"), real(a, b))[1])
    source = str(place / code_cache._OURS / "paths.py")
    compiled.write(only(place, "paths.py"))
    assert steps == [f"synced {Path(cache_from_source(source)).stat().st_size}", "named"]


def test_a_full_disk_leaves_nothing_half(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        compiled.write(only(place, "paths.py"))
    assert not list((place / code_cache._OURS / "__pycache__").iterdir())


def test_one_process_at_a_time_does_it(place: Path) -> None:
    with (place / code_cache.COMPILING).open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        compiled.later(str(place), lambda: only(place, "paths.py"))
    waited(place)
    assert not caches(place), "another one is at it; what it leaves out is compiled after the next run"
    compiled.later(str(place), lambda: only(place, "paths.py"))
    waited(place)
    assert [path.name.partition(".")[0] for path in caches(place)] == ["paths"], "nothing else is written"


def test_what_is_being_pruned_is_not_written_to(place: Path) -> None:
    with (place / code_cache.LOCK).open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        compiled.later(str(place), lambda: compiled.every(str(place)))
        waited(place)
    assert not caches(place)


def test_where_nobody_can_compile_the_work_goes_on(place: Path) -> None:
    (place / code_cache.COMPILING).unlink()
    compiled.later(str(place), lambda: compiled.every(str(place)))
    assert not caches(place)


def test_who_writes_it_has_nothing_of_the_run(place: Path, tmp_path: Path) -> None:
    """Ansible waits until nobody has the output of a module, and a lock of the run's is over when the run is.

    Nor does it what the run does next.
    """
    gate = tmp_path / "gate"
    line = (
        f"import os, sys, time; sys.path[:0] = [{str(COLLECTIONS)!r}]; sys.dont_write_bytecode = True\n"
        "from ansible_collections.gpuadmin.node.plugins.module_utils import compiled\n"
        f"def slow():\n    while not os.path.exists({str(gate)!r}):\n        time.sleep(0.01)\n    yield from ()\n"
        f"compiled.later({str(place)!r}, slow)\n"
        f"open({str(tmp_path / 'next')!r}, 'a').write('x')\n"
    )
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    with (place / code_cache.COMPILING).open("w") as handle, pytest.raises(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it is there, has the lock, and was not waited for
    gate.touch()
    waited(place)
    time.sleep(0.3)  # one that went on would write it now
    assert (tmp_path / "next").read_text() == "x"


def test_it_takes_what_people_leave(place: Path, tmp_path: Path) -> None:
    def found() -> Iterator[tuple[str, bytes]]:
        (tmp_path / "seen").write_text(f"{os.nice(0)} {os.sched_getscheduler(0)}")
        yield from ()

    compiled.later(str(place), found)
    waited(place)
    assert (tmp_path / "seen").read_text() == f"19 {os.SCHED_IDLE}"


def test_a_run_that_compiled_nothing_begins_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "later", lambda *_rest: pytest.fail("begun"))
    compiled.after(str(place), {})
