"""The code that runs on nodes has one way for each effect."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PLUGINS = Path(__file__).parents[2] / "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins"

#: What imports a module of the effect, and why it does not go through the one helper.
EFFECTS = {
    "subprocess": {
        "module_utils/run.py": "the helper",
        "module_utils/backups/confined.py": "a process in namespaces of its own, fed through a pipe",
        "module_utils/backups/copy_server.py": "streams a snapshot to whoever asks",
        "module_utils/backups/receiving.py": "waits for the confined process",
        "module_utils/backups/transfer.py": "a pipe between btrfs send and ssh",
        "module_utils/homes/packing.py": "an archive through a pipe, with limits of its own, ended by what it sees",
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
    "/mountinfo": {"module_utils/mounts.py", "module_utils/root/guard.py", "module_utils/images/subvolumes.py"},
    '"subvolume", "': {"module_utils/btrfs.py"},
}


def sources() -> dict[str, str]:
    found = {str(path.relative_to(PLUGINS)): path.read_text() for path in sorted(PLUGINS.rglob("*.py"))}
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
