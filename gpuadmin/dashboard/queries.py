"""What the pages ask Prometheus, besides the verbs' own questions. All are fixed: at most, a request adds a name that
is already known, a node of the site or a measured person, as a quoted value.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_FILES = 'fstype!~"tmpfs|ramfs|overlay|squashfs|vfat|nfs.*"'  # as the alerts DiskFull and DiskFullSoon
#: What else holds now of hosts, GPUs and people.
DETAIL_NAMES = (
    "node_boot_time_seconds", "gpuadmin_gpu_throttled", "gpuadmin_gpu_power_limit_watts", "gpuadmin_user_memory_bytes",
    "gpuadmin_user_tasks", "gpuadmin_user_disk_bytes",
)  # fmt: skip
DETAILS = f'{{__name__=~"{"|".join(DETAIL_NAMES)}"}}'
DISKS = f'{{__name__=~"node_filesystem_(avail|size)_bytes",{_FILES}}}'
ALERTS = 'ALERTS{alertstate="firing",instance!="",alertname!~"Heartbeat|GpuHeldIdle"}'
CPU = '1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))'
PEOPLES_CPU = "sum by (instance, user) (rate(gpuadmin_user_cpu_seconds_total[5m]))"
UTILIZATION = "avg_over_time(gpuadmin_gpu_utilization_ratio[15m])"

QUEUE = '{__name__=~"gpuadmin_queue_.+"} or gpuadmin_collector_sample_timestamp_seconds{source="queue"}'

#: Network cards: what is carried over bonds, bridges, VLANs and tunnels is counted on the cards below them. Names of
#: cards are anybody's choice, so what is none of those is one. (The exporter leaves out those of containers.)
CARDS = (
    'device!~"bond.*|team.*|br[0-9].*|virbr.*|ovs.*|dummy.*|ifb.*|vlan.*|macv.*|ipvl.*|vxlan.*|geneve.*|gre.*|sit.*|'
    'ip6.*|ipip.*|wg.*|tailscale.*|zt.*|flannel.*|cali.*|vnet.*|lxc.*|lxd.*|incus.*|.*[.:@].*"'
)
#: Whole disks, by the kernel's names for them: neither their parts nor the volumes and arrays on them.
WHOLE_DISKS = 'device=~"(sd|hd|vd|xvd|dasd)[a-z]+|nvme[0-9]+n[0-9]+|mmcblk[0-9]+|pmem[0-9]+"'
KINDS = ("held", "measured", "active")

#: The spans that plots offer: name in an address, seconds, and seconds between two points.
SPANS: Mapping[str, tuple[int, int]] = {
    "1h": (3600, 30), "1d": (86400, 600), "7d": (7 * 86400, 3600), "30d": (30 * 86400, 4 * 3600),
}  # fmt: skip


def quoted(name: str) -> str:
    """A name as PromQL's string: whatever is in it, it is a value and ends where it ends."""
    return (
        '"'
        # guard: a name in a query ends where it ends -> name.replace('\\', '\\\\').replace('\n', '\\n')
        + name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        + '"'
    )


def last_seen(nodes: Sequence[str]) -> Mapping[str, str]:
    """When these nodes last answered a ping, and when they were last measured, in the last 30 days."""
    names = quoted("|".join(re.escape(name) for name in sorted(nodes)))
    return {
        kind: f"max by (instance) (max_over_time(timestamp({what}, instance=~{names}}} == 1)[30d:2m]))"
        for kind, what in {"down": 'probe_success{job="ping"', "silent": 'up{job="node"'}.items()
    }


def query_gpu_hours(kind: str, user: str, days: int) -> str:
    """Seconds of the last days in which somebody held or used a GPU, by node and device."""
    if kind not in KINDS:
        raise ValueError(kind)
    series = f"gpuadmin_gpu_{kind}_seconds_total{{user={quoted(user)}}}"
    return f"sum by (user, instance, uuid) (increase({series}[{int(days)}d]))"


def hours_of_all(days: int) -> str:
    """The same of everybody, by person and node, in one answer; the label `kind` says what each number is."""
    return " or ".join(
        f"label_replace(sum by (user, instance) (increase(gpuadmin_gpu_{kind}_seconds_total[{int(days)}d])),"
        f' "kind", "{kind}", "", "")'
        for kind in KINDS
    )


def of_node(name: str, step: int) -> Mapping[str, str]:
    """By what it is: how a node and its GPUs were. Ratios, watts, °C, bytes per second."""
    at = f"{{instance={quoted(name)}}}"
    idle = f'{{instance={quoted(name)},mode="idle"}}'
    mean = f"[{max(step, 120)}s]"
    cards, disks = (f"{{instance={quoted(name)},{which}}}" for which in (CARDS, WHOLE_DISKS))
    return {
        "utilization": f"avg_over_time(gpuadmin_gpu_utilization_ratio{at}{mean})",
        "gpu-memory": f"avg_over_time(gpuadmin_gpu_memory_used_bytes{at}{mean}) / gpuadmin_gpu_memory_size_bytes{at}",
        "power": f"avg_over_time(gpuadmin_gpu_power_watts{at}{mean})",
        "temperature": f"max_over_time(gpuadmin_gpu_temperature_celsius{at}{mean})",
        "cpu": f"1 - avg by (instance) (rate(node_cpu_seconds_total{idle}{mean}))",
        "memory": f"1 - avg_over_time(node_memory_MemAvailable_bytes{at}{mean}) / node_memory_MemTotal_bytes{at}",
        "received": f"sum by (instance) (rate(node_network_receive_bytes_total{cards}{mean}))",
        "sent": f"sum by (instance) (rate(node_network_transmit_bytes_total{cards}{mean}))",
        "read": f"sum by (instance) (rate(node_disk_read_bytes_total{disks}{mean}))",
        "written": f"sum by (instance) (rate(node_disk_written_bytes_total{disks}{mean}))",
    }


def of_person(user: str, step: int) -> Mapping[str, str]:
    """By what it is: how many devices somebody held, and how many of them worked."""
    who, mean = f"{{user={quoted(user)}}}", f"[{max(step, 120)}s]"
    return {
        "held": f"count(count by (instance, uuid) (gpuadmin_gpu_allocated{who}))",
        "used": f"sum(rate(gpuadmin_gpu_active_seconds_total{who}{mean}))",
    }


def of_cluster(step: int) -> Mapping[str, str]:
    """The same of all people together."""
    return {
        "held": "count(count by (instance, uuid) (gpuadmin_gpu_allocated))",
        "used": f"sum(avg_over_time(gpuadmin_gpu_utilization_ratio[{max(step, 120)}s]))",
    }
