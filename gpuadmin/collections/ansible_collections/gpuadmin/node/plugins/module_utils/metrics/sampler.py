"""The sampler: asks the driver for every GPU, as an ordinary system account, and writes what it says for Prometheus.

What does not answer is not there: a source that fails takes its series away, and nothing is written twice.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ..errors import NodeError
from ..gpus import driver as drivers
from ..gpus import nvml, pci
from ..gpus.gpm import Gpm
from ..gpus.isolated_call import Resident
from .exposition import Samples
from .gpu_samples import of_bus, of_nvml, record
from .running import PERIOD, RECORD, SAMPLER, remove, repeat, seconds_since_boot, write

TEXT = "gpus.prom"
SECONDS = 20.0  # that the driver gets: without nvidia-persistenced it wakes every GPU first
BUS_SECONDS = 60.0  # between two looks at the bus and at the driver's files


@dataclass(frozen=True)
class Places:
    """Where to look and to write. Tests put it elsewhere."""

    directory: str = SAMPLER
    root: str = "/"
    bus: str = pci.BUS
    library: str | None = None
    seconds: float = SECONDS


class Sampler:
    """``expected``: how many GPUs the inventory says; None if it says nothing."""

    def __init__(
        self, places: Places, expected: int | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._places = places
        self._expected = expected
        self._clock = clock
        self._looked: float | None = None
        self._path: str | None = None
        self._resident: Resident | None = None

    def sample(self) -> str | None:
        """One pass: both files are written again, or removed. Returns why the driver did not answer, or None."""
        where, samples = self._places, Samples()
        self._look()
        began = time.monotonic()
        found, problem = None, None
        if self._path is not None:
            try:
                found = self._asked(self._path)
            except NodeError as error:
                problem = str(error)
        samples.update(of_bus(self._devices, self._driver, found is not None, self._expected))
        _succeeded(samples, "bus", True, self._bus_took)
        if self._path is not None:
            _succeeded(samples, "nvml", found is not None, time.monotonic() - began)
        if found is not None:
            samples.update(of_nvml(found))
            write(where.directory, RECORD, json.dumps(record(found, seconds_since_boot())))
        else:
            remove(where.directory, RECORD)  # guard: what did not answer is not passed on
        write(where.directory, TEXT, samples.render())
        return problem

    def close(self) -> None:
        """Leave nothing that would be read as if it were still so."""
        remove(self._places.directory, TEXT, RECORD)
        if self._resident is not None:
            self._resident.end()

    def _look(self) -> None:
        now = self._clock()
        if self._looked is not None and now - self._looked < BUS_SECONDS:
            return
        self._looked, began = now, time.monotonic()
        self._devices = pci.devices(self._places.bus, ())
        self._driver = drivers.look(self._places.root)
        self._bus_took = time.monotonic() - began
        path = self._places.library or self._driver.library
        if path != self._path and self._resident is not None:
            self._resident.end()
            self._resident = None
        self._path = path

    def _asked(self, path: str) -> dict[str, object]:
        if self._resident is None:
            lock = f"{self._places.directory}/lock/nvml.lock"
            self._resident = Resident(lambda: _opened(path), seconds=self._places.seconds, lock=lock)
        return self._resident.ask()


def _opened(path: str) -> Callable[[], dict[str, object]]:
    library = nvml.opened(path)
    gpm = Gpm(library)
    return lambda: gpm.measured(nvml.read_from(library))


def _succeeded(samples: Samples, source: str, success: bool, took: float) -> None:
    samples.put("gpuadmin_collector_success", int(success), source=source)
    if success:
        samples.put("gpuadmin_collector_sample_timestamp_seconds", round(time.time(), 3), source=source)
        samples.put("gpuadmin_collector_duration_seconds", round(took, 6), source=source)


def main(expected: int | None = None, places: Places | None = None, period: float = PERIOD) -> int:
    """Sample until somebody ends it. A problem with the driver is written to the journal once."""
    sampler = Sampler(places or Places(), expected)
    before: list[str | None] = [None]

    def one_pass() -> None:
        problem = sampler.sample()
        if problem != before[0]:
            print(f"the driver: {problem or 'answers again'}", flush=True)
            before[0] = problem

    try:
        repeat(one_pass, threading.Event(), period)
    finally:
        sampler.close()
    return 0
