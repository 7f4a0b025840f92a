"""`gpuadmin top`, from its command line to a real Prometheus that has what two nodes wrote."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuadmin.cli.top import command
from gpuadmin.config.skeleton import SiteHost, write_site
from tests.unit.monitoring.cluster import line, node
from tests.unit.monitoring.server import blocks, prometheus

pytestmark = pytest.mark.needs("promtool", "prometheus")
LOCAL = {"ansible_connection": "local"}


def site(directory: Path, port: int) -> Path:
    hosts = [
        SiteHost("nas1", ("storage", "monitor"), LOCAL),
        *(SiteHost(name, ("gpu",), {"ansible_host": "127.0.0.1"}) for name in ("gpu1", "gpu2", "gpu3", "gpu4")),
    ]
    write_site(directory, name="test", settings={}, hosts=hosts, schemas=False)
    with (directory / "gpuadmin.yml").open("a", encoding="utf-8") as stream:
        stream.write(f"metrics: {{port: {port}, mail_to: []}}\n")
    return directory


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A site whose Prometheus knows two nodes that are well, one that is down, and nothing of gpu4."""
    base = tmp_path_factory.mktemp("prometheus")
    now = time.time()
    lines = [*node("gpu1", now, held={0: ("minji", "train")}), *node("gpu2", now, held={1: ("junho", "x\x1b[31my")})]
    lines += [
        line("probe_success", {"instance": "gpu3", "job": "ping"}, 0, now),
        line("up", {"instance": "gpu3", "job": "node"}, 0, now),
        line("up", {"instance": "gpu9", "job": "node"}, 1, now),  # no host of this site any more
    ]
    with prometheus(base, blocks(base, lines)) as port:
        yield site(base / "site", port)


def run(server: Path, *arguments: str) -> str:
    done = CliRunner().invoke(command, ["--site", str(server), *arguments], standalone_mode=False)
    assert done.exception is None, done.output
    assert done.return_value == 0
    return done.stdout


def test_the_document(server: Path) -> None:
    found = json.loads(run(server, "--once", "--json"))["result"]
    assert {name: entry["state"] for name, entry in found["nodes"].items()} == {
        "gpu1": "up", "gpu2": "up", "gpu3": "down", "gpu4": "unknown",
    }  # fmt: skip
    first, second = found["nodes"]["gpu1"]["devices"]
    assert (first["index"], first["free"], first["utilization"]) == ("0", False, 0.5)
    (holder,) = first["holders"]
    assert (holder["user"], holder["container"], holder["processes"]) == ("minji", "train", 1)
    assert 7100 < time.time() - holder["since"] < 7500
    assert (second["free"], second["holders"]) == (True, [])
    assert found["totals"] == {"nodes": 4, "up": 2, "devices": 4, "free": 2, "held": 2, "unknown": 0}


def test_the_screen(server: Path) -> None:
    shown = run(server, "--once")
    assert "2 of 4 nodes up · 2 of 4 GPUs free" in shown
    rows = [line for line in shown.splitlines() if "NVIDIA" in line]
    assert len(rows) == 4
    assert "minji in train" in rows[0]
    assert "2 h" in rows[0]
    assert "free" in rows[1]
    assert "gpu3: does not answer a ping" in shown
    assert "gpu4: nothing is measured of it" in shown
    assert "\x1b" not in shown
    assert "gpu9" not in shown


def test_one_person_alone(server: Path) -> None:
    found = json.loads(run(server, "--once", "--json", "--user", "minji"))["result"]
    assert {name: len(entry["devices"]) for name, entry in found["nodes"].items()} == {
        "gpu1": 1, "gpu2": 0, "gpu3": 0, "gpu4": 0,
    }  # fmt: skip
    assert "junho" not in run(server, "--once", "--user", "minji")


def test_some_hosts_alone(server: Path) -> None:
    assert set(json.loads(run(server, "--json", "--limit", "gpu2"))["result"]["nodes"]) == {"gpu2"}
