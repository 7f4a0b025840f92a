"""A cluster of the lab with Slurm's queue: its controller on the storage host, two nodes with two GPUs each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from tests.support.lab_cluster import Cluster

CONTROLLER = "storage1"
SLURM = "slurm: {constrain: [], hours: 4}"


@contextmanager
def queued(cluster: Cluster, slurm: str = SLURM, *, gpus: int = 2, health: str = "{}") -> Iterator[Cluster]:
    """minji and jiho are on it. ``slurm``: the section of gpuadmin.yml; ``gpus``: how many each node has;
    ``health``: that part of its section."""
    for name in ("minji", "jiho"):
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
            cluster.gpuadmin("provision", "--yes")
            yield cluster
    finally:
        inventory.write_text(before)
