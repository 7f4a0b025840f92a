"""The code that runs on nodes: one way for each effect, and tests for each room."""

import ast
import builtins
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[2] / "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins"
TESTS = Path(__file__).parents[1]
PACKAGE = TESTS.parent / "gpuadmin"
#: What imports a module of the effect, and why it does not go through the one helper.
EFFECTS = {
    "subprocess": {
        "module_utils/run.py": "the helper",
        "module_utils/slurm/foreground.py": "somebody's own command, with their terminal",
        "module_utils/diagnosis/trial.py": "speaks with a session that is tried, and reads it up to its bounds",
        "module_utils/diagnosis/trying.py": "shells of that session, some at a terminal; it stands alone",
        "module_utils/backups/transfer.py": "talks with the other host through the pipes of ssh",
        "module_utils/backups/accounting.py": "a pipe from mariadb-dump, which speaks as another user",
        "takeover/node/root_docker/volumes.py": "a pipe between tar and tar as a person, in their namespace",
        "module_utils/images/publish.py": "a pipe between btrfs send and zstd",
        "module_utils/images/stream.py": "a pipe between zstd and btrfs receive",
    },
}
#: Texts that stand for an effect, and the files that may have them.
WORDS = {
    '"systemd-run"': {"module_utils/unit.py"},
    '"journalctl"': {"module_utils/unit.py"},
    "ActiveState": {"module_utils/unit.py"},
    # the guard stands alone: its code is written to a host that has nothing else of gpuadmin
    "/mountinfo": {
        "module_utils/mounts.py",
        "module_utils/root/guard.py",
        "module_utils/images/subvolumes.py",
        # another process's mounts, and of each its number alone
        "module_utils/metrics/devices.py",
    },
    '"subvolume", "': {"module_utils/btrfs.py"},
}


def sources() -> dict[str, str]:
    places = {PLUGINS: PLUGINS, PACKAGE / "takeover/node": PACKAGE}
    found = {
        str(path.relative_to(above)): path.read_text()
        for place, above in places.items()
        for path in sorted(place.rglob("*.py"))
    }
    assert len(found) > 80, "this is where it lies"
    return found


@pytest.mark.parametrize("module", EFFECTS)
def test_who_imports(module: str) -> None:
    importers = set()
    for name, text in sources().items():
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import) and any(alias.name.split(".")[0] == module for alias in node.names):
                importers.add(name)
            if isinstance(node, ast.ImportFrom) and not node.level and (node.module or "").split(".")[0] == module:
                importers.add(name)
    assert importers == set(EFFECTS[module]), "a second way needs a reason, written down here"


@pytest.mark.parametrize("words", WORDS)
def test_who_does(words: str) -> None:
    assert {name for name, text in sources().items() if words in text} == WORDS[words]


def bare(source: str) -> list[int]:
    """The lines where an error of the system is made text by str(): `[Errno 13] Permission denied: '/x'`."""

    def is_of_the_system(handler: ast.ExceptHandler) -> bool:
        found = {node.id for node in ast.walk(handler.type or handler) if isinstance(node, ast.Name)}
        kinds = [getattr(builtins, one, None) for one in found]
        return any(isinstance(kind, type) and issubclass(kind, OSError) for kind in kinds)

    lines = []
    for handler in ast.walk(ast.parse(source)):
        if not isinstance(handler, ast.ExceptHandler) or handler.name is None or not is_of_the_system(handler):
            continue
        for node in (one for statement in handler.body for one in ast.walk(statement)):
            made = node.args if isinstance(node, ast.Call) and ast.unparse(node.func) == "str" else []
            made = [node.value] if isinstance(node, ast.FormattedValue) else made
            lines += [one.lineno for one in made if isinstance(one, ast.Name) and one.id == handler.name]
    return lines


def test_errors_of_the_system_are_told_in_words() -> None:
    """errors.in_words: a number is for nobody, and people read what root's code says (gpuadmin-me)."""
    assert bare("try: pass\nexcept (ValueError, OSError) as error: x = str(error)") == [2]
    assert bare("try: pass\nexcept PermissionError as why: x = f'no: {why}'") == [2]
    assert {name: found for name, text in sources().items() if (found := bare(text))} == {}


def test_each_room_of_node_code_has_tests() -> None:
    """And each directory of tests is of a room: a guard that no test names is held by the tests of its room."""
    for place, tests in ((PLUGINS / "module_utils", "unit/node"), (PACKAGE / "takeover/node", "takeover/unit/node")):
        rooms = {path.parent.relative_to(place) for path in place.rglob("*.py") if path.name != "__init__.py"}
        tested = {path.parent.relative_to(TESTS / tests) for path in (TESTS / tests).rglob("test_*.py")}
        assert rooms == tested
