"""What a host's roles are given, where no host is needed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.hosts import variables

ROLES = Path(__file__).resolve().parents[2] / "roles"


def given(role: str, *groups: str, **host: Any) -> dict[str, Any]:
    """The role's variables on a host of these groups, of a site as it is new: its defaults, and what it is given.

    `host`: what the inventory says of it.
    """
    cluster = Cluster(Settings(name="gpuadmin"), (Host("host1", groups or ("gpu",), host),))
    path = ROLES / role / "defaults/main.yml"
    own = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = variables(cluster, cluster.hosts[0])
    own["gpuadmin_python"] = "/usr/bin/python3"
    return own | {name: value for name, value in found.items() if name.startswith(f"{role}_")}
