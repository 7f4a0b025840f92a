"""Divides GPUs into MIG devices where nobody is on them: looks, decides (gpus/mig.py), runs, and looks again.

What a host was divided into is recorded: instances are gone after a boot, and are made again from it.
"""

from __future__ import annotations

import glob
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from gpuadmin.common.records.gpus import Division
from gpuadmin.common.text import clock

from ..errors import NodeError, in_words
from ..files import flocked, read_bytes, write_atomic
from ..gpus import driver as drivers
from ..gpus import gate, grants, mig, nvml, reconcile
from ..gpus.isolated_call import LOCK, isolated_call
from ..gpus.look import SECONDS, WORDS
from ..gpus.mig import Gpu, MigDevice
from ..paths import STATE
from ..run import Finished, LateError, Runner, run_command
from . import gpu_samples, mapper, record
from .devices import SAMPLER, Scanner, has_open, nodes
from .gpu_holders import holdings, list_pids
from .owners import Owners, identify
from .running import seconds_since_boot

FILE = "gpu-mig.json"
SCAN = 30.0  # seconds for two rounds through all processes
RUNNING = 120.0  # seconds for one command: a GPU that is reset takes some
ROUNDS = 3  # MIG is switched on, then instances are made; and once more for what a command said too early
LONGEST = 400  # characters of what a command complains of
DEVICES = "gpuadmin-gpu-devices.service"


def _run(command: Sequence[str]) -> Finished:
    return run_command(command, seconds=RUNNING)


@dataclass(frozen=True)
class Places:
    """Where everything is. Tests put it elsewhere."""

    state: str = STATE
    root: str = "/"
    library: str | None = None
    lock: str = LOCK
    command: Runner = _run
    gate: gate.Places = field(default_factory=gate.Places)
    mapper: mapper.Places = field(default_factory=mapper.Places)


