"""Code that a host keeps is whole, only root's, of the digest that it is named after, and gone when nobody needs it."""

import fcntl
import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible.executor import module_common
from ansible_collections.gpuadmin.node.plugins.module_utils import code_cache
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.modules import operation
from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import code, packed

from tests.support.failing import raising
from tests.support.node_code import PACKAGE
from tests.support.operations import ask

pytestmark = pytest.mark.root  # what is kept is root's


def small(word: str) -> tuple[str, str]:
    """Digest and text of a code that has next to nothing."""
    names = {"one.py": f"WORD = {word!r}\n", f"{code_cache._OURS}/cli.py": "import sys\nsys.exit(7)\n"}
    text = json.dumps(names)
    return hashlib.sha256(text.encode()).hexdigest(), text


@pytest.fixture
def state(tmp_path: Path) -> Path:
    (tmp_path / "state").mkdir(mode=0o755)
    (tmp_path / "run").mkdir(mode=0o700)
    tmp_path.chmod(0o755)
    return tmp_path / "state"


@pytest.fixture
def keep(state: Path) -> Callable[[str], Path]:
    def kept(word: str) -> Path:
        digest, text = small(word)
        code_cache.keep(digest, text, str(state), str(state.parent / "run"))
        return Path(code_cache.place(digest, str(state)))

    return kept


def test_it_is_whole_and_only_root_writes_it(keep: Callable[[str], Path]) -> None:
    umask = os.umask(0)
    place = keep("a")
    assert os.umask(umask) == 0, "it was left as it was"
    assert (place / "one.py").read_text() == "WORD = 'a'\n"
    for path in (place, *place.rglob("*")):
        expected = 0o755 if path.is_dir() else 0o600 if path.name in ("lock", "compiling") else 0o644
        assert stat.S_IMODE(path.stat().st_mode) == expected, path
    assert [path.name for path in place.parent.iterdir()] == [place.name], "nothing else is left there"
    times = place.stat().st_mtime_ns
    keep("a")
    assert place.stat().st_mtime_ns == times, "it is not written again"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("WORD", "BIRD"), "sha256 is another one"),
        (lambda text: text.replace("one.py", "../one.py"), "not the path of a Python file"),
        (lambda text: text.replace("one.py", "/etc/one.py"), "not the path of a Python file"),
        (lambda text: text.replace("one.py", "a/../one.py"), "not the path of a Python file"),
    ],
)
def test_what_was_not_sent_is_not_kept(state: Path, change: Callable[[str], str], message: str) -> None:
    digest, text = small("a")
    changed = change(text)
    if "sha256" not in message:
        digest = hashlib.sha256(changed.encode()).hexdigest()
    with pytest.raises(NodeError, match=message):
        code_cache.keep(digest, changed, str(state), str(state.parent / "run"))
    with pytest.raises(NodeError, match="is not a sha256"):
        code_cache.keep("../" * 20, changed, str(state), str(state.parent / "run"))
    assert list(state.iterdir()) == []


def test_what_was_cut_off_is_found_and_does_not_count(state: Path, keep: Callable[[str], Path]) -> None:
    begun = state / "lib/.part-new"
    begun.mkdir(parents=True)
    (begun / "one.py").write_text("WORD = 'half'\n")
    (begun / "other.py").touch()
    digest, _text = small("a")
    assert not code_cache.has(digest, str(state))
    place = keep("a")
    assert (place / "one.py").read_text() == "WORD = 'a'\n"
    assert not (place / "other.py").exists()
    assert not begun.exists()


def test_a_full_disk_has_no_half_of_it(
    state: Path, keep: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_cache, "sync_filesystem", raising(NodeError("no space left on device")))
    with pytest.raises(NodeError, match="no space"):
        keep("a")
    assert list((state / "lib").iterdir()) == []


@pytest.mark.parametrize("link", [code_cache.LINK, code_cache.TAKEOVER_LINK])
def test_old_code_goes_when_nobody_runs_from_it(state: Path, keep: Callable[[str], Path], link: str) -> None:
    places = [keep("linked")]
    code_cache.link(small("linked")[0], str(state), str(state.parent / "run"), link)
    places += [keep(word) for word in ("running", "old")]
    for age, place in enumerate(reversed(places)):
        os.utime(place, (1000 - age, 1000 - age))
    handle = os.open(places[1] / code_cache.LOCK, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)
    newer = []
    for word in "abc":
        newer.append(keep(word))
        os.utime(newer[-1], (2000 + len(newer),) * 2)
    assert [place.exists() for place in (*places, *newer)] == [True, True, False, True, True, True]
    os.close(handle)
    keep("d")
    assert [place.exists() for place in places] == [True, False, False]


