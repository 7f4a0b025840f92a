"""All variables of all roles, for each host. Called by the inventory plugin alone (`gpuadmin.node.site`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuadmin.config.inventory import Host
from gpuadmin.desired import backups, gpus, images, metrics, nodes, people, shared, slurm
from gpuadmin.desired.cluster import Cluster

ROLES: dict[str, Callable[[Cluster, Host], dict[str, Any]]] = {
    of.__name__: of
    for of in (
        people.accounts, people.announcements, people.bootstrap, people.homes_client, people.homes_server,
        people.limits, people.rootless_docker, people.semester, backups.backups, images.btrfs_root, gpus.gpu_stack,
        images.image_build, images.image_store, images.image_switch, images.install, metrics.dashboard,
        metrics.metrics_tls, metrics.monitoring, metrics.node_metrics, metrics.timers, metrics.web_link,
        nodes.node_state, nodes.power, shared.docker_mirror, shared.mounts, slurm.notebooks, slurm.slurm_controller,
        slurm.slurm_node,
    )
}  # fmt: skip


def variables(cluster: Cluster, host: Host) -> dict[str, Any]:
    """Given a host, return the variables of its roles: `ROLE_NAME` → value, plain data without templates.

    What is the same for all hosts and may be large (people) is one object that they share.
    """
    return {f"{role}_{name}": value for role, of in ROLES.items() for name, value in of(cluster, host).items()}