class Divider:
    """``wanted``: the profiles of each GPU; one that is not named is whole."""

    def __init__(self, wanted: Mapping[int, Sequence[str]], places: Places, owners: Owners | None = None) -> None:
        self._wanted, self._places, self._owners = wanted, places, owners or Owners()
        self.uuids: dict[int, str] = {}  # of GPUs, by number
        self._made: list[MigDevice] = []
        self.uids: dict[str, int] = {}  # of those who are in the way of any GPU, by the words for it

    def look(self, only: Collection[int] | None = None, *, granted: bool = True) -> list[Division]:
        """What would be done with each GPU, or with these alone. Raises NodeError or OSError if that is not known."""
        found = self._nvml()
        there = [one for one in map(self._gpu, found["gpus"]) if one is not None]
        self.uuids = {one.index: one.uuid for one in there}
        wanted = self._wanted
        if only is not None:
            there = [one for one in there if one.index in only]
            wanted = {index: one for index, one in wanted.items() if index in only}
        self._made = list(self._devices(found))
        busy = self._busy(found, granted)
        self.uids = {words: uid for people in busy.values() for words, uid in people.items()}
        return mig.decide(wanted, there, busy)

    def run(self, only: Collection[int] | None = None, *, granted: bool = True) -> list[Division]:
        """Do it, and return what each GPU is then; one that was to be changed and was not is refused, and says why.

        Nobody is granted a GPU meanwhile. What the driver refuses, since somebody has just opened the GPU, stays.
        """
        with flocked(reconcile.adding_path(self._places.gate)):  # guard: what is divided is granted to nobody meanwhile
            first = self.look(only, granted=granted)
            acting = {one.gpu: one for one in first if one.state == mig.CHANGE}
            before = recorded(self._places.state)
            # before anything is destroyed: a boot in between goes on with it
            # guard: a boot goes on with what was begun
            self._record({**before, **self._layouts(one for one in first if one.state in (mig.AS_WANTED, mig.CHANGE))})
            if not acting:
                return first
            with _watched_by_nobody(self._places.command, first):
                last, problems = self._rounds(first, only, granted)
            for one in last:
                if one.gpu in acting and one.state == mig.REFUSED:  # known only now that MIG is on
                    self._switched_back(acting[one.gpu])
            done = [one for one in last if one.state == mig.AS_WANTED or (_waits(one) and one.gpu not in problems)]
            self._record({**before, **self._layouts(done)})
            self._device_nodes()
            mig.write(self._made, self._places.gate.run)
        self._places.command(("systemctl", "start", "--no-block", DEVICES))
        return [_failed(one, problems.get(one.gpu)) if one.gpu in acting else one for one in last]

    def _rounds(
        self, steps: list[Division], only: Collection[int] | None, granted: bool
    ) -> tuple[list[Division], dict[int, str]]:
        """Run what is to be done and look again, until all is done. Returns what went wrong, by GPU, too."""
        problems: dict[int, str] = {}
        for _ in range(ROUNDS):
            todo = [one for one in steps if one.state == mig.CHANGE and one.gpu not in problems]
            if not todo:
                break
            for one in todo:
                if why := self._commands(one):
                    problems[one.gpu] = why
            steps = self.look(only, granted=granted)
        return steps, problems

    def _commands(self, step: Division) -> str:
        """Run what is to be done with a GPU now. Returns what went wrong; other GPUs go on."""
        for command in step.commands:
            try:
                done = self._places.command(command)
            except (LateError, OSError) as error:
                return f"{' '.join(command)}: {in_words(error)}"
            if done.returncode != 0:
                lines = (done.stdout + done.stderr).split("\n")
                words = "; ".join(line.strip() for line in lines if line.strip()) or f"status {done.returncode}"
                return f"{' '.join(command)}: {words[:LONGEST]}"
        return ""

    def _switched_back(self, first: Division) -> None:
        for command in first.commands:
            if command[-2:] == ("-mig", "1"):
                self._places.command((*command[:-1], "0"))

    def _layouts(self, steps: Iterable[Division]) -> dict[int, list[str]]:
        return {one.gpu: list(self._wanted.get(one.gpu, ())) for one in steps}

    def _record(self, layouts: Mapping[int, Sequence[str]]) -> None:
        path = os.path.join(self._places.state, FILE)
        data = (json.dumps({str(gpu): list(layouts[gpu]) for gpu in sorted(layouts)}) + "\n").encode()
        if read_bytes(path) != data:
            write_atomic(path, data, mode=0o644)

    def _nvml(self) -> Mapping[str, Any]:
        driver = drivers.look(self._places.root)
        path = self._places.library or driver.library
        if path is None:
            raise NodeError("libnvidia-ml.so.1 is not installed, so nothing is known of this host's GPUs")
        try:
            return isolated_call(lambda: nvml.read_with_profiles(path), seconds=SECONDS, lock=self._places.lock)
        except NodeError as error:
            raise NodeError(WORDS.get(str(error).partition(" ")[0], str(error))) from None

    def _gpu(self, found: Mapping[str, Any]) -> Gpu | None:
        base = glob.escape(f"{self._places.mapper.capabilities}/gpu{found.get('minor')}/mig")
        there = os.path.isdir(os.path.dirname(base))
        return Gpu.of(found, len(glob.glob(f"{base}/gi*")) if there else None)

    def _device_nodes(self) -> None:
        """Have the device files that the driver makes only when they are first used: a grant opens what is there."""
        for path in sorted(
            glob.glob(f"{glob.escape(self._places.mapper.capabilities)}/gpu*/mig/gi*/**/access", recursive=True)
        ):
            try:
                self._places.command(("nvidia-modprobe", "-f", path))
            except (LateError, OSError):
                return  # where it is not installed, names for containers make them

    def _devices(self, found: Mapping[str, Any]) -> Iterator[MigDevice]:
        """The MIG devices that there are, with the files that open each; without those whose files nobody says."""
        for one in record.parse(json.loads(json.dumps(gpu_samples.record(found, 0.0)))).devices:
            if one.gi is None or one.ci is None:
                continue
            capabilities = self._places.mapper.capabilities
            caps = [mapper.find_capability_device(capabilities, replace(one, ci=ci)) for ci in (None, one.ci)]
            names = {part["uuid"]: (gpu["uuid"], part) for gpu in found["gpus"] for part in gpu["mig_devices"]}
            gpu, part = names[one.uuid]
            # guard: a MIG device whose files nobody says is not a name for its whole GPU -> True
            if None not in caps:
                files = [f"/dev/nvidia{one.minor}", *(f"/dev/nvidia-caps/nvidia-cap{cap[1]}" for cap in caps if cap)]
                yield MigDevice(one.uuid, gpu, mig.parse_mig_profile(str(part.get("name"))), files)

    def _busy(self, found: Mapping[str, Any], granted: bool) -> dict[str, dict[str, int]]:
        """By uuid of a GPU, who has it or a part of it: in words, and their uid."""
        whole = {
            uuid: gpu["uuid"]
            for gpu in found["gpus"]
            if gpu["problem"] is None and gpu.get("uuid")
            for uuid in (gpu["uuid"], *(one["uuid"] for one in gpu["mig_devices"] if one.get("uuid")))
        }
        busy: dict[str, dict[str, int]] = {gpu: {} for gpu in whole.values()}
        for uuid, words, uid in (*self._holders(found), *(self._granted() if granted else ())):
            for gpu in busy if uuid is None else [whole[uuid]] if uuid in whole else []:
                busy[gpu][words] = uid
        return busy

    def _holders(self, found: Mapping[str, Any]) -> Iterator[tuple[str | None, str, int]]:
        """Uuid, words and uid; no uuid where it may be any GPU."""
        places, now = self._places.mapper, seconds_since_boot()
        devices = record.parse(json.loads(json.dumps(gpu_samples.record(found, now)))).devices
        self._owners.refresh()
        available, scanner = nodes(places.dev), Scanner(self._owners, places.proc)
        end = time.monotonic() + SCAN
        while scanner.rounds < 2:  # a round ends where the next begins
            if time.monotonic() > end:  # guard: GPUs whose holders are not known are not divided
                raise NodeError(f"looking through all processes took more than {SCAN:g} s; no GPU is divided")
            scanner.step(available, 1.0)
        identified = {pid: identify(pid, self._owners, places.proc) for pid in list_pids(devices, scanner.held)}
        processes = {pid: one for pid, one in identified.items() if one is not None}
        held = holdings(
            devices, scanner.held, processes,
            caps=lambda device: mapper.find_capability_device(places.capabilities, device),
            has_open=lambda pid, device: has_open(pid, device.minor, available, places.proc),
            container=lambda process: str(process.uid),
            until=now,
        )  # fmt: skip
        for uuid, user, uid in held:
            yield uuid, f"{user} holds it", int(uid) if uid.isdecimal() else -1
        # where the driver says who is on a GPU, nobody's open files matter
        for uuid in (one.uuid for one in devices if one.processes is None):
            for whose in scanner.incomplete:  # guard: who has more open files than are looked at may hold any GPU
                yield uuid, f"{self._owners.name(whose)} may hold it: not all their processes can be looked at", whose

    def _granted(self) -> Iterator[tuple[str | None, str, int]]:
        found, problems = grants.read(self._places.gate.state, self._places.gate.run)
        now = time.time()
        for problem in problems:  # guard: where a grant cannot be read no GPU is divided
            yield None, f"it may be granted: {problem}", -1
        for one in found:
            if now < one.until:
                until = clock(one.until)
                for gpu in one.gpus:
                    yield gpu, f"granted to {one.user} until {until}", one.uid


