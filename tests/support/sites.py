"""What tests of the controller's code share."""

from __future__ import annotations

import base64
import hashlib
import stat
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import Settings
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.config.yamlfile import YamlFile

SETTINGS = Settings.model_validate({"name": "test"})
#: What a storage host says of uids that remembers nobody's.
UIDS: dict[str, Any] = {"memory": {}, "seen": {}, "problem": None}
HOSTS = (
    SiteHost("storage1", ("storage",), {"ansible_host": "127.0.0.1", "ansible_port": 1}),
    SiteHost("node1", ("gpu", "golden"), {"ansible_host": "127.0.0.1", "ansible_port": 2}),
    SiteHost("node2", ("gpu",), {"ansible_host": "127.0.0.1", "ansible_port": 3}),
)


def public_key(seed: str, kind: str = "ssh-ed25519", comment: str | None = None) -> str:
    """A well-formed public key that nobody holds the private part of."""
    content = hashlib.sha256(seed.encode()).digest() * (1 if kind == "ssh-ed25519" else 8)
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in (kind.encode(), content))
    return f"{kind} {base64.b64encode(blob).decode()} {seed if comment is None else comment}".strip()


def registry(text: str, settings: Settings = SETTINGS) -> RegistryFile:
    """Given the text of a users.yml, return the registry."""
    return RegistryFile.of(YamlFile.parse(Path("users.yml"), text), settings)


def make_site(directory: Path, users: str = "users: []\n", settings: Mapping[str, Any] | None = None) -> Path:
    """Write a site of a storage host and two nodes that nobody listens on."""
    return _put(directory, HOSTS, users, settings or {})


def make_local_site(directory: Path) -> Path:
    """Write a site where Ansible runs on this machine, as this user, and needs no ssh."""
    local = {"ansible_connection": "local", "ansible_become": False, "ansible_python_interpreter": sys.executable}
    return _put(directory, [SiteHost(host.name, host.groups, local) for host in HOSTS], "users: []\n", {})


#: What write_site has written, by what it was given: path and mode → content; None of a directory.
_WRITTEN: dict[str, dict[tuple[str, int], bytes | None]] = {}


def _put(directory: Path, hosts: Sequence[SiteHost], users: str, settings: Mapping[str, Any]) -> Path:
    """Write a site. Thousands of tests begin with one: its templates are compiled for the first."""
    key = repr((hosts, settings))
    if key not in _WRITTEN:
        with tempfile.TemporaryDirectory() as place:
            write_site(Path(place), name="test", settings=settings, hosts=hosts, schemas=False)
            _WRITTEN[key] = {
                (str(path.relative_to(place)), stat.S_IMODE(path.stat().st_mode)):
                path.read_bytes() if path.is_file() else None
                for path in sorted(Path(place).rglob("*"))
            }  # fmt: skip
    directory.mkdir(parents=True, exist_ok=True)
    for (name, mode), content in _WRITTEN[key].items():
        path = directory / name
        if content is None:
            path.mkdir(mode=mode, exist_ok=True)
        elif not path.exists():  # what is in a directory stays
            path.write_bytes(content)
            path.chmod(mode)
    (directory / "users.yml").write_text(users)
    return directory


_STUBBED = """
import os, pathlib, sys
from gpuadmin.ansible import interrupt, runner
content = pathlib.Path(sys.argv.pop(1))
runner.content_path = content.joinpath
interrupt._GRACE = float(os.environ.get("TEST_GRACE", interrupt._GRACE))
from gpuadmin.cli import main
main()
"""


def stubbed(content: Path, *arguments: str) -> list[str]:
    """The command line of gpuadmin with playbooks of a test's own, in `content`/playbooks."""
    return [sys.executable, "-c", _STUBBED, str(content), *arguments]


def write_playbook(content: Path, verb: str, tasks: str) -> None:
    """Write a playbook of one play over all hosts."""
    (content / "playbooks").mkdir(parents=True, exist_ok=True)
    (content / "roles").mkdir(exist_ok=True)
    indented = "\n".join(f"    {line}" for line in tasks.strip().splitlines())
    text = f"- name: Test\n  hosts: all\n  gather_facts: false\n  tasks:\n{indented}\n"
    (content / "playbooks" / f"{verb}.yml").write_text(text)
