"""The code that hosts keep is this installation's, and every operation is called so that it is what runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from ansible.executor import module_common
from ansible_collections.gpuadmin.node.plugins.module_utils.operation import ROOMS, TAKEOVER
from ansible_collections.gpuadmin.node.plugins.modules import operation
from ansible_collections.gpuadmin.node.plugins.modules.operation import CODE
from ansible_collections.gpuadmin.node.plugins.plugin_utils.code_cache import code

from tests.support.node_code import write_out
from tests.support.operations import find_operations

COLLECTION = Path(__file__).resolve().parents[2] / "gpuadmin/collections/ansible_collections/gpuadmin/node"


def test_each_operation_has_a_name_for_tasks() -> None:
    routing = yaml.safe_load((COLLECTION / "meta/runtime.yml").read_text())["plugin_routing"]["modules"]
    own = {path.stem for path in (COLLECTION / "plugins/action").glob("*.py")}
    assert own == {"code", "files", "operation", "preflight"}
    assert routing.pop("operation") == {"action_plugin": "gpuadmin.node.operation"}
    assert set(routing) == set(find_operations()) - own
    assert all(entry == {"redirect": "gpuadmin.node.operation"} for entry in routing.values())


@pytest.fixture(scope="module", params=[False, True], ids=["daily", "with the take-over"])
def takeover(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def place(takeover: bool, tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("kept")
    write_out(top, takeover=takeover)
    return top


def test_every_operation_finds_in_it_what_it_imports(place: Path, takeover: bool) -> None:
    """In a process that has neither this project nor Ansible."""
    found = [name for room, names in ROOMS.items() for name in names if takeover or room != TAKEOVER]
    line = f"import sys; sys.path.insert(0, {str(place)!r}); from {CODE} import operation\n"
    line += f"assert all(map(operation.find_operation, {found!r}))"
    done = subprocess.run([sys.executable, "-I", "-S", "-B", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.holds("a host that is not taken over has nothing of the take-over")
def test_daily_code_has_nothing_of_the_take_over() -> None:
    assert "takeover/" not in "".join(json.loads(code().text))
    assert "gpuadmin/takeover/node/renumbering/work.py" in json.loads(code(True).text)


def test_it_is_the_code_of_this_installation(place: Path, takeover: bool) -> None:
    content = COLLECTION.parents[2]
    tops = [(COLLECTION / "plugins/module_utils", content), (content.parent / "common", content.parents[1])]
    tops += [(content.parent / "takeover/node", content.parents[1])] if takeover else []
    for top, below in tops:
        assert (top / "__init__.py").is_file()
        for path in top.rglob("*.py"):
            assert (place / path.relative_to(below)).read_text() == path.read_text()


def test_what_units_run_is_it() -> None:
    tasks = yaml.safe_load((COLLECTION.parents[4] / "roles/node_state/tasks/converge.yml").read_text())
    (task,) = [one["gpuadmin.node.code"] for one in tasks if "gpuadmin.node.code" in one]
    assert task["link"] is True


def test_ansible_takes_the_module_as_it_is_meant() -> None:
    """As one that imports nothing, gets its arguments as a literal, and is sent as it is."""
    text = Path(operation.__file__).read_bytes()
    assert text.count(module_common.REPLACER_COMPLEX) == 1
    assert text.count(module_common.REPLACER_JSONARGS) == 1
    (line,) = [one for one in text.splitlines() if module_common.REPLACER_JSONARGS in one]
    assert line.startswith(b"#"), "raw JSON is not Python: what somebody called themselves would be run as root"
    assert not module_common.NEW_STYLE_PYTHON_MODULE_RE.search(text)
    assert module_common.REPLACER not in text