def recorded(state: str = STATE) -> dict[int, list[str]]:
    """The profiles of each GPU that a boot makes again. Raises NodeError where the record is damaged."""
    path = os.path.join(state, FILE)
    try:
        found = json.loads(read_bytes(path) or b"{}")
        return {int(gpu): [str(one) for one in profiles] for gpu, profiles in found.items()}
    except (ValueError, AttributeError, TypeError):
        raise NodeError(f"{path} is damaged: remove it, then gpuadmin mig") from None


def main(places: Places | None = None) -> int:
    """At boot: make again what there was. What was granted was granted of that, so grants are in nobody's way."""
    where = places or Places()
    layouts = recorded(where.state)
    if not layouts:
        return 0
    # guard: a boot divides no GPU that was not divided before -> Divider(layouts, where).run(granted=False)
    steps = Divider(layouts, where).run(layouts.keys(), granted=False)
    for one in steps:
        print(f"GPU {one.gpu}: {one.words}{''.join(f'; {words}' for words in one.people)}")
    return 0 if all(one.state == mig.AS_WANTED for one in steps) else 1


def _waits(step: Division) -> bool:
    """Whether the driver has taken it, and the GPU's next reset does it."""
    return step.state == mig.CHANGE and any("-mig" in command for command in step.commands)


def _failed(step: Division, problem: str | None) -> Division:
    """A step that is still to be done after all: why it is not."""
    if step.state != mig.CHANGE:
        return step
    reset = "MIG is switched at the GPU's next reset, since something has it open: reboot the node"
    words = problem or (reset if _waits(step) else "nvidia-smi reported no error, and the GPU is not divided so")
    return Division(step.gpu, mig.REFUSED, words, ())


@contextmanager
def _watched_by_nobody(command: Runner, steps: Iterable[Division]) -> Iterator[None]:
    """The collector has GPUs open, and MIG is switched only while nothing has: it pauses."""
    needed = any("-mig" in one for step in steps for one in step.commands)
    paused = needed and command(("systemctl", "is-active", "--quiet", SAMPLER)).returncode == 0
    if paused:
        command(("systemctl", "stop", SAMPLER))
    try:
        yield
    finally:
        if paused:
            command(("systemctl", "start", "--no-block", SAMPLER))
