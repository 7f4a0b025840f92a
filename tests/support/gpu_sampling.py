"""One node whose GPUs are sampled and mapped to people: the fake driver, real processes of other accounts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places as ImagePlaces
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import mapper as package
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.containers import Names
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.mapper import TEXT, Mapper, Places
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Owners
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.running import RECORD, seconds_since_boot
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.sampler import Places as SamplerPlaces
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.sampler import Sampler

from tests.support import fake_nvml
from tests.support.gpu_node import Node
from tests.support.metrics_text import values

FIRST, SECOND = "GPU-11111111-2222-3333-4444-555555555555", "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"

#: Uids that nobody has in other tests, or on light hosts, whose processes this machine has, too.
NAMES = {47001: "alice", 47002: "bob", 0: "root"}

SUBUID = "alice:100000:65536\nbob:165536:65536\n"

WAIT = "import os, sys, time\n[os.open(path, os.O_RDONLY) for path in sys.argv[1:]]\nprint(flush=True)\ntime.sleep(120)"


class Cluster:
    """One node: its sampler, its mapper, and what they wrote. ``clock``: seconds that have passed."""

    def __init__(self, node: Node, at: Path) -> None:
        self.node, self.at, self.clock = node, at, 0.0
        # a busy machine's own seconds are not counted; the processes of a test begin before it looks
        self.begin = seconds_since_boot() + 50
        node.whole(gpu=0)
        for name in ("sampler", "mapper", "dev", "state", "cgroups/user.slice"):
            (at / name).mkdir(parents=True)
        for name in ("nvidia0", "nvidia1"):
            os.mknod(at / "dev" / name, 0o20666, os.makedev(1, 3))
        (at / "subuid").write_text(SUBUID)
        (at / "kmsg").touch()
        self.sampler = Sampler(SamplerPlaces(str(at / "sampler"), str(node.root), str(node.bus), seconds=5.0), 2)
        self.places = Places(
            str(at / "mapper"), str(at / "sampler" / RECORD), str(at / "counters.json"), dev=str(at / "dev"),
            state=str(at / "state"), gate=str(at / "gpu-gate.json"),
            cgroups=str(at / "cgroups"), log=str(at / "kmsg"), capabilities=str(at / "none"),
            images=ImagePlaces(state=str(at / "state")), root=str(at),
        )  # fmt: skip
        self.answers: dict[int, Any] = {}
        self.computing: dict[str, list[int]] = {"nvidia0": [], "nvidia1": []}
        self.mapper = self.started()

    def started(self) -> Mapper:
        known = {name: uid for uid, name in NAMES.items()}
        owners = Owners(str(self.at / "subuid"), NAMES.get, lambda name: (known[name],) * 2 if name in known else None)
        names = Names(lambda path, uid, question, seconds: self.answers[uid], lambda uid: uid in self.answers)
        found = Mapper(self.places, owners, names, lambda: self.begin + self.clock)
        found._scanner.step(package.nodes(str(self.at / "dev")), 60)
        found._scanner.step(package.nodes(str(self.at / "dev")), 60)
        return found

    def grant(self, *given: Grant) -> None:
        """People open only what they were granted from now on."""
        (self.at / "gpu-gate.json").write_text(json.dumps({"access": "granted"}))
        for one in given:
            grants.write(one, self.places.state)

    def describe(self, *on: list[int], utilization: int = 50) -> None:
        """Processes of the first GPU and of the second, as the driver lists them; the second one is not divided."""
        text = fake_nvml.described(("utilization", str(utilization)), gpu=0)
        text = text.partition("[mig]")[0].replace("mig = 1", "mig = 0")
        first, second = text.split("[gpu]")[1:]
        head = text.partition("[gpu]")[0]
        parts = [head]
        for section, pids in zip((first, second), (*on, [], []), strict=False):
            parts.append("[gpu]" + section.partition("[process]")[0])
            parts += [f"[process]\npid = {pid}\nmemory = 1000\n" for pid in pids]
        self.node.description.write_text("".join(parts))

    def look(self, *on: list[int], utilization: int = 50, sample: bool = True) -> dict[str, float]:
        self.clock += 0.001  # no two looks are at one moment
        if on or sample:
            self.describe(*on, utilization=utilization)
        if sample:
            assert self.sampler.sample() is None
            at = self.at / "sampler" / RECORD
            record = json.loads(at.read_text())
            at.write_text(json.dumps({**record, "seconds": self.begin + self.clock}))
        self.mapper.map()
        return values((self.at / "mapper" / TEXT).read_text())

    def settle(self) -> None:
        """Two rounds through all processes."""
        before = self.mapper._scanner.rounds
        while self.mapper._scanner.rounds < before + 2:
            self.mapper._scanner.step(package.nodes(str(self.at / "dev")), 5)

    @contextmanager
    def process(self, uid: int, *devices: str, computes: bool = True) -> Iterator[int]:
        """``computes``: it is in ``computing``, for tests that have the driver list what is there."""
        paths = [str(self.at / "dev" / name) for name in devices]
        script = f"import os\nos.setgid({uid}); os.setuid({uid})\n{WAIT}"
        for above in self.at.parents:
            above.chmod(above.stat().st_mode | 0o011)
        with subprocess.Popen([sys.executable, "-c", script, *paths], stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            running.stdout.readline()
            for name, pids in self.computing.items():
                pids.extend([running.pid] if computes and name in devices else [])
            try:
                yield running.pid
            finally:
                running.kill()


@pytest.fixture
def cluster(node: Node, tmp_path: Path) -> Iterator[Cluster]:
    found = Cluster(node, tmp_path / "cluster")
    yield found
    found.sampler.close()
