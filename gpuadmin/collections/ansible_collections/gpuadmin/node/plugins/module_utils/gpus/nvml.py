"""NVIDIA's management library (NVML): its calls by ctypes, its errors as text, and one pass through it: every GPU with
what it says of itself. Ask it in a process apart only: a call can hang.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from ctypes import POINTER, Structure, c_char, c_int, c_longlong, c_uint, c_ulonglong, c_void_p
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


class FieldValue(Structure):
    """nvmlFieldValue_t. ``error``: of this field alone."""

    _fields_ = (
        ("field", c_uint), ("scope", c_uint), ("timestamp", c_longlong), ("latency", c_longlong), ("kind", c_uint),
        ("error", c_uint), ("value", c_uint), ("rest", c_uint),
    )  # fmt: skip


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

    def field(self, handle: c_void_p, number: int) -> int:
        """A whole number of at most 32 bits, by its number in nvml.h (NVML_FI_…)."""
        found = FieldValue(field=number)
        self.call("nvmlDeviceGetFieldValues", handle, c_int(1), ctypes.byref(found))
        if found.error:
            raise NvmlError(int(found.error), f"field {number}")
        return int(found.value)

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


MOST_GPUS = 64
MOST_PROFILES = 64  # of GPU instances, that libraries know
MOST_PROCESSES = 1024  # of one GPU and kind
NO_INSTANCE = 0xFFFFFFFF  # nvml.h: the process is in no MIG device
NOT_AVAILABLE = 0xFFFFFFFFFFFFFFFF
RECOVERY_ACTION = 230  # nvml.h: NVML_FI_DEV_GET_GPU_RECOVERY_ACTION
#: nvml.h: nvmlClockType_t, in its order.
CLOCKS = ("graphics", "sm", "memory", "video")
#: nvml.h: nvmlClocksEventReason…, those that slow a GPU down against its owner's will.
SLOWED = {0x04: "power cap", 0x08: "hardware", 0x20: "heat", 0x40: "heat (hardware)", 0x80: "power brake"}


def read(path: str = "libnvidia-ml.so.1") -> dict[str, Any]:
    """Versions and ``gpus``. A GPU that does not answer says why in ``problem``; the others are read.

    Bytes, degrees Celsius, watts, per cent, megahertz. A value is None if the GPU has no such thing (its key is in
    ``lacks``) or does not say (``unknown``: key → NVML's error). Raises NvmlError if the driver answers nothing at all,
    OSError if there is no library.
    """
    return read_from(opened(path))


def opened(path: str) -> Library:
    """The library, ready to be asked again and again. Raises NvmlError, OSError."""
    library = Library(path)
    library.call("nvmlInit_v2")
    return library


def read_from(library: Library) -> dict[str, Any]:
    """As ``read``, of a library that is open already."""
    cuda = _maybe(lambda: library.number("nvmlSystemGetCudaDriverVersion_v2", kind=c_int))
    found = {
        "driver": _maybe(lambda: library.text("nvmlSystemGetDriverVersion")),
        "nvml": _maybe(lambda: library.text("nvmlSystemGetNVMLVersion")),
        "cuda": None if cuda is None else f"{cuda // 1000}.{cuda % 1000 // 10}",
    }
    count = library.number("nvmlDeviceGetCount_v2")
    found["gpus"] = [_gpu(library, index) for index in range(min(count, MOST_GPUS))]
    if scrambled(found["driver"]):
        for gpu in found["gpus"]:
            gpu["processes"] = []
            gpu["unknown"]["processes"] = f"driver {found['driver']} mixes them up"
            for mig in gpu["mig_devices"]:
                mig["processes"] = None
    # no nvmlShutdown: the process ends
    return found


def scrambled(driver: str | None) -> bool:
    """Whether this driver's records of processes are wrong: 535.43 to 535.85."""
    branch, _, rest = (driver or "").partition(".")
    minor = rest.partition(".")[0]
    return branch == "535" and minor.isdecimal() and 43 <= int(minor) < 86


def _maybe(look: Callable[[], Any]) -> Any:
    try:
        return look()
    except NvmlError:
        return None


def _gpu(library: Library, index: int) -> dict[str, Any]:
    entry = _Entry({"index": index, "problem": None, "unknown": {}, "lacks": [], "mig_devices": [], "processes": []})
    try:
        handle = library.handle("nvmlDeviceGetHandleByIndex_v2", c_uint(index))
        _fill(library, handle, entry)
    except NvmlError as error:
        entry.found["problem"] = error.name
    return entry.found


class _Entry:
    """What is known of one GPU. A part that fails is noted; that the GPU is lost ends it."""

    def __init__(self, found: dict[str, Any]) -> None:
        self.found = found

    def put(self, keys: str, look: Callable[[], Any]) -> None:
        """Look for one value, or for several at once: ``keys`` are words."""
        names = keys.split()
        try:
            values = look()
        except NvmlError as error:
            if error.name in ("GPU_IS_LOST", "RESET_REQUIRED"):
                raise
            values = [None] * len(names) if len(names) > 1 else None
            if error.name in LACKS:
                self.found["lacks"] += names
            else:
                self.found["unknown"].update(dict.fromkeys(names, error.name))
        self.found.update(zip(names, values) if len(names) > 1 else [(names[0], values)])


def _fill(library: Library, handle: c_void_p, entry: _Entry) -> None:
    def number(key: str, call: str) -> None:
        entry.put(key, lambda: library.number(f"nvmlDeviceGet{call}", handle))

    def errors(key: str, kind: int, counter: int) -> None:
        call = "nvmlDeviceGetTotalEccErrors"
        entry.put(key, lambda: library.number(call, handle, c_int(kind), c_int(counter), kind=c_ulonglong))

    entry.put("uuid", lambda: library.text("nvmlDeviceGetUUID", handle))
    entry.put("address", lambda: library.address(handle))
    entry.put("name", lambda: library.text("nvmlDeviceGetName", handle))
    entry.put("serial", lambda: library.text("nvmlDeviceGetSerial", handle))
    number("minor", "MinorNumber")
    entry.put("memory memory_used", lambda: library.memory(handle))
    number("pcie_width", "CurrPcieLinkWidth")
    number("pcie_width_max", "MaxPcieLinkWidth")
    number("pcie_generation", "CurrPcieLinkGeneration")
    number("pcie_generation_max", "MaxPcieLinkGeneration")
    entry.put("mig mig_pending", lambda: _switches(library, "nvmlDeviceGetMigMode", handle))
    entry.put("ecc ecc_pending", lambda: _switches(library, "nvmlDeviceGetEccMode", handle))
    errors("ecc_corrected", 0, 0)
    errors("ecc_uncorrected", 1, 0)
    errors("ecc_uncorrected_ever", 1, 1)
    keys = "remapped_corrected remapped_uncorrected remapped_pending remapped_failed"
    entry.put(keys, lambda: library.numbers("nvmlDeviceGetRemappedRows", handle, 4))
    entry.put("recovery", lambda: library.field(handle, RECOVERY_ACTION))
    entry.put("utilization utilization_memory", lambda: library.utilization(handle))
    entry.put("temperature", lambda: library.number("nvmlDeviceGetTemperature", handle, c_int(0)))
    entry.put("power", lambda: library.number("nvmlDeviceGetPowerUsage", handle) / 1000)
    entry.put("power_limit", lambda: library.number("nvmlDeviceGetEnforcedPowerLimit", handle) / 1000)
    entry.put("clocks", lambda: _clocks(library, handle))
    entry.put("slowed", lambda: _slowed(library, handle))
    entry.put("persistence", lambda: bool(library.number("nvmlDeviceGetPersistenceMode", handle)))
    entry.put("processes", lambda: _processes(library, handle))
    if entry.found["mig"]:
        entry.put("mig_devices", lambda: _mig_devices(library, handle))
    for key in ("processes", "mig_devices"):
        entry.found[key] = entry.found[key] or []


def _switches(library: Library, call: str, handle: c_void_p) -> list[bool]:
    return [bool(one) for one in library.numbers(call, handle, 2)]


def _slowed(library: Library, handle: c_void_p) -> list[str]:
    # the name that libraries before 535 have, and later ones still
    reasons = library.number("nvmlDeviceGetCurrentClocksThrottleReasons", handle, kind=c_ulonglong)
    return [what for bit, what in SLOWED.items() if reasons & bit]


def _clocks(library: Library, handle: c_void_p) -> dict[str, int]:
    """Megahertz, by kind."""
    kinds = enumerate(CLOCKS)
    return {name: library.number("nvmlDeviceGetClockInfo", handle, c_int(kind)) for kind, name in kinds}


def _processes(library: Library, handle: c_void_p) -> list[dict[str, Any]]:
    found = []
    for kind, call in (
        ("compute", "nvmlDeviceGetComputeRunningProcesses_v3"),  # clients of MPS, too
        ("graphics", "nvmlDeviceGetGraphicsRunningProcesses_v3"),
    ):
        for one in library.processes(call, handle, MOST_PROCESSES):
            found.append(
                {
                    "pid": int(one.pid),
                    "kind": kind,
                    "memory": None if one.memory == NOT_AVAILABLE else int(one.memory),
                    "gpu_instance": None if one.gpu_instance == NO_INSTANCE else int(one.gpu_instance),
                }
            )
    return found


def read_with_profiles(path: str) -> dict[str, Any]:
    """As ``read``, and for each GPU that has MIG its ``mig_profiles``: None where the driver does not say.

    For root: the driver tells nobody else where instances can be.
    """
    library = opened(path)
    found = read_from(library)
    for gpu in found["gpus"]:
        if gpu["problem"] is None and gpu["mig"] is not None:
            try:
                handle = library.handle("nvmlDeviceGetHandleByIndex_v2", c_uint(gpu["index"]))
                gpu["mig_profiles"] = _profiles(library, handle) or None
            except NvmlError as error:
                gpu["unknown"]["mig_profiles"] = error.name
    return found


def _profiles(library: Library, handle: c_void_p) -> list[dict[str, Any]]:
    """Those that the GPU has: few of all that there are. While MIG is off a driver may say of none."""
    found = []
    for number in range(MOST_PROFILES):
        try:
            one = library.instance_profile(handle, number)
            places = library.placements(handle, one.id)
        except NvmlError as error:
            if error.name == "NOT_SUPPORTED":
                continue
            if error.name == "INVALID_ARGUMENT":  # nvml.h: there are no more
                break
            raise
        if places:
            starts = [int(place.start) for place in places]
            name = CONTROL.sub("?", one.name.decode("utf-8", "replace")).removeprefix("MIG ")
            known = {"id": int(one.id), "name": name, "most": int(one.instances)}
            found.append({**known, "starts": starts, "size": int(places[0].size)})
    return found


def _mig_devices(library: Library, handle: c_void_p) -> list[dict[str, Any]]:
    found = []
    for index in range(library.number("nvmlDeviceGetMaxMigDeviceCount", handle)):
        try:
            mig = library.handle("nvmlDeviceGetMigDeviceHandleByIndex", handle, c_uint(index))
        except NvmlError as error:
            if error.name in ("NOT_FOUND", "INVALID_ARGUMENT"):
                continue  # places may be empty in between
            raise
        found.append(_mig_device(library, mig, index))
    return found


def _mig_device(library: Library, mig: c_void_p, index: int) -> dict[str, Any]:
    entry = _Entry({"index": index, "unknown": {}, "lacks": []})
    entry.put("uuid", lambda: library.text("nvmlDeviceGetUUID", mig))
    entry.put("name", lambda: library.text("nvmlDeviceGetName", mig))
    entry.put("memory memory_used", lambda: library.memory(mig))
    entry.put("gpu_instance", lambda: library.number("nvmlDeviceGetGpuInstanceId", mig))
    entry.put("compute_instance", lambda: library.number("nvmlDeviceGetComputeInstanceId", mig))
    # those of the whole GPU are for the privileged alone
    entry.put("processes", lambda: _processes(library, mig))
    return entry.found
