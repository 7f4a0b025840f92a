"""People and a site for the cheap hosts."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from gpuadmin.config.skeleton import SiteHost, write_site
from tests.support.scale_hosts import ADMIN, Cluster

FIRST_UID = 20000


def public_key(seed: str) -> str:
    """A well-formed Ed25519 public key that nobody holds the private part of."""
    blob = b"".join(
        len(part).to_bytes(4, "big") + part for part in (b"ssh-ed25519", hashlib.sha256(seed.encode()).digest())
    )
    return f"ssh-ed25519 {base64.b64encode(blob).decode()} {seed}"


def people(number: int) -> list[tuple[str, int]]:
    """Login names and uids."""
    return [(f"user{index:04}", FIRST_UID + index) for index in range(number)]


def users_yml(number: int) -> str:
    """A users.yml of that many people with a key each."""
    lines = ["users:"]
    for name, uid in people(number):
        lines += [f"  - name: {name}", f"    uid: {uid}", "    keys:", f"      - {public_key(name)}"]
    return "\n".join([*lines, "retired: []"]) + "\n" if number else "users: []\nretired: []\n"


def site(cluster: Cluster, directory: Path, number: int) -> Path:
    """Write a site for the hosts: one called `storage1` is the storage host, all others are nodes.

    It is another site than the one before, on the same hosts: whose uids were whose there is forgotten.
    """
    members = [
        SiteHost(
            host.name,
            ("storage",) if host.name == "storage1" else ("gpu",),
            {"ansible_host": host.address, "ansible_port": host.port},
        )
        for host in cluster.hosts
    ]
    settings = {"admin": {"user": ADMIN, "ssh_key": str(cluster.key)}}
    write_site(directory, name="scale", settings=settings, hosts=members, known_hosts=cluster.known_hosts)
    (directory / "users.yml").write_text(users_yml(number))
    for host in cluster.hosts:
        shutil.rmtree(host.root / "var/lib/gpuadmin/uids", ignore_errors=True)
    return directory


def gpuadmin(site_directory: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    """Run gpuadmin as an admin would, with --json; return its document, with the exit code as `exit_code`.

    `variables` go into its environment.
    """
    line = [sys.executable, "-m", "gpuadmin", *arguments, "--site", str(site_directory), "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "GPUADMIN_SITE"} | variables
    done = subprocess.run(line, check=False, capture_output=True, text=True, env=environment)
    if not done.stdout.strip():
        raise RuntimeError(f"{' '.join(line)}\n{done.stderr}")
    document: dict[str, Any] = json.loads(done.stdout)
    document["exit_code"], document["stderr"] = done.returncode, done.stderr
    return document
