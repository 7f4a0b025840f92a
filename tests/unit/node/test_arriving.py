"""Code that is sent to a host writes itself there, by nothing but itself, and says why where it cannot."""

import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import arriving, code_cache
from ansible_collections.gpuadmin.node.plugins.module_utils.operation import ROOMS
from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import ARRIVE, code

pytestmark = pytest.mark.root  # what is kept is root's


def send(text: str, state: Path, digest: str = code().digest) -> tuple[int, str]:
    """Exit status, and what the host's answer is, as action/operation.py sends it."""
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ARRIVE, digest, str(state)],
        input=zlib.compress(text.encode()), capture_output=True, check=False, timeout=60, cwd=state,
    )  # fmt: skip
    assert done.stdout == b""
    return done.returncode, done.stderr.decode()


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


def test_what_is_not_of_its_digest_is_not_kept(tmp_path: Path) -> None:
    status, reason = send(code().text, tmp_path, "0" * 64)
    assert (status, reason.strip()) == (1, "the code that arrived is not what was sent: its sha256 is another one")
    assert not list(tmp_path.iterdir())


def test_a_host_that_cannot_keep_it_says_why(tmp_path: Path) -> None:
    (tmp_path / "lib").write_text("in the way")
    status, reason = send(code().text, tmp_path)
    assert status == 1
    assert str(tmp_path / "lib") in reason
    assert "Traceback" not in reason


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
