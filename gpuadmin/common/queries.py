"""What verbs and the dashboard ask Prometheus. Nothing that a person types is ever a part of a question."""

from __future__ import annotations

from .idle import QUEUE

# What `of_samples` (cluster.py) reads, in one answer.
NOW_NAMES = (
    "gpuadmin_gpus_expected", "gpuadmin_gpus_answering", "gpuadmin_gpus_on_bus", "gpuadmin_gpu_driver_state",
    "gpuadmin_gpu_info", "gpuadmin_gpu_silent", "gpuadmin_gpu_utilization_ratio", "gpuadmin_gpu_memory_size_bytes",
    "gpuadmin_gpu_memory_used_bytes", "gpuadmin_gpu_power_watts", "gpuadmin_gpu_temperature_celsius",
    "gpuadmin_mig_info", "gpuadmin_mig_utilization_ratio", "gpuadmin_mig_memory_size_bytes",
    "gpuadmin_mig_memory_used_bytes",
    "gpuadmin_gpu_allocated", "gpuadmin_gpu_allocated_since_timestamp_seconds", "gpuadmin_gpu_processes",
    "gpuadmin_gpu_process_memory_bytes", "gpuadmin_gpu_unused_since_timestamp_seconds",
    "gpuadmin_gpu_job_unused_since_timestamp_seconds",
    "gpuadmin_gpu_granted_until_timestamp_seconds", "gpuadmin_gpu_ungranted_since_timestamp_seconds",
    "gpuadmin_collector_success", "gpuadmin_collector_sample_timestamp_seconds",
    "probe_success", "up", "node_memory_MemTotal_bytes", "node_memory_MemAvailable_bytes", "node_load1",
)  # fmt: skip


def now() -> str:
    """What every node and GPU does now, and who holds what; and when each node was asked last: what Prometheus answers
    is up to five minutes old.
    """
    when = 'label_replace(timestamp(up{job="node"}), "what", "measured", "", "")'
    return f'{{__name__=~"{"|".join(NOW_NAMES)}"}} or {when}'


def seconds_by_holder(kind: str, days: int) -> str:
    """Seconds of the last days by person, node and device. `kind`: held, measured or active."""
    if kind not in ("held", "measured", "active"):
        raise ValueError(kind)
    return f"sum by (user, instance, uuid) (increase(gpuadmin_gpu_{kind}_seconds_total[{int(days)}d]))"


def granted_seconds(days: int) -> str:
    """Seconds of the last days in which somebody was granted a device, by person, node and device."""
    name = "gpuadmin_gpu_granted_until_timestamp_seconds"
    return f"count_over_time((max by (user, instance, uuid) ({name}))[{int(days)}d:5m]) * 300"


def allocated_seconds(days: int) -> str:
    """GPU seconds of the last days that the queue gave to somebody, by person and account (a group of people)."""
    return f"sum by (user, account) (sum_over_time(gpuadmin_queue_allocated_gpus[{int(days)}d:5m])) * 300"


def project_seconds(days: int) -> str:
    """The same by person and project; the project is empty for what is of none."""
    return f"sum by (user, project) (sum_over_time(gpuadmin_queue_allocated_gpus[{int(days)}d:5m])) * 300"


def waits(days: int) -> str:
    """How long each job with GPUs that began in the last days had waited, in seconds, by job and person: as recorded
    for /usage, too (roles/monitoring/files/rules/usage.yml)."""
    return f"max by (id, user) (max_over_time(gpuadmin:waited_seconds[{int(days)}d]))"


def energy(days: int) -> str:
    """kWh that GPUs drew in the last days, by node; without what the rest of the node draws."""
    return f"sum by (instance) (sum_over_time(gpuadmin_gpu_power_watts[{int(days)}d:5m])) * 300 / 3.6e6"


#: What an admin has given to somebody, grants and exceptions of the queue: until when. What the queue gave says Slurm.
GIVEN = f'last_over_time(gpuadmin_gpu_granted_until_timestamp_seconds{{who!="{QUEUE}"}}[5m])'


#: What a room is too hot for, or draws too much, to have one more node on.
HOT = 'ALERTS{alertstate="firing",alertname=~"InletHot|PowerNearBudget|PowerOverBudget"}'


def gpu_seconds(days: int) -> str:
    """Seconds in which GPUs were there, by node: what could have been used."""
    return f"sum by (instance) (sum_over_time(gpuadmin_gpus_on_bus[{int(days)}d:5m]) * 300)"


def first_measured(days: int) -> str:
    """When GPUs were first measured in the last days, in seconds since 1970; an hour late at most."""
    return f"min(min_over_time(timestamp(gpuadmin_gpus_on_bus)[{int(days)}d:1h]))"


def mig_devices(days: int) -> str:
    """Which MIG devices there were in the last days, and of which GPU each is."""
    return f"max by (instance, uuid, gpu) (last_over_time(gpuadmin_mig_info[{int(days)}d]))"


def idle(hours: int) -> str:
    """Who has held a device all these hours and has not used it once: as the alert GpuHeldIdle."""
    span, most = f"{int(hours)}h", int(hours) * 3600 * 0.95
    return (
        f"sum by (user, instance, uuid) (increase(gpuadmin_gpu_held_seconds_total[{span}])) > {most}"
        f" and sum by (user, instance, uuid) (increase(gpuadmin_gpu_measured_seconds_total[{span}])) > {most}"
        f" unless sum by (user, instance, uuid) (increase(gpuadmin_gpu_active_seconds_total[{span}])) > 0"
    )