def test_units_run_one_code_or_the_other(state: Path, keep: Callable[[str], Path]) -> None:
    link = state / "lib/gpuadmin_node"
    where = str(state.parent / "run")
    for word in "abb":
        place, digest = keep(word), small(word)[0]
        code_cache.link(digest, str(state), where)
        assert (link / "cli.py").resolve() == (place / code_cache._OURS / "cli.py").resolve()
        assert code_cache.linked(digest, str(state))
    assert not code_cache.linked(small("a")[0], str(state))
    assert not list(state.glob("lib/.part-*"))


def test_units_of_the_take_over_run_their_own(state: Path, keep: Callable[[str], Path]) -> None:
    """Whatever is provisioned while a boot is waited for."""
    keep("daily")
    place, digest = keep("once"), small("once")[0]
    code_cache.link(small("daily")[0], str(state), str(state.parent / "run"))
    done = ask("code", {"digest": digest, "link": True, "takeover": True, "state_directory": str(state)})
    assert done["changed"]
    assert (state / "lib/gpuadmin_takeover").resolve() == (place / "gpuadmin/takeover/node").resolve()
    assert code_cache.linked(digest, str(state), code_cache.TAKEOVER_LINK)
    assert code_cache.linked(small("daily")[0], str(state))


def test_old_code_without_its_lock_stays_and_the_rest_goes(state: Path, keep: Callable[[str], Path]) -> None:
    places = [keep(word) for word in ("lost", "old")]
    (places[0] / code_cache.LOCK).unlink()
    for age, place in enumerate(places):
        os.utime(place, (1000 + age,) * 2)
    for number, word in enumerate("abc"):
        os.utime(keep(word), (2000 + number,) * 2)
    assert [place.exists() for place in places] == [True, False]


@pytest.mark.holds(
    "a look lets units run what they ran",
    "units are not led to code that is not there",
    "units run other code only where somebody asks for that",
)
@pytest.mark.parametrize("check", [False, True])
def test_units_get_no_code_that_is_not_there(state: Path, keep: Callable[[str], Path], check: bool) -> None:
    """A link to nothing would be a host whose units end with an error at the next boot."""
    keep("a")
    before, after = small("a")[0], small("b")[0]
    code_cache.link(before, str(state), str(state.parent / "run"))
    arguments = {"link": True, "state_directory": str(state)}
    answer = ask("code", {**arguments, "digest": after}, check=check)
    assert (answer["missing"], answer["changed"]) == (True, True)
    assert code_cache.linked(before, str(state)), "they run what they ran"
    keep("b")
    unlinked = ask("code", {"digest": after, "state_directory": str(state)}, check=check)
    assert (unlinked["operations"], code_cache.linked(before, str(state))) == ([], True), "nobody asked for that"
    there = ask("code", {**arguments, "digest": after}, check=check)
    assert (there["missing"], there["operations"]) == (False, [f"install the node code {after[:12]}"])
    assert code_cache.linked(before if check else after, str(state)), "a look changes no link"
    again = ask("code", {**arguments, "digest": after}, check=check)
    assert again["operations"] == (there["operations"] if check else [])


