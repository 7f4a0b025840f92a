"""What is seen of a node's GPUs, for those who judge it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.driver import Driver
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Seen
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.pci import OnBus as Device

WHOLE = Driver("550.1", "6.12", library="/x", libraries="550.1", nodes=True)
NONE = Driver(None, "6.12")


def device(number: int, driver: str | None = "nvidia") -> Device:
    return Device(f"0000:0{number}:00.0", "0x10de", "0x2330", driver, None, None, None)


def gpu(number: int, **other: Any) -> dict[str, Any]:
    return {"index": number, "address": f"0000:0{number}:00.0", "name": "NVIDIA H100", "problem": None, **other}


def seen(*gpus: dict[str, Any], **other: Any) -> Seen:
    return replace(Seen([device(one["index"]) for one in gpus], WHOLE, {"gpus": list(gpus)}, xids=[]), **other)


def xid(number: int) -> list[dict[str, Any]]:
    return [{"address": "0000:01:00.0", "xid": number, "count": 1, "seconds": 3}]


TWO = (gpu(0), gpu(1))

SILENT = Seen([device(0)], WHOLE, problem="the GPU driver did not answer in 20 s")
