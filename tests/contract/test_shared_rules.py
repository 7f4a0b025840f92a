"""The rules that verbs, nodes and the dashboard share are the same files (docs/decisions/0115), and all go with it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.scripts import ROOT

PACKAGE = ROOT / "gpuadmin"
VERBS = PACKAGE / "monitoring"
NODES = PACKAGE / "collections/ansible_collections/gpuadmin/node/plugins/module_utils/monitoring"
ROLE = yaml.safe_load((ROOT / "roles/dashboard/vars/main.yml").read_text())
#: What is shipped to the monitor host; the role installs what it imports besides (decision 112).
SHIPPED = [*PACKAGE.glob("dashboard/*.py"), *(VERBS / f"{name}.py" for name in ROLE["_dashboard_rules"])]
PACKAGES = {"jinja2", "starlette", "uvicorn"}


def test_each_rule_of_a_nodes_is_the_controllers_file() -> None:
    links = [path for path in NODES.glob("*.py") if path.name != "__init__.py"]
    assert links
    for path in links:
        assert path.is_symlink(), f"{path.name} is a copy: its rules would soon be others"
        assert path.resolve() == VERBS / path.name


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_the_dashboard_imports_is_shipped(path: Path) -> None:
    """The standard library, three packages of the distribution, and what goes with it; Python 3.9 has no match."""
    for node in ast.walk(ast.parse(path.read_text(), feature_version=(3, 9))):
        assert not isinstance(node, ast.Match)
        if isinstance(node, ast.Import):
            assert {name.name.partition(".")[0] for name in node.names} <= sys.stdlib_module_names | PACKAGES
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert str(node.module).partition(".")[0] in sys.stdlib_module_names | PACKAGES
        elif isinstance(node, ast.ImportFrom):
            place = path.parents[node.level - 1].joinpath(*(node.module or "").split("."))
            for name in node.names:
                assert {place.with_suffix(".py"), place / f"{name.name}.py"} & set(SHIPPED), name.name


def test_every_rule_that_is_shipped_is_used() -> None:
    texts = "".join(path.read_text() for path in SHIPPED)
    for name in ROLE["_dashboard_rules"]:
        assert f".{name} import" in texts or f"import {name}" in texts, name
