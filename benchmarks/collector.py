"""What measuring a node costs: 8 GPUs and 64 processes that hold them.

    sudo .venv/bin/python benchmarks/collector.py [--passes 30] [--json FILE]

Method. The driver is the tests' fake libnvidia-ml.so.1; the processes are real ones that have device nodes open. A pass
is all of one: the sampler asks and writes, the mapper looks and writes. Counted is the processor time of sampler,
its child and mapper over all passes; the fastest on the clock is beside it, since a median says what else runs. Memory
is that of two processes as large as this one. node_exporter serves what was written (scrapes.py). Leaves with 1 above a
limit.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from _checkout import ROOT
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import mapper, sampler
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.containers import Names
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Owners
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.running import PERIOD, RECORD

from benchmarks.scrapes import measure_scrapes
from tests.support import fake_nvml

GPUS, PROCESSES = 8, 64
PASS_MS, CORE_PERCENT, MEMORY_MIB, SCRAPE_MS = 50.0, 1.0, 60.0, 20.0


def described(pids: list[int]) -> str:
    head, first, *_ = fake_nvml.TWO.read_text().split("[gpu]\n")
    first = first.partition("[process]")[0]
    parts = [head]
    for index in range(GPUS):
        uuid = f"GPU-11111111-2222-3333-4444-{index:012d}"
        own = first.replace("GPU-11111111-2222-3333-4444-555555555555", uuid).replace("minor = 0", f"minor = {index}")
        parts.append("[gpu]\n" + own.replace("00000000:01:00", f"00000000:0{index + 1}:00"))
        parts += [f"[process]\npid = {pid}\nmemory = 1000000\n" for pid in pids[index::GPUS]]
    return "".join(parts)


def measured(function: Callable[[], object]) -> float:
    begin = time.perf_counter()
    function()
    return (time.perf_counter() - begin) * 1000


def processor_seconds(child: int) -> float:
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return time.process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(at: Path, passes: int) -> dict[str, float]:
    for name in ("sampler", "mapper", "dev", "cgroups/user.slice", "bus"):
        (at / name).mkdir(parents=True)
    for name in [*(f"nvidia{index}" for index in range(GPUS)), "nvidia-uvm"]:
        os.mknod(at / "dev" / name, 0o20666, os.makedev(1, 3))
    (at / "kmsg").touch()
    os.environ[fake_nvml.VARIABLE] = str(at / "nvml")
    forks: list[str] = []
    with ExitStack() as stack:
        holders = []
        for number in range(PROCESSES):
            script = f"exec 3<{at}/dev/nvidia{number % GPUS} 4<{at}/dev/nvidia-uvm; exec sleep 1000"
            holders.append(stack.enter_context(subprocess.Popen(["sh", "-c", script])))
        stack.callback(lambda: [holder.kill() for holder in holders])
        (at / "nvml").write_text(described([holder.pid for holder in holders]))
        places = sampler.Places(str(at / "sampler"), str(at), str(at / "bus"), str(fake_nvml.library()))
        one = sampler.Sampler(places, GPUS)
        stack.callback(one.close)
        other = mapper.Mapper(
            mapper.Places(
                str(at / "mapper"), str(at / "sampler" / RECORD), str(at / "counters.json"), dev=str(at / "dev"),
                cgroups=str(at / "cgroups"), log=str(at / "kmsg"), capabilities=str(at),
            ),
            Owners(), Names(),
        )  # fmt: skip
        for _ in range(5):
            one.sample()
            other.map()
        text = (at / "mapper" / mapper.TEXT).read_text()
        assert text.count("gpuadmin_gpu_processes{") == GPUS, text
        assert one._resident is not None
        child = one._resident._child or 0
        sys.addaudithook(lambda event, _: forks.append(event) if event in ("os.fork", "subprocess.Popen") else None)
        begun = processor_seconds(child)
        samples, maps = [], []
        for _ in range(passes):
            samples.append(measured(one.sample))
            maps.append(measured(other.map))
        took = processor_seconds(child) - begun
        assert forks == [], "no process is started"
        memory = 2 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        scraped = measure_scrapes(at)
    totals = [first + second for first, second in zip(samples, maps, strict=True)]
    return {
        "pass, processor ms": took / passes * 1000,
        "% of a core": took / passes / PERIOD * 100,
        "MiB": memory,
        "pass, fastest ms": min(totals),
        "sampler, fastest ms": min(samples),
        "mapper, fastest ms": min(maps),
        **scraped,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="Cost of measuring a node.")
    parser.add_argument("--passes", type=int, default=30)
    parser.add_argument("--json", type=Path, default=ROOT / "build" / "collector.json", help="where the figures go")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="gpuadmin-bench-") as name:
        found = run(Path(name), options.passes)
    print("| | |\n| --- | ---: |")
    for key, value in found.items():
        print(f"| {key} | {value:.2f} |")
    options.json.parent.mkdir(parents=True, exist_ok=True)
    method = f"{options.passes} passes, {GPUS} GPUs, {PROCESSES} processes"
    options.json.write_text(json.dumps({"method": method, **found}, indent=1))
    limits = {
        "pass, processor ms": PASS_MS,
        "% of a core": CORE_PERCENT,
        "MiB": MEMORY_MIB,
        "scrape of ours, p99 ms": SCRAPE_MS,
    }
    too_much = any(found.get(key, 0.0) >= limit for key, limit in limits.items())
    print(f"\nPromised: a pass under {PASS_MS:g} ms of a processor, {CORE_PERCENT:g} % of a core, {MEMORY_MIB:g} MiB,")
    print(f"and 99 of 100 scrapes of what it wrote within {SCRAPE_MS:g} ms.")
    return int(too_much)


if __name__ == "__main__":
    sys.exit(main())
