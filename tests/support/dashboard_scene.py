"""A cluster with everything that the pages must be able to show, as OpenMetrics samples: MIG, nodes that are away,
holders that nobody knows, people who share a GPU, who are idle, who wait for their data, and one who is hostile.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

GIB = 1024**3
DAY = 86400
NODES = ("gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "gpu06")
#: Everybody who is in the measurements.
PEOPLE = ("minji", "jiho", "seoyeon", "doyun", "mallory")
#: What somebody may call a container, if their daemon lets them: markup, a quote, text that turns around, length.
HOSTILE = "<script>alert(1)</script>'\"&\u202egnp.exe" + "x" * 300


def line(name: str, labels: Mapping[str, str], value: float, when: float) -> str:
    inside = ",".join(
        f'{key}="{text}"'
        for key, text in (
            (key, text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for key, text in labels.items()
        )
    )
    return f"{name}{{{inside}}} {value:.10g} {when:.3f}"


def _host(name: str, when: float, number: int) -> Iterator[str]:
    own = {"instance": name, "kind": "gpu", "job": "node"}
    yield line("node_load1", own, 3.5 + number, when)
    yield line("node_memory_MemTotal_bytes", own, 512 * GIB, when)
    yield line("node_memory_MemAvailable_bytes", own, (400 - 120 * (number % 4)) * GIB, when)
    yield line("node_boot_time_seconds", own, when - DAY * (3 + number), when)
    for path, used in (("/", 0.4), ("/local", 0.93 if number == 2 else 0.6)):
        disk = own | {"device": f"/dev/{path[1:] or 'root'}", "mountpoint": path, "fstype": "btrfs"}
        yield line("node_filesystem_size_bytes", disk, 2000 * GIB, when)
        yield line("node_filesystem_avail_bytes", disk, 2000 * GIB * (1 - used), when)


def _collected(name: str, when: float, gpus: int, *, processes: bool = True, lost: bool = False) -> Iterator[str]:
    own = {"instance": name, "kind": "gpu", "job": "node"}
    for what, count in (("expected", gpus + lost), ("answering", gpus), ("on_bus", gpus + lost)):
        yield line(f"gpuadmin_gpus_{what}", own, count, when)
    for state in ("none", "missing", "broken", "ok"):
        yield line("gpuadmin_gpu_driver_state", own | {"state": state}, state == "ok", when)
    for source in ("bus", "nvml", "processes", "people"):
        good = processes or source != "processes"
        yield line("gpuadmin_collector_success", own | {"source": source}, good, when)
        yield line("gpuadmin_collector_sample_timestamp_seconds", own | {"source": source}, when, when)


def _gpu(node: str, index: int, when: float, use: float, memory: float, *, mig: bool = False) -> Iterator[str]:
    own = {"instance": node, "kind": "gpu", "job": "node", "uuid": f"GPU-{node}-{index}"}
    info = {"index": str(index), "name": "NVIDIA H100 80GB HBM3", "mig": "true" if mig else "false"}
    yield line("gpuadmin_gpu_info", own | info, 1, when)
    if not mig:
        yield line("gpuadmin_gpu_utilization_ratio", own, use, when)
    yield line("gpuadmin_gpu_memory_size_bytes", own, 80 * GIB, when)
    yield line("gpuadmin_gpu_memory_used_bytes", own, memory * GIB, when)
    yield line("gpuadmin_gpu_power_watts", own, 90 + 560 * use, when)
    yield line("gpuadmin_gpu_power_limit_watts", own, 700, when)
    yield line("gpuadmin_gpu_temperature_celsius", own, 34 + 40 * use, when)


def _held(node: str, uuid: str, user: str, container: str, when: float, since: float, memory: float) -> Iterator[str]:
    mine = {"instance": node, "kind": "gpu", "job": "node", "uuid": uuid, "user": user, "container": container}
    yield line("gpuadmin_gpu_allocated", mine, 1, when)
    yield line("gpuadmin_gpu_allocated_since_timestamp_seconds", mine, since, when)
    yield line("gpuadmin_gpu_processes", mine, 1, when)
    yield line("gpuadmin_gpu_process_memory_bytes", mine, memory * GIB, when)


#: node, GPU → user, container, held for (seconds), GiB, how busy the GPU is
HELD = {
    ("gpu01", 0): ("minji", "train-llm", 5 * 3600, 61, 0.97),
    ("gpu01", 1): ("minji", "train-llm", 5 * 3600, 61, 0.95),
    ("gpu01", 2): ("jiho", "notebook", 9 * 3600, 20, 0.0),
    ("gpu02", 0): ("seoyeon", "", 3 * 3600, 30, 0.18),
    ("gpu02", 1): ("mallory", HOSTILE, 4000, 3, 0.5),
    ("gpu02", 3): ("(unknown)", "", 4000, 3, 0.5),
}


def now(when: float) -> Iterator[str]:
    """What holds at that moment."""
    for number, name in enumerate(NODES):
        base = {"instance": name, "kind": "gpu"}
        yield line("probe_success", base | {"job": "ping"}, name != "gpu05", when)
        yield line("up", base | {"job": "node"}, name not in ("gpu05", "gpu06"), when)
        if name in ("gpu05", "gpu06"):
            continue
        yield from _host(name, when, number)
        lost = name == "gpu03"
        yield from _collected(name, when, 4, processes=name != "gpu04", lost=lost)
        if lost:
            silent = base | {"job": "node", "index": "4", "problem": "GPU_IS_LOST"}
            yield line("gpuadmin_gpu_silent", silent, 1, when)
        for index in range(4):
            held = HELD.get((name, index))
            mig = (name, index) == ("gpu03", 0)
            yield from _gpu(name, index, when, held[4] if held else 0.0, held[3] if held else 0.0, mig=mig)
            if held:
                user, container, seconds, memory, _use = held
                yield from _held(name, f"GPU-{name}-{index}", user, container, when, when - seconds, memory)
    # two people on one GPU
    yield from _held("gpu01", "GPU-gpu01-1", "doyun", "eval", when, when - 900, 8)
    own = {"instance": "gpu03", "kind": "gpu", "job": "node"}
    for index in range(3):
        device = own | {"uuid": f"MIG-gpu03-{index}"}
        info = {"gpu": "GPU-gpu03-0", "index": str(index), "name": "MIG 2g.20gb"}
        yield line("gpuadmin_mig_info", device | info, 1, when)
        yield line("gpuadmin_mig_memory_size_bytes", device, 20 * GIB, when)
        yield line("gpuadmin_mig_memory_used_bytes", device, (11 if index == 0 else 0) * GIB, when)
    yield from _held("gpu03", "MIG-gpu03-0", "doyun", "class", when, when - 40 * 60, 11)
    thrown = own | {"uuid": "GPU-gpu03-3", "reason": "heat"}
    yield line("gpuadmin_gpu_throttled", thrown, 1, when)
    alert = {"alertstate": "firing", "alertname": "GpuHot", "severity": "warning", "uuid": "GPU-gpu03-3"}
    yield line("ALERTS", {"instance": "gpu03", "kind": "gpu"} | alert, 1, when)
    for user, node, memory in (
        ("minji", "gpu01", 40),
        ("jiho", "gpu01", 12),
        ("seoyeon", "gpu02", 90),
        ("gpuadmin", "gpu01", 2),
    ):
        person = {"instance": node, "kind": "gpu", "job": "node", "user": user}
        yield line("gpuadmin_user_memory_bytes", person, memory * GIB, when)
        yield line("gpuadmin_user_tasks", person, 120, when)
    for user, size in (("minji", 812), ("jiho", 45)):
        yield line("gpuadmin_user_disk_bytes", {"instance": "nas1", "user": user}, size * GIB, when)


def before(when: float, hours: float = 25, step: int = 30) -> Iterator[str]:
    """What led there: counters and gauges of the last hours, without the moment itself."""
    spans = [when - number * step for number in range(int(hours * 3600 / step), 0, -1)]
    for moment in spans:
        ago = when - moment
        wave = 0.5 + 0.5 * math.sin(ago / 5000)
        yield line("probe_success", {"instance": "gpu05", "kind": "gpu", "job": "ping"}, ago > 5400, moment)
        yield line("up", {"instance": "gpu06", "kind": "gpu", "job": "node"}, ago > 900, moment)
        own = {"instance": "gpu01", "kind": "gpu", "job": "node"}
        yield line("node_memory_MemTotal_bytes", own, 512 * GIB, moment)
        yield line("node_memory_MemAvailable_bytes", own, (200 + 150 * wave) * GIB, moment)
        for device, received, sent in (("eth0", 40e6, 2e6), ("bond0", 40e6, 2e6), ("eth0.12", 9e6, 9e6)):
            card = own | {"device": device}
            yield line("node_network_receive_bytes_total", card, (hours * 3600 - ago) * received, moment)
            yield line("node_network_transmit_bytes_total", card, (hours * 3600 - ago) * sent, moment)
        for device, read, written in (("nvme0n1", 200e6, 30e6), ("sda", 5e6, 1e6), ("dm-0", 200e6, 30e6)):
            disk = own | {"device": device}
            yield line("node_disk_read_bytes_total", disk, (hours * 3600 - ago) * read, moment)
            yield line("node_disk_written_bytes_total", disk, (hours * 3600 - ago) * written, moment)
        for cpu in range(2):
            busy = {"cpu": str(cpu), "mode": "idle"}
            yield line("node_cpu_seconds_total", own | busy, (hours * 3600 - ago) * 0.35, moment)
        for index in range(4):
            held = HELD.get(("gpu01", index))
            use = 0.0 if held is None else held[4] * (0.4 + 0.6 * wave) if ago < held[2] else 0.0
            yield from _gpu("gpu01", index, moment, use, held[3] if held and ago < held[2] else 0)
        for (node, index), (user, container, seconds, _memory, use) in HELD.items():
            if ago > seconds:
                continue
            uuid = f"GPU-{node}-{index}"
            mine = {"instance": node, "kind": "gpu", "job": "node", "uuid": uuid, "user": user}
            yield line("gpuadmin_gpu_allocated", mine | {"container": container}, 1, moment)
            # of what a MIG device does, nothing is measured
            rates = (("held", 1.0), ("measured", 1.0), ("active", min(1.0, use * 1.02)))
            for kind, rate in rates[: 1 if user == "mallory" else 3]:
                yield line(f"gpuadmin_gpu_{kind}_seconds_total", mine, (seconds - ago) * rate, moment)
            if ago < 1800 and node != "gpu01":
                yield line("gpuadmin_gpu_utilization_ratio", {k: mine[k] for k in mine if k != "user"}, use, moment)
        if 2 * 3600 < ago <= 4 * 3600:  # who had a GPU, and is logged in nowhere now
            mine = {"instance": "gpu03", "kind": "gpu", "job": "node", "uuid": "GPU-gpu03-1", "user": "yuna"}
            for kind in ("held", "measured", "active"):
                yield line(f"gpuadmin_gpu_{kind}_seconds_total", mine, 4 * 3600 - ago, moment)
        for user, node, cores in (("minji", "gpu01", 6), ("jiho", "gpu01", 0.1), ("seoyeon", "gpu02", 14)):
            if ago < 1800:
                person = {"instance": node, "kind": "gpu", "job": "node", "user": user}
                yield line("gpuadmin_user_cpu_seconds_total", person, (hours * 3600 - ago) * cores, moment)
