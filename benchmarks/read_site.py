"""Reading the site of many people: the parser in C against ruamel.yaml; one change against rewriting the whole file.

Both are measured in one run, as processor time on this machine; what counts is the ratio.
    .venv/bin/python benchmarks/read_site.py [PEOPLE]
"""

from __future__ import annotations

import base64
import hashlib
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from ruamel.yaml import YAML

from gpuadmin.config import rewrite
from gpuadmin.config.load import load_site
from gpuadmin.config.schema import User
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.config.yamlfile import YamlFile


def key_of(name: str) -> str:
    """A well-formed public key that nobody holds the private part of."""
    parts = (b"ssh-ed25519", hashlib.sha256(name.encode()).digest())
    blob = b"".join(len(part).to_bytes(4, "big") + part for part in parts)
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} {name}"


def person(number: int) -> str:
    """An entry of users.yml as most are."""
    name = f"user{number}"
    return (
        f"  - name: {name}\n    uid: {20000 + number}\n    email: {name}@example.org\n    keys:\n"
        f"      - {key_of(name)}\n    expires: 2027-02-28\n"
    )


def seconds(call: Callable[[], object]) -> float:
    """The processor time that a call takes."""
    before = time.process_time()
    call()
    return time.process_time() - before


def main() -> None:
    """Measure and print."""
    people = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
    with tempfile.TemporaryDirectory() as folder:
        site = Path(folder) / "site"
        hosts = [SiteHost("nas1", ("storage",)), SiteHost("gpu1", ("gpu", "golden"))]
        write_site(site, name="benchmark", settings={}, hosts=hosts, schemas=False)
        users = site / "users.yml"
        users.write_text("users:\n" + "".join(person(number) for number in range(people)))
        slow = seconds(lambda: YAML(typ="rt").load(users.read_text()))
        fast = seconds(lambda: YamlFile.load(users))
        whole = seconds(lambda: load_site(str(site)))
        loaded = load_site(str(site))
        new = User(name="newcomer", uid=49999)
        one = seconds(lambda: loaded.registry.changed(loaded.settings, add=[new]))
        with mock.patch.object(rewrite, "_spliced", return_value=None):
            every = seconds(lambda: loaded.registry.changed(loaded.settings, add=[new]))
    print(f"{people} people, seconds of processor time")
    print(f"read users.yml: ruamel.yaml {slow:.2f}, in C {fast:.2f} ({slow / fast:.0f} ×); the whole site {whole:.2f}")
    print(f"add one: rewrite all {every:.2f}, its entry {one:.2f} ({every / one:.0f} ×)")


if __name__ == "__main__":
    main()
