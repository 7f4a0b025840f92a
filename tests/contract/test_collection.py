"""The collection: what ansible-doc shows is what the modules take, and what its README and metadata say is true."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

import gpuadmin

ROOT = Path(__file__).resolve().parents[2]
COLLECTIONS = ROOT / "gpuadmin/collections"
COLLECTION = COLLECTIONS / "ansible_collections/gpuadmin/node"
MODULES = sorted(path.stem for path in (COLLECTION / "plugins/modules").glob("*.py") if path.stem != "__init__")
# Each entry is checked by itself: Ansible, which would refuse the whole call, is not told of what is in it.
EACH = {
    ("accounts", "users"), ("accounts", "absent"), ("homes", "users"), ("homes", "archive"), ("homes", "remember"),
    ("wipe_homes", "users"),
}  # fmt: skip


def code(name: str) -> Any:
    return importlib.import_module(f"ansible_collections.gpuadmin.node.plugins.modules.{name}")


@cache
def documented() -> dict[str, dict[str, Any]]:
    """Module → what ansible-doc shows, with what stands in fragments."""
    command = [Path(sys.executable).parent / "ansible-doc", "-t", "module", "-j"]
    command += [f"gpuadmin.node.{name}" for name in MODULES]
    environment = {**os.environ, "ANSIBLE_COLLECTIONS_PATH": str(COLLECTIONS)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    return {name.rpartition(".")[2]: found["doc"] for name, found in json.loads(done.stdout).items()}


def differences(described: dict[str, Any], arguments: dict[str, Any], path: str, each: Collection[str]) -> list[str]:
    """In what a description of options is not what the code takes."""
    if set(described) != set(arguments):
        return [f"{path}: {sorted(set(described) ^ set(arguments))}"]
    found = []
    for option, argument in arguments.items():
        entry, name = described[option], f"{path}.{option}"
        for key in ("elements", "default", "choices"):
            if entry.get(key) != argument.get(key):
                found.append(f"{name}: {key} {entry.get(key)!r}, not {argument.get(key)!r}")
        if entry["type"] != argument["type"] or bool(entry.get("required")) != bool(argument.get("required")):
            found.append(f"{name}: type or required")
        if option in each:
            assert "options" not in argument, name
            if argument["type"] == "json":
                assert "suboptions" not in entry, name
            else:
                assert set(entry["suboptions"]) >= {"name", "uid"}, name
        elif "dict" in (argument["type"], argument.get("elements")):
            found += differences(entry["suboptions"], argument["options"], name, ())
    return found


@pytest.mark.parametrize("name", MODULES)
def test_documentation_is_what_the_module_takes(name: str) -> None:
    module = code(name)
    found = documented()[name]
    each = {option for owner, option in EACH if owner == name}
    assert found["module"] == name
    assert differences(found.get("options", {}), getattr(module, "ARGUMENTS", {}), name, each) == []
    assert bool(each) == any("an entry is checked by itself" in note for note in found.get("notes", ()))
    assert {"check_mode", "diff_mode"} <= set(found["attributes"])
    assert all(one["support"] in ("full", "partial", "none") for one in found["attributes"].values())
    for text in (module.DOCUMENTATION, module.EXAMPLES, module.RETURN):
        assert text.endswith("\n")
        assert yaml.safe_load(text)


def suboptions(options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What options describe of their entries, at any depth."""
    for option in options.values():
        if "suboptions" in option:
            yield option["suboptions"]
            yield from suboptions(option["suboptions"])


def test_what_modules_document_alike_stands_once() -> None:
    alike: Counter[str] = Counter()
    for name in MODULES:
        own = yaml.safe_load(code(name).DOCUMENTATION)
        for what in ("options", "attributes"):
            alike.update(json.dumps([key, entry], sort_keys=True) for key, entry in own.get(what, {}).items())
        alike.update(json.dumps(entry, sort_keys=True) for entry in suboptions(own.get("options", {})))
    assert [text for text, count in alike.items() if count > 1] == []


def test_metadata_is_true() -> None:
    galaxy = yaml.safe_load((COLLECTION / "galaxy.yml").read_text())
    assert (galaxy["namespace"], galaxy["name"], galaxy["version"]) == ("gpuadmin", "node", gpuadmin.__version__)
    assert (COLLECTION / galaxy["readme"]).is_file()
    runtime = yaml.safe_load((COLLECTION / "meta/runtime.yml").read_text())
    lowest = runtime["requires_ansible"].removeprefix(">=").removesuffix(".0")
    assert f'"ansible-core>={lowest},' in (ROOT / "pyproject.toml").read_text()


def test_readme_says_what_each_module_does() -> None:
    lines = (COLLECTION / "README.md").read_text().splitlines()
    wanted = [f"| `gpuadmin.node.{name}` | {documented()[name]['short_description']} |" for name in MODULES]
    assert [line for line in lines if line.startswith("| `")] == wanted