def called(
    name: str, library: Path, arguments: dict[str, Any], digest: str | None = None, cwd: str | Path = "/",
    *, check: bool = True, carried: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """What a host answers: the module as Ansible sends it, on the standard input."""
    given = {
        "digest": digest or code().digest, "library": str(library), "operation": name,
        "document": packed(json.dumps(arguments)), "_ansible_check_mode": check, "_ansible_module_name": "operation",
    }  # fmt: skip
    if carried:
        given["code"] = packed(code().text)
    source = Path(operation.__file__).read_bytes()
    text = json.dumps(given).encode()
    source = source.replace(module_common.REPLACER_COMPLEX, repr(text).encode())
    source = source.replace(module_common.REPLACER_JSONARGS, text)
    done = subprocess.run(
        [sys.executable, "-S"], input=source, capture_output=True, check=False, timeout=60, cwd=cwd,
    )  # fmt: skip
    assert done.stderr == b""
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def nothing(reason: str) -> dict[str, Any]:
    """The answer when nothing was run."""
    return {"changed": False, "kept": reason, "python": sys.executable}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory with all of the code: made once."""
    top = tmp_path_factory.mktemp("whole")
    (top / "state").mkdir(mode=0o755)
    code_cache.keep(code().digest, code().text, str(top / "state"), str(top / "run"))
    return top / "state/lib"


@pytest.fixture
def library(whole: Path, state: Path) -> Path:
    shutil.copytree(whole, state / "lib")
    return state / "lib"


@pytest.mark.holds("a look compiles nothing")
def test_an_operation_runs_from_it_alone(library: Path, tmp_path: Path) -> None:
    target = tmp_path / 'x\' """ \\ \u2028 {{ 1 }}'
    wanted = {"directories": [{"path": str(target)}]}
    answer = called("files", library, wanted)
    assert answer["operations"] == [f"make directory {target}"], answer
    assert not target.exists(), "check mode arrived"
    assert called("files", library, {"no": "such option"})["failed"]
    assert not list(library.rglob("*.pyc")), (
        "a look leaves nothing, and Python's own way of writing it is not cut-proof"
    )


def test_what_ran_is_compiled_after_it_and_nothing_else(library: Path, tmp_path: Path) -> None:
    """What it compiles is what is run next: root reads no file there that Python wrote by itself."""
    wanted = {"directories": [{"path": str(tmp_path / "made")}]}
    assert called("files", library, wanted, check=False)["operations"] == [f"make directory {tmp_path / 'made'}"]
    ours = library / f"{code().digest}.{sys.implementation.cache_tag}" / code_cache._OURS
    compiling(ours / "compiling")
    names = {path.name.partition(".")[0] for path in ours.glob("__pycache__/*.pyc")}
    assert {"operation", "documents", "compiled", "code_cache"} <= names
    ran = {path.name.partition(".")[0] for path in ours.glob("root/__pycache__/*.pyc")}
    assert ran == {"__init__", "guard", "operations", "session", "tree"}
    assert not names & {"background", "btrfs"}, "what was not loaded is not compiled"
    before = {path: path.stat().st_mtime_ns for path in library.rglob("*.pyc")}
    assert called("files", library, wanted, check=False)["operations"] == []
    compiling(ours / "compiling")
    assert {path: path.stat().st_mtime_ns for path in library.rglob("*.pyc")} == before


@pytest.mark.holds("Python writes no compiled code by itself where root's code is")
def test_python_writes_nothing_there_by_itself(library: Path, tmp_path: Path) -> None:
    """It does not wait until a file is on disk before the file has its name."""
    ours = library / f"{code().digest}.{sys.implementation.cache_tag}" / code_cache._OURS
    with (ours / "compiling").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)  # as if another one wrote
        called("files", library, {"directories": [{"path": str(tmp_path / "made")}]}, check=False)
        assert not list(library.rglob("*.pyc"))


def compiling(lock: Path) -> None:
    """Wait until nobody compiles."""
    with lock.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)


def test_code_that_comes_with_a_call_leaves_nothing(state: Path, tmp_path: Path) -> None:
    """A host that gpuadmin only looks at keeps no code; a job there still takes along what it needs."""
    wanted = {"directories": [{"path": str(tmp_path / "made")}]}
    answer = called("files", state / "lib", wanted, carried=True)
    assert answer["operations"] == [f"make directory {tmp_path / 'made'}"]
    assert list(state.iterdir()) == []
    assert called("files", state / "lib", wanted, check=False, carried=True)["changed"]
    assert (tmp_path / "made").is_dir()
    assert list(state.iterdir()) == []


def test_only_the_code_of_that_digest_is_run(library: Path, state: Path) -> None:
    assert called("host_facts", library, {}, "0" * 64) == nothing("absent")
    assert called("host_facts", state.parent / "nowhere/lib", {}) == nothing("new")


@pytest.mark.holds("root imports nothing from where somebody starts it")
def test_what_lies_where_it_is_started_is_not_imported(state: Path, tmp_path: Path) -> None:
    """Root may be made of somebody who starts it in their own directory: what they named like a module is theirs."""
    home = tmp_path / "home"
    home.mkdir()
    for name in ("base64", "fcntl", "importlib", "json", "zlib"):
        (home / f"{name}.py").write_text("raise SystemExit('somebody else is root now')\n")
    assert called("host_facts", state.parent / "nowhere/lib", {}, cwd=home) == nothing("new")


