"""From what a node's GPUs say to samples, and to the record that tells the mapper who is on which. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuadmin.common.metrics import DRIVER_STATES
from gpuadmin.common.records.gpus import OnBus

from ..gpus.driver import Driver
from ..gpus.nvml import SLOWED
from .exposition import Samples

REASONS = {word: word.replace(" ", "_").replace("(", "").replace(")", "") for word in SLOWED.values()}
#: Of a GPU's record: gauge, key, and what its unit is multiplied with.
GAUGES = (
    ("gpuadmin_gpu_utilization_ratio", "utilization", 0.01),
    ("gpuadmin_gpu_memory_busy_ratio", "utilization_memory", 0.01),
    ("gpuadmin_gpu_memory_size_bytes", "memory", 1),
    ("gpuadmin_gpu_memory_used_bytes", "memory_used", 1),
    ("gpuadmin_gpu_power_watts", "power", 1),
    ("gpuadmin_gpu_power_limit_watts", "power_limit", 1),
    ("gpuadmin_gpu_temperature_celsius", "temperature", 1),
    ("gpuadmin_gpu_pcie_lanes", "pcie_width", 1),
    ("gpuadmin_gpu_pcie_lanes_max", "pcie_width_max", 1),
)


def of_bus(devices: Sequence[OnBus], driver: Driver, answered: bool | None, expected: int | None) -> Samples:
    """What the bus and files say. ``answered``: whether NVML did; None if nobody was to be asked."""
    samples = Samples()
    samples.put("gpuadmin_gpus_expected", expected)
    samples.put("gpuadmin_gpus_on_bus", len(devices))
    here = bool(devices) or driver.module is not None
    if answered:
        state = "ok"
    elif not here:
        state = "none"
    else:
        state = "missing" if driver.module is None or driver.library is None else "broken"
    for name in DRIVER_STATES:
        samples.put("gpuadmin_gpu_driver_state", int(name == state), state=name)
    if not answered:
        samples.put("gpuadmin_gpus_answering", 0)
    return samples


def of_nvml(found: Mapping[str, Any]) -> Samples:
    """What the driver says, as nvml.read returns it."""
    samples = Samples()
    versions = {key: found.get(key) or "" for key in ("driver", "nvml", "cuda")}
    samples.put("gpuadmin_gpu_driver_info", 1, **versions)
    samples.put("gpuadmin_gpus_answering", sum(1 for gpu in found["gpus"] if gpu["problem"] is None))
    for gpu in found["gpus"]:
        if gpu["problem"] is not None:
            samples.put("gpuadmin_gpu_silent", 1, index=gpu["index"], problem=gpu["problem"])
        elif gpu.get("uuid"):  # everything about a GPU goes by its uuid
            _put_gpu(samples, gpu)
    return samples


def _put_gpu(samples: Samples, gpu: Mapping[str, Any]) -> None:
    uuid = gpu["uuid"]
    known = {key: "" if gpu.get(key) is None else gpu[key] for key in ("index", "minor", "address", "name")}
    samples.put("gpuadmin_gpu_info", 1, uuid=uuid, mig=str(bool(gpu.get("mig"))).lower(), **known)
    for name, key, unit in GAUGES:
        value = gpu.get(key)
        samples.put(name, None if value is None else round(value * unit, 4), uuid=uuid)
    for clock, megahertz in (gpu.get("clocks") or {}).items():
        samples.put("gpuadmin_gpu_clock_hertz", megahertz * 1e6, uuid=uuid, clock=clock)
    if gpu.get("slowed") is not None:
        for word, reason in REASONS.items():
            samples.put("gpuadmin_gpu_throttled", int(word in gpu["slowed"]), uuid=uuid, reason=reason)
    for kind in ("corrected", "uncorrected"):
        samples.put("gpuadmin_gpu_ecc_errors_total", gpu.get(f"ecc_{kind}"), uuid=uuid, type=kind)
    for kind in ("corrected", "uncorrected", "pending", "failed"):
        samples.put("gpuadmin_gpu_remapped_rows", gpu.get(f"remapped_{kind}"), uuid=uuid, type=kind)
    for mig in gpu["mig_devices"]:
        if mig.get("uuid"):
            labels = {"uuid": mig["uuid"], "gpu": uuid, "index": mig["index"], "name": mig.get("name") or ""}
            samples.put("gpuadmin_mig_info", 1, **labels)
            utilization = mig.get("utilization")
            ratio = None if utilization is None else round(utilization * 0.01, 4)
            samples.put("gpuadmin_mig_utilization_ratio", ratio, uuid=mig["uuid"])
            samples.put("gpuadmin_mig_memory_size_bytes", mig.get("memory"), uuid=mig["uuid"])
            samples.put("gpuadmin_mig_memory_used_bytes", mig.get("memory_used"), uuid=mig["uuid"])


def record(found: Mapping[str, Any], seconds: float) -> dict[str, object]:
    """What the mapper is told. ``seconds``: since boot, at the end of the sample.

    ``busy``: whether something ran, None if that is not known. ``processes``: [pid, bytes or None], or None.
    """
    devices: list[dict[str, object]] = []
    for gpu in found["gpus"]:
        if gpu["problem"] is not None or not gpu.get("uuid"):
            continue
        migs = [mig for mig in gpu["mig_devices"] if mig.get("uuid")]
        utilization = gpu.get("utilization")
        devices.append(
            {
                "uuid": gpu["uuid"], "minor": gpu.get("minor"), "gi": None, "ci": None,
                "busy": None if utilization is None else utilization > 0,
                # of a divided GPU the privileged alone see all; its devices have their own
                "processes": [] if migs else _processes(gpu),
            }
        )  # fmt: skip
        for mig in migs:
            instances = {"gi": mig.get("gpu_instance"), "ci": mig.get("compute_instance")}
            whose = {"uuid": mig["uuid"], "minor": gpu.get("minor"), "busy": None, **instances}
            devices.append({**whose, "processes": _processes(mig)})
    return {"seconds": seconds, "devices": devices}


def _processes(one: Mapping[str, Any]) -> list[list[int | None]] | None:
    if "processes" in one["unknown"] or "processes" in one["lacks"] or one["processes"] is None:
        return None
    return [[process["pid"], process["memory"]] for process in one["processes"]]
