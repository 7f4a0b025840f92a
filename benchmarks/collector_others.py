"""What others do of the same: gpustat and nvitop on the same fake driver, and node_exporter serving what we wrote.

Helpers of collector.py. Each tool is measured as it is called (a program that starts, asks and ends) and as it could
be kept (in one process, asked again and again), in processor time.
"""

from __future__ import annotations

import http.client
import json
import os
import resource
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("gpustat", "nvitop")
#: What a tool does in one pass when it is kept: all GPUs and all processes with their owners.
KEPT = {
    "gpustat": "import gpustat\ndef one():\n    return [p for g in gpustat.new_query() for p in g.processes]",
    "nvitop": "import nvitop\nall_of_them = nvitop.Device.all()\ndef one():\n"
    "    return [(p.pid, p.username(), p.gpu_memory(), d.gpu_utilization(), d.memory_used(), d.power_usage(),\n"
    "             d.temperature()) for d in all_of_them for p in d.processes().values()]",
}
ALL, OURS = "/metrics", "/metrics?collect[]=textfile"
LOOP = """
import json, time
for _ in range(3): found = one()
begin = time.process_time()
for _ in range({passes}): one()
print(json.dumps([len(found), (time.process_time() - begin) / {passes} * 1000]))
"""


def spawned(command: Sequence[str | Path], passes: int, environment: Mapping[str, str] | None = None) -> float:
    """Processor milliseconds of a program that is started for each pass."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(passes):
        subprocess.run(command, capture_output=True, check=True, env=environment, stdin=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / passes * 1000


def others(at: Path, library: Path, processes: int, passes: int) -> dict[str, float]:
    """gpustat and nvitop from PyPI, in an environment of their own."""
    subprocess.run([sys.executable, "-m", "venv", at / "others"], check=True)
    program = at / "others/bin"
    subprocess.run([program / "pip", "install", "-qq", "--disable-pip-version-check", *PACKAGES], check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "TERM": "xterm", "COLUMNS": "200"}
    calls = {"gpustat": [program / "gpustat", "--json"], "nvitop": [program / "nvitop", "--once"]}
    found: dict[str, float] = {}
    for name, call in calls.items():
        found[f"{name}, started each time, processor ms"] = spawned(call, max(passes // 6, 3), environment)
        script = KEPT[name] + LOOP.format(passes=passes)
        done = subprocess.run(
            [program / "python", "-c", script], capture_output=True, text=True, check=True, env=environment
        )
        seen, took = json.loads(done.stdout.splitlines()[-1])
        assert seen == processes, f"{name} saw {seen} processes"
        found[f"{name}, kept, processor ms"] = took
    return found


def scrapes(at: Path, number: int = 300) -> dict[str, float]:
    """node_exporter as the role runs it, without TLS, with our files: milliseconds until a scrape is there."""
    program = shutil.which("prometheus-node-exporter")
    assert program is not None, "the package prometheus-node-exporter is missing"
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
                took = sorted(timed(lambda path=path: scrape(port, path)) for _ in range(number))
                found[f"{name}, lines"] = sum(1 for line in text.splitlines() if not line.startswith(b"#"))
                found[f"{name}, median ms"] = took[number // 2]
                found[f"{name}, p99 ms"] = took[int(number * 0.99)]
                found[f"{name}, exporter's processor ms"] = (processor_ms(exporter.pid) - begun) / number
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
