"""NVIDIA's management library (NVML) by ctypes: its calls, its errors as text. Call it in a process apart only."""

from __future__ import annotations

import ctypes
import re
from ctypes import POINTER, Structure, c_char, c_uint, c_ulonglong, c_void_p
from typing import Any

from ..errors import NodeError
from ..fields import CONTROL

#: nvml.h: nvmlReturn_t.
ERRORS = {
    1: "UNINITIALIZED", 2: "INVALID_ARGUMENT", 3: "NOT_SUPPORTED", 4: "NO_PERMISSION", 6: "NOT_FOUND",
    7: "INSUFFICIENT_SIZE", 9: "DRIVER_NOT_LOADED", 10: "TIMEOUT", 11: "IRQ_ISSUE", 12: "LIBRARY_NOT_FOUND",
    13: "FUNCTION_NOT_FOUND", 14: "CORRUPTED_INFOROM", 15: "GPU_IS_LOST", 16: "RESET_REQUIRED",
    17: "OPERATING_SYSTEM", 18: "LIB_RM_VERSION_MISMATCH", 20: "MEMORY", 23: "INSUFFICIENT_RESOURCES",
    25: "ARGUMENT_VERSION_MISMATCH", 28: "GPU_NOT_FOUND", 29: "INVALID_STATE",
}  # fmt: skip
#: What a GPU that lacks something answers, or a library that does not know the call yet.
LACKS = ("NOT_SUPPORTED", "FUNCTION_NOT_FOUND", "ARGUMENT_VERSION_MISMATCH")
_TEXT = 96  # bytes; nvml.h: the longest are names and uuids


class NvmlError(NodeError):
    """NVML refused a call. ``name``: as in nvml.h, without NVML_ERROR_."""

    def __init__(self, code: int, call: str) -> None:
        self.name = ERRORS.get(code, f"ERROR_{code}")
        super().__init__(f"{self.name} ({call})")


class Memory(Structure):
    _fields_ = (("total", c_ulonglong), ("free", c_ulonglong), ("used", c_ulonglong))


class MemoryV2(Structure):
    """``used`` is without what the driver keeps for itself."""

    _fields_ = (
        ("version", c_uint), ("total", c_ulonglong), ("reserved", c_ulonglong), ("free", c_ulonglong),
        ("used", c_ulonglong),
    )  # fmt: skip


class Pci(Structure):
    _fields_ = (
        ("legacy", c_char * 16), ("domain", c_uint), ("bus", c_uint), ("device", c_uint), ("device_id", c_uint),
        ("subsystem_id", c_uint), ("address", c_char * 32),
    )  # fmt: skip


class Utilization(Structure):
    _fields_ = (("gpu", c_uint), ("memory", c_uint))


class Process(Structure):
    _fields_ = (("pid", c_uint), ("memory", c_ulonglong), ("gpu_instance", c_uint), ("compute_instance", c_uint))


class InstanceProfile(Structure):
    """nvmlGpuInstanceProfileInfo_v2_t. ``instances``: how many of it a GPU can have at once."""

    _fields_ = (
        ("version", c_uint), ("id", c_uint), ("p2p", c_uint), ("slices", c_uint), ("instances", c_uint),
        ("engines", c_uint * 6), ("memory", c_ulonglong), ("name", c_char * _TEXT),
    )  # fmt: skip


class Placement(Structure):
    _fields_ = (("start", c_uint), ("size", c_uint))


class Library:
    """The library, loaded. Every call raises NvmlError if the driver refuses it."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)

    def call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._library, name, None)
        code = 13 if function is None else int(function(*arguments))
        if code:
            raise NvmlError(code, name)

    def text(self, name: str, *handle: c_void_p) -> str:
        """What a call writes into a buffer, as text without what a terminal obeys."""
        buffer = ctypes.create_string_buffer(_TEXT)
        self.call(name, *handle, buffer, c_uint(_TEXT))
        return CONTROL.sub("?", buffer.value.decode("utf-8", "replace"))

    def number(self, name: str, *arguments: Any, kind: Any = c_uint) -> int:
        value = kind()
        self.call(name, *arguments, ctypes.byref(value))
        return int(value.value)

    def numbers(self, name: str, handle: c_void_p, count: int) -> list[int]:
        values = [c_uint() for _ in range(count)]
        self.call(name, handle, *(ctypes.byref(value) for value in values))
        return [int(value.value) for value in values]

    def handle(self, name: str, *arguments: Any) -> c_void_p:
        found = c_void_p()
        self.call(name, *arguments, ctypes.byref(found))
        return found

    def memory(self, handle: c_void_p) -> tuple[int, int]:
        """Bytes that a GPU has, and bytes in use; the driver's own count as used where it cannot tell them apart."""
        better = MemoryV2(version=ctypes.sizeof(MemoryV2) | 2 << 24)
        try:
            self.call("nvmlDeviceGetMemoryInfo_v2", handle, ctypes.byref(better))
            return int(better.total), int(better.used)
        except NvmlError as error:
            if error.name not in LACKS:
                raise
        plain = Memory()
        self.call("nvmlDeviceGetMemoryInfo", handle, ctypes.byref(plain))
        return int(plain.total), int(plain.used)

    def address(self, handle: c_void_p) -> str:
        """Where a GPU is on the bus, as sysfs names it: 0000:01:00.0 (NVML's domain has eight digits)."""
        pci = Pci()
        self.call("nvmlDeviceGetPciInfo_v3", handle, ctypes.byref(pci))
        text = pci.address.decode("ascii", "replace").lower()
        return re.sub(r"\A0000(?=[0-9a-f]{4}:)", "", text)

    def utilization(self, handle: c_void_p) -> tuple[int, int]:
        """Per cent of time in which something ran, and in which memory was read or written."""
        rates = Utilization()
        self.call("nvmlDeviceGetUtilizationRates", handle, ctypes.byref(rates))
        return int(rates.gpu), int(rates.memory)

    def processes(self, name: str, handle: c_void_p, most: int) -> list[Process]:
        """At most that many. Raises NvmlError; more than fit is one (INSUFFICIENT_SIZE)."""
        room = c_uint(most)
        found = (Process * most)()
        self.call(name, handle, ctypes.byref(room), ctypes.cast(found, POINTER(Process)))
        return list(found[: min(int(room.value), most)])

    def instance_profile(self, handle: c_void_p, number: int) -> InstanceProfile:
        """A profile of GPU instances, by its number in nvml.h."""
        found = InstanceProfile(version=ctypes.sizeof(InstanceProfile) | 2 << 24)
        self.call("nvmlDeviceGetGpuInstanceProfileInfoV", handle, c_uint(number), ctypes.byref(found))
        return found

    def placements(self, handle: c_void_p, profile: int) -> list[Placement]:
        """Where instances of a profile can be, by its id on this GPU."""
        count = c_uint()
        name = "nvmlDeviceGetGpuInstancePossiblePlacements_v2"
        self.call(name, handle, c_uint(profile), None, ctypes.byref(count))
        found = (Placement * max(int(count.value), 1))()
        self.call(name, handle, c_uint(profile), ctypes.cast(found, POINTER(Placement)), ctypes.byref(count))
        return list(found[: min(int(count.value), len(found))])