@pytest.mark.holds("code to which anybody can add is not run")
def test_a_directory_that_anybody_may_write_into_is_not_run(keep: Callable[[str], Path]) -> None:
    """As /tmp: nobody can exchange what is in it, so it may be above; but anybody can add to it."""
    place = keep("a")
    place.parent.chmod(0o1777)
    assert operation.unsafe(str(place)) is None
    place.chmod(0o1777)
    assert operation.unsafe(str(place)) == f"{place} can be written by others than root"


@pytest.mark.holds(
    "code behind a link is not run", "code that is not root's is not run", "code that others can write is not run"
)
@pytest.mark.parametrize("above", range(4))
@pytest.mark.parametrize("how", ["group", "other", "owner", "link"])
def test_what_others_could_have_written_is_not_run(keep: Callable[[str], Path], above: int, how: str) -> None:
    place = keep("a")
    at = [place, *place.parents][above]
    if how == "owner":
        os.chown(at, 1000, -1)
    elif how == "link":
        aside = at.with_name(f"{at.name}.aside")
        at.rename(aside)
        at.symlink_to(aside)
    else:
        at.chmod(0o775 if how == "group" else 0o757)
    reason = called("host_facts", place.parent, {}, small("a")[0])["kept"]
    assert reason.startswith(f"{at} ")
    assert reason.endswith({"owner": "is not root's", "link": "is not a directory"}.get(how, "by others than root"))


@pytest.mark.holds("what is run is locked")
def test_what_is_run_is_locked(keep: Callable[[str], Path]) -> None:
    place = keep("a")
    assert code_cache.LOCK == operation.LOCK
    assert operation.refusal(str(place)) is None
    handle = os.open(place / code_cache.LOCK, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)


def test_what_is_about_to_go_is_not_run(keep: Callable[[str], Path]) -> None:
    place = keep("a")
    handle = os.open(place / code_cache.LOCK, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    assert called("host_facts", place.parent, {}, small("a")[0])["kept"] == "absent"
    os.close(handle)


@pytest.mark.holds("code that was pruned before it was locked is not run")
def test_what_went_right_before_is_not_run(keep: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    place = keep("a")
    lock = fcntl.flock

    def late(handle: int, how: int) -> None:
        place.rename(place.with_name(".part-going"))  # between its lock being opened and locked
        lock(handle, how)

    monkeypatch.setattr(operation.fcntl, "flock", late)
    assert operation.refusal(str(place)) == "absent"


def test_a_unit_holds_what_it_runs_from(library: Path, state: Path) -> None:
    code_cache.link(code().digest, str(state), str(state.parent / "run"))
    program = library / "gpuadmin_node/cli.py"
    done = subprocess.run([sys.executable, "-I", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr[:6]) == (2, "usage:")
    look = (
        "import fcntl, os, runpy, sys; sys.argv[1:] = ['no-such']\n"
        f"try: runpy.run_path({str(program)!r}, run_name='__main__')\nexcept SystemExit: pass\n"
        f"handle = os.open({str(program.parent / 'lock')!r}, os.O_RDONLY)\n"
        "try: fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)\nexcept BlockingIOError: print('held')\n"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=False)
    assert done.stdout == "held\n", done.stderr


def test_a_job_takes_its_own_copy_along(library: Path, tmp_path: Path) -> None:
    """What a unit runs for longer is not what is kept: it may be pruned meanwhile."""
    place = code_cache.place(code().digest, str(library.parent))
    line = (
        f"import sys; sys.path.insert(0, {place!r})\n"
        "from ansible_collections.gpuadmin.node.plugins.module_utils.background import ship_package\n"
        f"ship_package({str(tmp_path)!r})\n"
    )
    subprocess.run([sys.executable, "-I", "-c", line], check=True)
    code_cache._remove(place)
    line = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {PACKAGE}.background"
    subprocess.run([sys.executable, "-I", "-c", line], check=True)


def test_what_goes_with_a_call_is_small(tmp_path: Path) -> None:
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packing:
        packing.writestr("operation.py", Path(operation.__file__).read_text())
    assert archive.stat().st_size < 4000
