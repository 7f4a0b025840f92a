"""On real ssh hosts: those that say nothing cost one wait for all of them, and not one for each dozen."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml
from hosts import PORT, cluster
from people import gpuadmin, site

SILENT = 48  # four times as many as accounts are applied on at once
CONNECT = 5  # seconds; ssh tries twice


@contextmanager
def silent(number: int) -> Iterator[Sequence[str]]:
    """Addresses that do not even refuse: the one connection for which there is room is taken, so more are dropped."""
    with ExitStack() as held:
        addresses = [f"127.9.{index // 250}.{index % 250 + 1}" for index in range(number)]
        for address in addresses:
            listening = held.enter_context(socket.socket())
            listening.bind((address, PORT))
            listening.listen(0)
            held.enter_context(socket.create_connection((address, PORT)))
        yield addresses


def test_hosts_that_are_away_are_waited_for_once(tmp_path: Path) -> None:
    with cluster(("storage1", "node1")) as running, silent(SILENT) as addresses:
        directory = site(running, tmp_path / "site", 2)
        inventory = directory / "inventory/hosts.yml"
        document = yaml.safe_load(inventory.read_text())
        away = {
            f"away{index}": {
                "ansible_host": address,
                "ansible_port": PORT,
                "ansible_ssh_args": f"-o ConnectTimeout={CONNECT} -o StrictHostKeyChecking=yes",
            }
            for index, address in enumerate(addresses)
        }
        gpu = document["all"]["children"]["gpu"]["hosts"]
        document["all"]["children"]["gpu"]["hosts"] = {**away, **gpu}  # those that answer come last
        inventory.write_text(yaml.safe_dump(document, sort_keys=False))
        begin = time.monotonic()
        found = gpuadmin(directory, "sync-users", "--yes")
        took = time.monotonic() - begin
    assert found["exit_code"] == 4, found["stderr"]
    states = {name: host["status"] for name, host in found["hosts"].items()}
    assert states == {"storage1": "changed", "node1": "changed", **dict.fromkeys(away, "unreachable")}
    assert {found["hosts"][name]["message"] for name in away} == {"does not answer (timed out)"}
    assert took < 3 * 2 * CONNECT, f"{took:.0f} s: they were waited for in turns"
