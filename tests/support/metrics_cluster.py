"""A synthetic cluster as OpenMetrics samples: every node with its GPUs, who holds them, pings and exporters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from gpuadmin.config.skeleton import SiteHost, write_site

GIB = 1024**3


def line(name: str, labels: Mapping[str, str], value: float, when: float) -> str:
    inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
    return f"{name}{{{inside}}} {value:g} {when:.3f}" if value < 1e6 else f"{name}{{{inside}}} {value:.0f} {when:.3f}"


def node(name: str, when: float, gpus: int = 2, held: Mapping[int, tuple[str, str]] | None = None) -> Iterator[str]:
    """One node that is up and well. `held`: index → user and container."""
    base = {"instance": name, "kind": "gpu"}
    yield line("probe_success", base | {"job": "ping"}, 1, when)
    yield line("up", base | {"job": "node"}, 1, when)
    own = base | {"job": "node"}
    yield line("node_load1", own, 3.5, when)
    yield line("node_memory_MemTotal_bytes", own, 512 * GIB, when)
    yield line("node_memory_MemAvailable_bytes", own, 400 * GIB, when)
    yield line("gpuadmin_gpus_expected", own, gpus, when)
    yield line("gpuadmin_gpus_answering", own, gpus, when)
    yield line("gpuadmin_gpus_on_bus", own, gpus, when)
    for state in ("none", "missing", "broken", "ok"):
        yield line("gpuadmin_gpu_driver_state", own | {"state": state}, state == "ok", when)
    for source in ("bus", "nvml", "processes", "people"):
        yield line("gpuadmin_collector_success", own | {"source": source}, 1, when)
        yield line("gpuadmin_collector_sample_timestamp_seconds", own | {"source": source}, when, when)
    for index in range(gpus):
        uuid = f"GPU-{name}-{index}"
        gpu = own | {"uuid": uuid}
        yield line("gpuadmin_gpu_info", gpu | {"index": str(index), "name": "NVIDIA H100", "mig": "false"}, 1, when)
        yield line("gpuadmin_gpu_utilization_ratio", gpu, 0.5 if index in (held or {}) else 0, when)
        yield line("gpuadmin_gpu_memory_size_bytes", gpu, 80 * GIB, when)
        yield line("gpuadmin_gpu_memory_used_bytes", gpu, 20 * GIB if index in (held or {}) else 0, when)
        yield line("gpuadmin_gpu_power_watts", gpu, 300, when)
        yield line("gpuadmin_gpu_temperature_celsius", gpu, 60, when)
        if held and index in held:
            user, container = held[index]
            mine = gpu | {"user": user, "container": container}
            yield line("gpuadmin_gpu_allocated", mine, 1, when)
            yield line("gpuadmin_gpu_allocated_since_timestamp_seconds", mine, when - 7200, when)
            yield line("gpuadmin_gpu_processes", mine, 1, when)
            yield line("gpuadmin_gpu_process_memory_bytes", mine, 20 * GIB, when)


def granted(name: str, index: int, user: str, when: float, until: float, reason: str = "a deadline") -> Iterator[str]:
    """That a GPU is granted to somebody, in the last hour."""
    labels = {"instance": name, "job": "node", "uuid": f"GPU-{name}-{index}", "user": user, "who": "root@nas",
              "reason": reason}  # fmt: skip
    for step in range(0, 3601, 60):
        yield line("gpuadmin_gpu_granted_until_timestamp_seconds", labels, until, when - 3600 + step)


def ungranted(name: str, index: int, user: str, when: float, since: float) -> str:
    labels = {"instance": name, "job": "node", "uuid": f"GPU-{name}-{index}", "user": user}
    return line("gpuadmin_gpu_ungranted_since_timestamp_seconds", labels, since, when)


LOCAL = {"ansible_connection": "local"}


def site(directory: Path, port: int) -> Path:
    hosts = [
        SiteHost("nas1", ("storage", "monitor"), LOCAL),
        *(SiteHost(name, ("gpu",), {"ansible_host": "127.0.0.1"}) for name in ("gpu1", "gpu2", "gpu3", "gpu4")),
    ]
    write_site(directory, name="test", settings={}, hosts=hosts, schemas=False)
    with (directory / "gpuadmin.yml").open("a", encoding="utf-8") as stream:
        stream.write(f"metrics: {{port: {port}, mail_to: [], power_budgets: {{room 301: 12000, room 302: 6500}}}}\n")
    return directory


def used(name: str, index: int, user: str, now: float, *, active: bool) -> Iterator[str]:
    """Three hours in which somebody holds a GPU, and uses it in the last hour or not at all."""
    labels = {"instance": name, "job": "node", "uuid": f"GPU-{name}-{index}", "user": user}
    for step in range(0, 10801, 60):
        when = now - 10800 + step
        yield line("gpuadmin_gpu_held_seconds_total", labels, step, when)
        yield line("gpuadmin_gpu_measured_seconds_total", labels, step, when)
        yield line("gpuadmin_gpu_active_seconds_total", labels, max(step - 7200, 0) if active else 0, when)
