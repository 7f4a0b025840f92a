"""How busy MIG devices are, by NVML's GPM: two samples of a GPU instance's counters tell of the time between them.

GPUs before Hopper have none, and the driver says nothing else of a MIG device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from ctypes import Structure, byref, c_char_p, c_double, c_int, c_uint, c_void_p
from typing import Any

from .nvml import Library, NvmlError

#: nvml.h: the percentage of time in which something computed, as utilisation is of a GPU that is not divided.
GRAPHICS_UTIL = 1
_MOST_METRICS = 333  # nvml.h: NVML_GPM_METRIC_MAX, the largest so far
Key = tuple[str, int]


class Support(Structure):
    _fields_ = (("version", c_uint), ("supported", c_uint))


class Metric(Structure):
    _fields_ = (("id", c_uint), ("code", c_int), ("value", c_double), ("names", c_char_p * 3))


class MetricsGet(Structure):
    _fields_ = (
        ("version", c_uint), ("number", c_uint), ("before", c_void_p), ("now", c_void_p),
        ("metrics", Metric * _MOST_METRICS),
    )  # fmt: skip


class Gpm:
    """Asked again and again, in the process that has the library open: it keeps each instance's last sample."""

    def __init__(self, library: Library) -> None:
        self._library = library
        self._before: dict[Key, c_void_p] = {}

    def measured(self, found: dict[str, Any]) -> dict[str, Any]:
        """What nvml.read_from returns, with `utilization` of MIG devices: per cent; None where nothing says it."""
        seen = set()
        for gpu in found["gpus"]:
            of = Counter(one.get("gpu_instance") for one in gpu["mig_devices"])
            handle = self._handle(gpu) if of else None
            for one in gpu["mig_devices"]:
                instance = one.get("gpu_instance")
                one["utilization"] = None
                # counters are those of the GPU instance: of two devices in one nobody knows whose they are
                if handle is not None and instance is not None and of[instance] == 1:
                    key = (str(gpu["uuid"]), int(instance))
                    seen.add(key)
                    one["utilization"] = self._since_before(handle, key)
        for key in self._before.keys() - seen:
            self._forget(key)
        return found

    def _handle(self, gpu: Mapping[str, Any]) -> c_void_p | None:
        try:
            handle = self._library.handle("nvmlDeviceGetHandleByIndex_v2", c_uint(gpu["index"]))
            support = Support(version=1)
            self._library.call("nvmlGpmQueryDeviceSupport", handle, byref(support))
        except NvmlError:
            return None
        return handle if support.supported else None

    def _since_before(self, handle: c_void_p, key: Key) -> float | None:
        try:
            now = self._library.handle("nvmlGpmSampleAlloc")
        except NvmlError:
            return None
        before = self._before.pop(key, None)
        try:
            self._library.call("nvmlGpmMigSampleGet", handle, c_uint(key[1]), now)
        except NvmlError:
            self._free(now)
            return None
        else:
            self._before[key] = now
            return None if before is None else self._between(before, now)
        finally:
            if before is not None:
                self._free(before)

    def _between(self, before: c_void_p, now: c_void_p) -> float | None:
        asked = MetricsGet(version=1, number=1, before=before, now=now)
        asked.metrics[0].id = GRAPHICS_UTIL
        try:
            self._library.call("nvmlGpmMetricsGet", byref(asked))
        except NvmlError:
            return None
        metric = asked.metrics[0]
        good = metric.code == 0 and 0 <= metric.value <= 100  # guard: a measurement that cannot be is none -> True
        return float(metric.value) if good else None

    def _forget(self, key: Key) -> None:
        self._free(self._before.pop(key))

    def _free(self, sample: c_void_p) -> None:
        try:
            self._library.call("nvmlGpmSampleFree", sample)
        except NvmlError:
            pass  # some bytes, until the process ends
