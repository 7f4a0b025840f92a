"""The collection: what its README and its metadata say is true."""

from pathlib import Path

import yaml

import gpuadmin
from tests.support.operations import find_operations

ROOT = Path(__file__).resolve().parents[2]
COLLECTION = ROOT / "gpuadmin/collections/ansible_collections/gpuadmin/node"


def test_metadata_is_true() -> None:
    galaxy = yaml.safe_load((COLLECTION / "galaxy.yml").read_text())
    assert (galaxy["namespace"], galaxy["name"], galaxy["version"]) == ("gpuadmin", "node", gpuadmin.__version__)
    assert (COLLECTION / galaxy["readme"]).is_file()
    runtime = yaml.safe_load((COLLECTION / "meta/runtime.yml").read_text())
    lowest = runtime["requires_ansible"].removeprefix(">=").removesuffix(".0")
    assert f'"ansible-core>={lowest},' in (ROOT / "pyproject.toml").read_text()


def test_readme_says_what_each_operation_does() -> None:
    lines = (COLLECTION / "README.md").read_text().splitlines()
    wanted = [
        f"| `{name}` | {str(one.document.__doc__).partition(chr(10))[0]} |" for name, one in find_operations().items()
    ]
    assert [line for line in lines if line.startswith("| `")] == wanted
