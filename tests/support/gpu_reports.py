"""What a node reports of its GPUs."""

from __future__ import annotations

from typing import Any

DRIVER: dict[str, Any] = {"kernel": "6.12", "module": "550.163.01", "libraries": "550.163.01"}

GPU: dict[str, Any] = {
    "index": 0, "problem": None, "unknown": {}, "lacks": [], "name": "NVIDIA H100", "uuid": "GPU-1", "serial": "165",
    "address": "0000:01:00.0", "memory": 85520809984, "pcie_width": 16, "pcie_width_max": 16, "mig": False,
    "mig_pending": False, "ecc": True, "ecc_pending": True, "ecc_uncorrected": 0, "mig_devices": [], "processes": [],
}  # fmt: skip

DEVICE: dict[str, Any] = {
    "address": "0000:01:00.0", "vendor": "0x10de", "device": "0x2330", "driver": "nvidia", "width": 16, "width_max": 16,
    "name": None,
}  # fmt: skip


def node(*gpus: dict[str, Any], **other: Any) -> dict[str, Any]:
    """What a node says: with these GPUs by NVML, and as many on the bus."""
    return {
        "pci": [DEVICE | {"address": gpu["address"]} for gpu in gpus], "driver": DRIVER, "missing": [],
        "nvml": {"driver": "550.163.01", "nvml": "12", "cuda": "12.4", "gpus": list(gpus)}, "problem": None,
        "xids": [], "unknown": {}, "answering": sum(1 for gpu in gpus if gpu["problem"] is None), "broken": [],
        "worse": [], "closed": [], **other,
    }  # fmt: skip
