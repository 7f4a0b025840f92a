"""Scrapes of what the collector wrote, from node_exporter: for collector.py."""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
ALL, OURS = "/metrics", "/metrics?collect[]=textfile"
SCRAPES = 300


def measure_scrapes(at: Path) -> dict[str, float]:
    """node_exporter as the role runs it, without TLS, with our files: milliseconds until a scrape is there."""
    program = shutil.which("prometheus-node-exporter")
    if program is None:
        raise SystemExit("apt-get install --no-install-recommends prometheus-node-exporter")
    role = yaml.safe_load((ROOT / "roles/node_metrics/vars/main.yml").read_text())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--collector.disable-defaults", f"--collector.textfile.directory={at}/*"]
    command += [f"--collector.{name}" for name in role["_node_metrics_collectors"]]
    command += [f"--collector.filesystem.fs-types-exclude={role['_node_metrics_types']}"]
    command += ["--collector.filesystem.mount-points-exclude=" + role["_node_metrics_mounts"].replace("$$", "$")]
    command += [f"--web.listen-address=127.0.0.1:{port}", "--web.max-requests=8"]
    found: dict[str, float] = {}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as exporter:
        try:
            patiently(lambda: scrape(port, OURS))
            for name, path in (("scrape of ours", OURS), ("scrape of everything", ALL)):
                text = scrape(port, path)
                assert b"gpuadmin_gpu_processes{" in text, "our files are in it"
                begun = processor_ms(exporter.pid)
                took = sorted(timed(lambda path=path: scrape(port, path)) for _ in range(SCRAPES))
                found[f"{name}, lines"] = sum(1 for line in text.splitlines() if not line.startswith(b"#"))
                found[f"{name}, median ms"] = took[SCRAPES // 2]
                found[f"{name}, p99 ms"] = took[int(SCRAPES * 0.99)]
                found[f"{name}, exporter's processor ms"] = (processor_ms(exporter.pid) - begun) / SCRAPES
            memory = Path(f"/proc/{exporter.pid}/status").read_text().partition("VmHWM:")[2].split()[0]
        finally:
            exporter.terminate()
    return {**found, "exporter, MiB": int(memory) / 1024}


def processor_ms(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") * 1000


def scrape(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    assert answer.status == 200, text[:200]
    return text


def patiently(ask: Callable[[], bytes]) -> bytes:
    end = time.monotonic() + 10
    while True:
        try:
            return ask()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)  # it has not begun to listen


def timed(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return (time.perf_counter() - begin) * 1000
