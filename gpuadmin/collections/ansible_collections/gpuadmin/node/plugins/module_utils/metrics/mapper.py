"""The mapper: says whose processes hold which GPU and what each person uses. It runs as root, and asks no driver.

A problem with one person stays theirs: the pass goes on for all others, and never waits for a person's process.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

from ..errors import NodeError, in_words
from ..gpus import gate
from ..gpus.grants import SOURCE, Grant
from ..gpus.xid import LOG
from ..images.places import Places as ImagePlaces
from ..paths import STATE
from . import granting, roots, slices
from .containers import Names
from .counters import FILE, Counters
from .devices import Key, Scanner, has_open, nodes
from .exposition import Samples
from .gpu_holders import Holdings, Labels, holdings, list_pids
from .owners import Owners, Process, identify
from .record import MOST_DEVICES, Device, Record
from .record import read as read_record
from .running import MAPPER, PERIOD, RECORD, SAMPLER, remove, repeat, seconds_since_boot, write

TEXT = "people.prom"
SCAN_SECONDS = 0.02  # of one pass that processes are looked through
FIRST_SECONDS = 1.0  # of one pass, until all have been looked through once: nobody knows until then what is free
SAVED_AFTER = 60.0
LATE = 3 * PERIOD  # a record older than this says nothing any more, and time beyond it is nobody's
MOST_PROCESSES = 8192


@dataclass(frozen=True)
class Places:
    """Where to look and to write. Tests put it elsewhere."""

    directory: str = MAPPER
    record: str = f"{SAMPLER}/{RECORD}"
    counters: str = FILE
    proc: str = "/proc"
    dev: str = "/dev"
    cgroups: str = slices.CGROUPS
    log: str = LOG
    state: str = STATE
    gate: str = granting.SETTINGS
    capabilities: str = "/proc/driver/nvidia/capabilities"
    images: ImagePlaces = field(default_factory=ImagePlaces)
    root: str = "/"


class Mapper:
    """``now``: seconds since boot."""

    def __init__(
        self, places: Places, owners: Owners, names: Names, now: Callable[[], float] = seconds_since_boot
    ) -> None:
        self._places, self._owners, self._names, self._now = places, owners, names, now
        self._scanner = Scanner(owners, places.proc)
        self._counters = Counters(places.counters)
        self._labels = Labels(now)
        self._caps: dict[tuple[int | None, int | None, int | None], Key | None] = {}
        self._known: tuple[Device, ...] = ()
        # says who has what open, in this pass; and who these people are
        self._opened: tuple[Callable[[], Holdings], dict[str, int | None]] | None = None
        self._last: tuple[float, float] | None = None  # this pass, and the record that it had
        self._watched: float | None = None  # since when each pass knew who used what; seconds since 1970
        self._saved = now()
        self._loaded: str | None = None
        self._samples = Samples()

    def load(self) -> str | None:
        """Take up the counters. Returns why that is not possible, or None."""
        try:
            self._counters.load()
        except (NodeError, OSError) as error:
            return in_words(error)
        return None

    def map(self) -> None:
        """One pass: the file is written again."""
        self._samples, self._opened = Samples(), None
        self._source("processes", self._holders)
        self._source("grants", self._grants)
        self._source("people", lambda: slices.put(self._samples, self._owners.name, self._places.cgroups))
        self._source("image", lambda: roots.put(self._samples, self._places.images))
        self._source("gate", self._gate)
        self._source("xids", lambda: self._counters.read_log(self._places.log))
        self._source("counters", self._save)
        self._counters.put(self._samples)
        write(self._places.directory, TEXT, self._samples.render())

    def _gate(self) -> None:
        wrong = gate.problems(self._places.root)
        self._samples.put("gpuadmin_gpu_gate_closed", None if wrong is None else int(not wrong))

    def close(self) -> None:
        """Save the counters, and leave nothing that would be read as if it were still so."""
        remove(self._places.directory, TEXT)
        self._counters.save()

    def _source(self, name: str, look: Callable[[], None]) -> None:
        began = time.monotonic()
        try:
            look()
        except (NodeError, OSError, ValueError):
            self._samples.put("gpuadmin_collector_success", 0, source=name)
            return
        self._samples.put("gpuadmin_collector_success", 1, source=name)
        self._samples.put("gpuadmin_collector_sample_timestamp_seconds", round(time.time(), 3), source=name)
        self._samples.put("gpuadmin_collector_duration_seconds", round(time.monotonic() - began, 6), source=name)

    def _holders(self) -> None:
        available = nodes(self._places.dev)
        self._owners.refresh()
        self._scanner.step(available, SCAN_SECONDS if self._scanner.whole else FIRST_SECONDS)
        if not self._scanner.whole:  # guard: what is held is not known before all processes were looked through
            raise NodeError("what is held is not known until all processes have been looked through once")
        now, record = self._now(), read_record(self._places.record)
        if record is not None and not 0 <= now - record.seconds <= LATE:  # guard: an old record says nothing
            record = None
        if record is not None:
            self._known = record.devices
        silent = tuple(replace(one, busy=None, processes=None) for one in self._known)
        devices = record.devices if record is not None else silent
        held = self._scanner.held
        processes = self._identified(list_pids(devices, held))
        host = os.readlink(f"{self._places.proc}/self/ns/pid")
        self._names.learn(processes.values(), host)
        look = partial(
            holdings, devices, held, processes,
            caps=self._cap,
            has_open=lambda pid, device: has_open(pid, device.minor, available, self._places.proc),
            container=lambda process: self._labels.label(process.user, self._names.of(process, host)),
            until=now if record is None else record.seconds,
        )  # fmt: skip
        found = look()
        self._put(found, devices)
        self._count(found, devices, now, record)
        self._opened = partial(look, opened=True), {one.user: one.uid for one in processes.values()}
        for uid in self._scanner.incomplete | self._names.silent:
            self._samples.put("gpuadmin_collector_incomplete", 1, user=self._owners.name(uid) or f"uid {uid}")

    def _grants(self) -> None:
        granted = granting.look(time.time(), self._places.state, self._places.gate)
        for device in self._known:
            for one in () if granted is None else granted.naming(device, self._known):
                self._samples.put(
                    "gpuadmin_gpu_granted_until_timestamp_seconds", one.until,
                    uuid=device.uuid, user=one.user, who=one.who, reason=one.reason,
                )  # fmt: skip
                if self._opened is not None:  # guard: whether a GPU is used is not said where nobody knows who holds it
                    self._job(device, one)
        without, having = set[tuple[str, str]](), None
        if granted is not None:
            if self._opened is None:
                return  # who holds what is not known now, and is not a reason to forget since when
            opened, uids = self._opened
            # whoever has a GPU open can compute on it whenever they want
            without = granting.ungranted(opened(), self._known, uids, granted)
            having = {(device.uuid, one.user) for device in self._known for one in granted.of(device, self._known)}
        for (uuid, user), since in self._counters.ungranted(without, having).items():
            self._samples.put("gpuadmin_gpu_ungranted_since_timestamp_seconds", round(since), uuid=uuid, user=user)

    def _job(self, device: Device, grant: Grant) -> None:
        """Since when a job has a GPU for nothing; nothing where nobody has watched all that time."""
        if grant.source != SOURCE or self._watched is None:
            return
        used = self._counters.unused(device.uuid, grant.user)
        if used is not None:
            # guard: time in which nobody looked is not time in which a job's GPU was unused -> max(grant.begin, used)
            since = max(grant.begin, used, self._watched)
            self._samples.put(
                "gpuadmin_gpu_job_unused_since_timestamp_seconds", round(since),
                uuid=device.uuid, user=grant.user, slurm_job=grant.id[len(SOURCE) + 1 :],
            )  # fmt: skip

    def _identified(self, pids: set[int]) -> dict[int, Process]:
        first = sorted(pids)[:MOST_PROCESSES]  # guard: only so many processes are identified in a pass -> sorted(pids)
        found = ((pid, identify(pid, self._owners, self._places.proc)) for pid in first)
        return {pid: process for pid, process in found if process is not None}

    def _cap(self, device: Device) -> Key | None:
        """The device node that opens a MIG device. The driver's files say it, and do not change it."""
        key = device.minor, device.gi, device.ci
        if key not in self._caps or self._caps[key] is None:
            if len(self._caps) > MOST_DEVICES:  # guard: places of parts are not kept for ever
                self._caps.clear()
            self._caps[key] = find_capability_device(self._places.capabilities, device)
        return self._caps[key]

    def _put(self, found: Holdings, devices: tuple[Device, ...]) -> None:
        asked = {one.uuid for one in devices if one.processes is not None}
        boot = time.time() - self._now()
        for (uuid, user, container), one in found.items():
            labels = {"uuid": uuid, "user": user, "container": container}
            since = None if one.since is None else round(boot + one.since)
            self._samples.put("gpuadmin_gpu_allocated", 1, **labels)
            self._samples.put("gpuadmin_gpu_allocated_since_timestamp_seconds", since, **labels)
            if uuid in asked:
                self._samples.put("gpuadmin_gpu_processes", len(one.pids), **labels)
                self._samples.put("gpuadmin_gpu_process_memory_bytes", one.memory, **labels)

    def _count(self, found: Holdings, devices: tuple[Device, ...], now: float, record: Record | None) -> None:
        """Add the time since the last pass. Time in which nobody looked is not anybody's."""
        last, self._last = self._last, (now, self._last[1] if record is None and self._last else 0.0)
        if record is not None:
            self._last = now, record.seconds
        if (
            last is None
            # guard: time in which nobody looked is nobody's
            or not 0 < now - last[0] <= LATE
        ):
            self._watched = None if record is None else time.time()
            return
        if record is None:
            self._watched = None
        elif self._watched is None:
            self._watched = time.time()
        new = (
            record is not None
            # guard: a record that was counted is not counted again
            and record.seconds > last[1]
        )
        busy = {one.uuid: one.busy if new and one.processes is not None else None for one in devices}
        for uuid, user in {(uuid, user) for uuid, user, _container in found}:
            self._counters.add(uuid, user, now - last[0], busy.get(uuid))

    def _save(self) -> None:
        if self._now() - self._saved >= SAVED_AFTER:
            self._saved = self._now()
            self._counters.save()


