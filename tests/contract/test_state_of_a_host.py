"""What roles write of one host alone is in its state (DESIGN: an image has nothing of the node that it was built on).

A certificate in /etc beside a key in the state was carried by an image to nodes whose key is another one.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.hosts import variables
from tests.support.offenders import each_of

ROOT = Path(__file__).resolve().parents[2]
ROLES = sorted(path.name for path in (ROOT / "roles").iterdir())
STATE = "/var/lib/gpuadmin/"


def differing() -> set[str]:
    """The variables of roles that differ between two nodes of one image."""
    one, two = (
        Host(name, ("gpu",), {"gpus": number, "gpu_model": f"model {number}"})
        for number, name in enumerate(("gpu1", "gpu2"))
    )
    metrics = {
        "hosts": {one.name: {"certificate": "c", "key": "k"}},
        "dashboard": {"links": {one.name: "key"}, "ways": {one.name: {"forward": "f"}}},
    }
    idle = {one.name: {"tell": ["x"], "stop": ["y"]}}
    request = {"gpuadmin_metrics": metrics, "gpuadmin_idle": idle, "gpuadmin_announcements": {one.name: ["z"]}}
    cluster = Cluster(Settings(name="x"), (one, two), request)
    first, second = (variables(cluster, host) for host in (one, two))
    return {name for name in first if first[name] != second[name]}


def mentions(text: str, names: set[str]) -> bool:
    return any(re.search(rf"\b{name}\b", text) for name in names)


def of_one_host(role: str) -> set[str]:
    """The role's variables that are of one host, by whatever way."""
    found = differing()
    inside = loaded(role, "vars")
    while True:
        more = {name for name, value in inside.items() if name not in found and mentions(whole(role, value), found)}
        # a list of files is not one file: each of them is looked at by itself
        more = {name for name in more if not (name.endswith("_files") or name.endswith("_file"))}
        if not more:
            return found
        found |= more


def loaded(role: str, kind: str) -> dict[str, Any]:
    path = ROOT / "roles" / role / kind / "main.yml"
    return (yaml.safe_load(path.read_text()) or {}) if path.exists() else {}


def whole(role: str, value: object) -> str:
    """A value's text, with that of the templates that it names."""
    text = str(value)
    for name in re.findall(r"[\w.-]+\.j2", text):
        template = ROOT / "roles" / role / "templates" / name
        text += template.read_text() if template.exists() else ""
    return text


def written(role: str) -> Iterator[tuple[str, str]]:
    """Each file that the role writes from variables: its path, and all that its content is made of."""
    for path in sorted((ROOT / "roles" / role).glob("[tv]a[sr]*/*.yml")):
        for entry in entries(yaml.safe_load(path.read_text())):
            yield place(role, entry["path"]), whole(role, entry["content"])


def entries(node: object) -> Iterator[dict[str, str]]:
    if isinstance(node, dict):
        if isinstance(node.get("path"), str) and isinstance(node.get("content"), str):
            yield node
        for value in node.values():
            yield from entries(value)
    elif isinstance(node, list):
        for value in node:
            yield from entries(value)


def place(role: str, path: str) -> str:
    names = loaded(role, "defaults") | loaded(role, "vars")
    for _ in range(5):
        path = re.sub(r"\{\{ (\w+) \}\}", lambda found: str(names.get(found[1], found[0])), path)
    return path


@each_of(ROLES)
def test_what_is_of_one_host_is_in_its_state(role: str) -> None:
    own = of_one_host(role)
    assert [path for path, content in written(role) if mentions(content, own) and not path.startswith(STATE)] == []


def test_there_is_something_to_look_at() -> None:
    found = {
        path.removeprefix(STATE)
        for role in ROLES
        for path, content in written(role)
        if mentions(content, of_one_host(role)) and path.startswith(STATE)
    }
    assert {"me.json", "web-links.json", "metrics_tls/exporter.pem", "metrics-expected.env"} <= found
