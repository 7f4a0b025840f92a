"""Code on a host is whole: compiled and on disk before it has its name, sent by nothing but itself."""

import fcntl
import os
import stat
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import arriving, code_cache, compiled, ship
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import jobs as backup_jobs
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import jobs as image_jobs
from ansible_collections.gpuadmin.node.plugins.module_utils.operation import ROOMS
from ansible_collections.gpuadmin.node.plugins.module_utils.root import guard
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import jobs as wipe_jobs
from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import ARRIVE, code

from gpuadmin.common import tokens
from tests.support.failing import raising
from tests.support.node_code import PACKAGE

COLLECTIONS = Path(compiled.__file__).parents[5]


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


@pytest.mark.root
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


@pytest.mark.root
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


@pytest.mark.root
def test_what_is_no_python_here_is_left_out(place: Path) -> None:
    odd, fine = place / "odd.py", place / "fine.py"
    odd.write_text("match 1: nonsense\n")
    fine.write_text("X = 1\n")
    compiled.write(only(place, "odd.py", "fine.py"))
    assert {path.name.partition(".")[0] for path in caches(place)} == {"fine"}


@pytest.mark.root
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


@pytest.mark.root
def test_a_full_disk_leaves_nothing_half(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", raising(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        compiled.write(only(place, "paths.py"))
    assert not list((place / code_cache._OURS / "__pycache__").iterdir())


@pytest.mark.root
def test_one_process_at_a_time_does_it(place: Path) -> None:
    with (place / code_cache.COMPILING).open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        compiled.later(str(place), lambda: only(place, "paths.py"))
    waited(place)
    assert not caches(place), "another one is at it; what it leaves out is compiled after the next run"
    compiled.later(str(place), lambda: only(place, "paths.py"))
    waited(place)
    assert [path.name.partition(".")[0] for path in caches(place)] == ["paths"], "nothing else is written"


@pytest.mark.root
def test_what_is_being_pruned_is_not_written_to(place: Path) -> None:
    with (place / code_cache.LOCK).open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        compiled.later(str(place), lambda: compiled.every(str(place)))
        waited(place)
    assert not caches(place)


@pytest.mark.root
def test_where_nobody_can_compile_the_work_goes_on(place: Path) -> None:
    (place / code_cache.COMPILING).unlink()
    compiled.later(str(place), lambda: compiled.every(str(place)))
    assert not caches(place)


@pytest.mark.root
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


@pytest.mark.root
def test_it_takes_what_people_leave(place: Path, tmp_path: Path) -> None:
    def found() -> Iterator[tuple[str, bytes]]:
        (tmp_path / "seen").write_text(f"{os.nice(0)} {os.sched_getscheduler(0)}")
        yield from ()

    compiled.later(str(place), found)
    waited(place)
    assert (tmp_path / "seen").read_text() == f"19 {os.SCHED_IDLE}"


@pytest.mark.root
def test_a_run_that_compiled_nothing_begins_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "later", lambda *_rest: pytest.fail("begun"))
    compiled.after(str(place), {})


def send(text: str, state: Path, digest: str = code().digest) -> tuple[int, str]:
    """Exit status, and what the host's answer is, as action/operation.py sends it."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ARRIVE, digest, str(state)],
        input=zlib.compress(text.encode()), capture_output=True, check=False, timeout=60, cwd=state,
    )  # fmt: skip
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


@pytest.mark.root
def test_it_is_there_as_it_was_sent(tmp_path: Path) -> None:
    assert send(code().text, tmp_path) == (0, "")
    assert code_cache.has(code().digest, str(tmp_path))
    (place,) = tmp_path.glob("lib/*")
    for name in (arriving, code_cache):
        assert (place / code_cache._OURS / Path(str(name.__file__)).name).read_text() == Path(
            str(name.__file__)
        ).read_text()
    assert not list(place.rglob("*.pyc")), "compiled by nobody who is waited for"
    assert send(code().text, tmp_path) == (0, ""), "a second one that came at the same time"


@pytest.mark.root
def test_what_is_not_of_its_digest_is_not_kept(tmp_path: Path) -> None:
    status, reason = send(code().text, tmp_path, "0" * 64)
    assert (status, reason.strip()) == (1, "the code that arrived is not what was sent: its sha256 is another one")
    assert not list(tmp_path.iterdir())


@pytest.mark.root
def test_a_host_that_cannot_keep_it_says_why(tmp_path: Path) -> None:
    (tmp_path / "lib").write_text("in the way")
    status, reason = send(code().text, tmp_path)
    assert status == 1
    assert str(tmp_path / "lib") in reason
    assert "Traceback" not in reason


@pytest.mark.root
def test_what_runs_next_is_loaded_from_the_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of what was in memory stays."""
    ours = [name for name in sys.modules if name.startswith("ansible_collections.gpuadmin.node")]
    for name in ours:
        monkeypatch.delitem(sys.modules, name)
    before = set(sys.modules)
    finders = list(sys.meta_path)
    monkeypatch.setattr(sys, "meta_path", finders)
    assert arriving.keep(code().digest, code().text, str(tmp_path)) is None
    assert not any(isinstance(finder, arriving.Arrived) for finder in sys.meta_path)
    assert not {name for name in set(sys.modules) - before if name.startswith("ansible_collections.gpuadmin.node")}


@pytest.mark.root
def test_every_operation_runs_from_memory(tmp_path: Path) -> None:
    """In check mode a host does not keep the code that comes with a call: nothing of it is a file."""
    script = (
        "import importlib, json, sys\n"
        "files = json.load(sys.stdin)\n"
        "own = {'__name__': 'arriving'}\n"
        "exec(next(text for name, text in files.items() if name.endswith('/module_utils/arriving.py')), own)\n"
        "sys.meta_path.insert(0, own['Arrived'](files))\n"
        "found = [name[:-3].replace('/', '.') for name in files if name.endswith('/operations.py')]\n"
        "for name in found: importlib.import_module(name)\n"
        "print(len(found))\n"
    )
    command = [sys.executable, "-I", "-S", "-c", script]
    done = subprocess.run(command, input=code().text, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) == len(ROOMS) - 1, "all but the take-over's"


def test_the_shipped_package_needs_no_more(tmp_path: Path) -> None:
    jobs = {
        "backups.jobs": backup_jobs.make_backup,
        "wipe.jobs": wipe_jobs.empty_trash,
        "images.jobs": image_jobs.step,
    }
    ship.ship_package(str(tmp_path))
    assert (tmp_path / "gpuadmin/common/tokens.py").read_text() == Path(tokens.__file__).read_text()
    imports = "; ".join(f"from {PACKAGE}.{module} import {job.__name__}" for module, job in jobs.items())
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {PACKAGE}.background; {imports}"
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


def test_a_module_that_stands_alone(tmp_path: Path) -> None:
    ship.ship(guard, str(tmp_path / "new/guard.py"))
    assert (tmp_path / "new/guard.py").read_text() == Path(guard.__file__).read_text()
    with pytest.raises(NodeError, match=r"source of .* cannot be found"):
        ship.ship(ModuleType("made"), str(tmp_path / "made.py"))
