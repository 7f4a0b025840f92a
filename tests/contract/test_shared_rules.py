"""The rules that verbs and the dashboard share are the same files (docs/decisions/0115)."""

from __future__ import annotations

from tests.support.scripts import ROOT

VERBS = ROOT / "gpuadmin/monitoring"
NODES = ROOT / "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins/module_utils/monitoring"
#: Files of the controller alone, and why.
APART = {
    "__init__.py": "each room says what it is",
    "certificates.py": "needs cryptography",
    "policy.py": "pages stop nothing",
}


def test_each_rule_is_one_file() -> None:
    here = {path.name for path in VERBS.glob("*.py")} - set(APART)
    there = {path.name: path for path in NODES.glob("*.py") if path.name != "__init__.py"}
    assert set(there) == here, "a file of gpuadmin/monitoring/ has a link beside it, or a line in APART"
    for name, path in there.items():
        assert path.is_symlink(), f"{name} is a copy: its rules would soon be others"
        assert path.resolve() == VERBS / name
