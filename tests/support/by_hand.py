"""Accounts and homes that somebody made by hand, before gpuadmin came; and what is in them, told by independent.py."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest

from tests.support import where
from tests.support.lab_cluster import KEEP, LAB, REPOSITORY, Cluster
from tests.support.labs import nothing_left


@contextmanager
def grown(
    name: str, grow: Callable[[Cluster], object], *options: str, ordinary: int, kept: bool = True
) -> Iterator[Cluster]:
    """A lab of light hosts that `grow` has made what they are, without gpuadmin. ``kept``: whether a lab that stays
    (KEEP) is brought back as it was then; what runs on its hosts is not.
    """
    if why := where.why_virtual():
        pytest.skip(f"hosts that were grown by hand are light hosts: {why}")
    found = Cluster(REPOSITORY / ".cache" / f"e2e-{name}" / "site", f"{LAB}-{name}", light=True)
    try:
        if kept and "grown" in found.saved_states():
            found.restore("grown")
        else:
            number = str(ordinary)
            found.lab("up", "--light", "--nodes", "0", "--ordinary", number, *options, "--site", str(found.site))
            grow(found)
            if kept and KEEP:
                found.save("grown")
        yield found
    finally:
        found.end_commands()
        if not KEEP:
            found.lab("down", "--purge")
            nothing_left(found.name)


def register(cluster: Cluster, people: Mapping[str, int]) -> None:
    """users.yml has these people (name → uid), with their keys."""
    lines = [f"  - {{name: {name}, uid: {uid}, keys: ['{cluster.key(name)}']}}" for name, uid in people.items()]
    (cluster.site / "users.yml").write_text("users:\n" + "\n".join(lines) + "\nretired: []\n")


def account(cluster: Cluster, host: str, name: str, uid: int) -> None:
    """An account with a home of the host's own, whose key is registered for them."""
    cluster.admin(
        host,
        f"useradd -m -s /bin/bash -u {uid} {name} && install -d -m 700 -o {name} -g {name} /home/{name}/.ssh && "
        f'echo "{cluster.key(name)}" > /home/{name}/.ssh/authorized_keys && '
        f"chown {name}:{name} /home/{name}/.ssh/authorized_keys",
    )


def bring_independent(cluster: Cluster, *hosts: str) -> None:
    text = (REPOSITORY / "tests/support/independent.py").read_text()
    for host in hosts:
        subprocess.run(
            [*cluster.ssh_command("admin", host), "sudo tee /root/independent.py >/dev/null"], input=text, text=True,
            check=True,
        )  # fmt: skip


def facts(cluster: Cluster, host: str, path: str) -> dict[str, Any]:
    """What is in a tree, told by a program that gpuadmin has no part in."""
    found: dict[str, Any] = json.loads(cluster.admin(host, f"python3 -I /root/independent.py {path}"))
    return found


def expiry(cluster: Cluster, host: str, name: str) -> str:
    """When the account is closed, as /etc/shadow has it; nothing for never."""
    return cluster.admin(host, f"getent shadow {name} | cut -d: -f8").strip()
