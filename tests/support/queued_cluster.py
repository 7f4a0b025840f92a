"""A cluster of the lab with Slurm's queue: its controller on the storage host, two nodes with two GPUs each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from gpuadmin.lab.releases import parse
from tests.support.lab_cluster import RELEASES, Cluster

CONTROLLER = "storage1"
#: Releases of hosts whose Slurm is older than slurm.oldest is without being set.
_OLD = {"12": "22.05", "22.04": "21.08"}
_OLDEST = min((_OLD[one] for one in parse(RELEASES).values() if one in _OLD), default="")
_SET = f"slurm: {{oldest: '{_OLDEST}', " if _OLDEST else "slurm: {"
SLURM = f"{_SET}constrain: [], hours: 4}}"


_STATE = "queued"
#: The site's files, by lab, with which its saved state was made.
_MADE: dict[str, str] = {}


def begin_queued(cluster: Cluster) -> Cluster:
    """Put the lab to the state that `queued` makes without options, which takes as long as a boot."""

    def make() -> None:
        with queued(cluster):
            _MADE[cluster.name] = _read_site(cluster)

    cluster.begin(_STATE, make)
    return cluster


@contextmanager
def queued(cluster: Cluster, slurm: str = SLURM, *, gpus: int = 2, health: str = "{}") -> Iterator[Cluster]:
    """minji and jiho are on it. ``slurm``: the section of gpuadmin.yml; ``gpus``: how many each node has;
    ``health``: that part of its section."""
    slurm = slurm if "oldest" in slurm else slurm.replace("slurm: {", _SET)
    for name in ("minji", "jiho"):
        if f"name: {name}\n" not in (cluster.site / "users.yml").read_text():
            cluster.add(name)
    inventory = cluster.site / "inventory/hosts.yml"
    before = inventory.read_text()
    tree = yaml.safe_load(before)
    tree["all"]["children"]["slurm"] = {"hosts": {CONTROLLER: {}}}
    for node in tree["all"]["children"]["gpu"]["hosts"].values():
        # stand-ins are counted only once a gate knows them, and have no name
        node |= {"gpus": gpus, "gpu_model": "NVIDIA H100 PCIe"}
    inventory.write_text(yaml.safe_dump(tree))
    try:
        with cluster.settings(lambda text: f"{text}\ngpus: {{access: granted, health: {health}}}\n{slurm}\n"):
            if (cluster.state, _MADE.get(cluster.name)) != (_STATE, _read_site(cluster)):
                cluster.gpuadmin("provision", "--yes")
            # after a boot nodes come to the queue one by one
            cluster.wait(
                lambda: cluster.ssh(
                    "admin", CONTROLLER, "sinfo --noheader --format=%t | sort -u | xargs | grep -x idle"
                )
            )
            yield cluster
    finally:
        inventory.write_text(before)


def _read_site(cluster: Cluster) -> str:
    paths = [cluster.site / "gpuadmin.yml", cluster.site / "users.yml", *sorted((cluster.site / "inventory").glob("*"))]
    return "".join(path.read_text() for path in paths if path.is_file())