def find_capability_device(capabilities: str, device: Device) -> Key | None:
    """The device node that opens a MIG device, by the driver's files; None if they do not say."""
    base = f"{capabilities}/gpu{device.minor}/mig/gi{device.gi}"
    path = f"{base}/access" if device.ci is None else f"{base}/ci{device.ci}/access"
    try:
        with open(path, encoding="ascii", errors="replace") as stream:
            minor = re.search(r"(?m)^DeviceFileMinor: (\d{1,6})$", stream.read(4096))
    except OSError:
        return None
    return ("cap", int(minor.group(1))) if minor else None


def main(places: Places | None = None, period: float = PERIOD) -> int:
    """Map until somebody ends it, each time that the sampler has written."""
    where = places or Places()
    mapper = Mapper(where, Owners(), Names())
    problem = mapper.load()
    if problem:
        print(problem, flush=True)
    written = [0]

    def news() -> bool:
        try:
            return os.stat(where.record).st_mtime_ns != written[0]
        except OSError:
            return False

    def one_pass() -> None:
        try:
            written[0] = os.stat(where.record).st_mtime_ns
        except OSError:
            written[0] = 0
        mapper.map()

    try:
        repeat(one_pass, threading.Event(), 1.2 * period, news)
    finally:
        mapper.close()
    return 0
