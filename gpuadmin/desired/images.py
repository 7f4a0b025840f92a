"""Images: the variables of the roles that build, keep and try them."""

from __future__ import annotations

from typing import Any

from gpuadmin.config.inventory import Host, find_storage
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.gpus import merge_gpu_settings


def btrfs_root(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `btrfs_root`."""
    images = cluster.plain["images"]
    server = find_storage(cluster.hosts, cluster.site.images.server)
    return {
        **{name: images[name] for name in ("deadline", "settle", "identity")},
        "store": "" if server is None else f"{server.cluster_address}:{images['store']}",
        **cluster.only(signers="signers"),
        "gpus": host.variables.get("gpus"),
        "gpu_model": host.variables.get("gpu_model") or "",
        "gpus_worse": merge_gpu_settings(cluster, host)["worse"],
        "homes": cluster.plain["homes"]["path"],
        "site_checks": cluster.asked("site_checks", ""),
        **cluster.uids,
    }


def install(cluster: Cluster, host: Host) -> dict[str, Any]:
    """The role `install`. `order`: of a disk; `stick`: of a stick; `netboot`: who boots from the network."""
    return {
        "order": cluster.asked("install", {}),
        "stick": cluster.asked("stick", {}),
        "netboot": cluster.asked("netboot", {}),
        "address": host.cluster_address,
        "reboot": cluster.asked("install_reboot", False),
        "run_id": cluster.asked("run_id", ""),
        "store": cluster.plain["images"]["store"],
    }


def image_build(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `image_build`."""
    asked = cluster.asked
    return {
        **cluster.only(name="image"),
        "packages": asked("packages", []),
        "upgrade": asked("upgrade", False),
        "full": asked("full", False),
        "trial": asked("trial", True),
        "parents": asked("parents", []),
        "protocol": asked("protocol", 1),
        "who": asked("who", ""),
        "run_id": asked("run_id", ""),
        "key": asked("signing_key", ""),
    }


def image_store(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `image_store`."""
    return {
        "path": cluster.plain["images"]["store"],
        "mountpoint": cluster.plain["homes"]["mountpoint"],
        "readers": cluster.addresses("gpu"),
        "writers": cluster.addresses("golden"),
        **cluster.only(signers="signers"),
        "verify": cluster.asked("verify_images", []),
        "delete": cluster.asked("delete_images", []),
    }


def image_switch(cluster: Cluster, _host: Host) -> dict[str, Any]:
    """The role `image_switch`."""
    images, asked = cluster.plain["images"], cluster.asked
    return {
        "name": asked("image", ""),
        "action": asked("switch_action", "push"),
        "full": asked("full", False),
        "links": asked("links", {}),
        "chain_key": asked("chain_key", ""),
        "keep": asked("keep", images["keep"]),
        "reboot": asked("reboot", True),
        "force": asked("force", False),
        "when_idle": asked("when_idle", False),
        "deadline": asked("deadline", images["deadline"]),
        "reason": asked("reason", ""),
        "waiting": asked("waiting", ""),
        "run_id": asked("run_id", ""),
    }
