"""The code that hosts keep is what Ansible itself would send, and every module is called so that it can be used."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.executor import module_common
from ansible_collections.gpuadmin.node.plugins.modules import run_kept
from ansible_collections.gpuadmin.node.plugins.plugin_utils.kept import code

COLLECTION = Path(__file__).resolve().parents[2] / "gpuadmin/collections/ansible_collections/gpuadmin/node"
MODULES = sorted(path.stem for path in (COLLECTION / "plugins/modules").glob("*.py") if path.stem != "__init__")


def test_each_module_is_called_from_what_the_host_keeps() -> None:
    routing = yaml.safe_load((COLLECTION / "meta/runtime.yml").read_text())["plugin_routing"]["modules"]
    own = {path.stem for path in (COLLECTION / "plugins/action").glob("*.py")} - {"kept"}
    assert own == {"code", "files", "preflight"}
    assert set(routing) == set(MODULES) - own - {"run_kept"}
    assert all(entry == {"action_plugin": "gpuadmin.node.kept"} for entry in routing.values())


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("kept")
    for path, text in json.loads(code().text).items():
        target = top / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return top


def test_every_module_finds_in_it_what_it_imports(place: Path) -> None:
    """In a process that has neither this project nor Ansible."""
    names = [f"ansible_collections.gpuadmin.node.plugins.modules.{name}" for name in MODULES]
    names += ["ansible.module_utils._internal._ansiballz._loader"]
    names += [f"ansible.module_utils._internal._json._profiles._module_legacy_{way}" for way in ("c2m", "m2c")]
    line = f"import importlib, sys; sys.path.insert(0, {str(place)!r}); [importlib.import_module(n) for n in {names!r}]"
    done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_is_the_code_of_this_installation(place: Path) -> None:
    for folder in ("modules", "module_utils"):
        top = COLLECTION / "plugins" / folder
        for path in top.rglob("*.py"):
            kept = place / "ansible_collections/gpuadmin/node/plugins" / folder / path.relative_to(top)
            assert kept.read_text() == path.read_text()


def test_what_units_run_is_it() -> None:
    tasks = yaml.safe_load((COLLECTION.parents[4] / "roles/node_state/tasks/converge.yml").read_text())
    (task,) = [one["gpuadmin.node.code"] for one in tasks if "gpuadmin.node.code" in one]
    assert task["link"] is True


def test_ansible_takes_the_runner_as_it_is_meant() -> None:
    """As one that imports nothing, gets its arguments as a literal, and is sent as it is."""
    text = Path(run_kept.__file__).read_bytes()
    assert text.count(module_common.REPLACER_COMPLEX) == 1
    assert text.count(module_common.REPLACER_JSONARGS) == 1
    (line,) = [one for one in text.splitlines() if module_common.REPLACER_JSONARGS in one]
    assert line.startswith(b"#"), "raw JSON is no Python: what somebody called themselves would be run as root"
    assert not module_common.NEW_STYLE_PYTHON_MODULE_RE.search(text)
    assert module_common.REPLACER not in text
