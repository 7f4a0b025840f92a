"""What a host's roles are given, and their templates as Ansible renders them, where no host is needed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
import yaml
from ansible.plugins.filter.core import FilterModule

from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings
from gpuadmin.desired.cluster import Cluster
from gpuadmin.desired.hosts import variables

ROLES = Path(__file__).resolve().parents[2] / "roles"


def given(role: str, *groups: str, site: Mapping[str, Any] | None = None, **host: Any) -> dict[str, Any]:
    """The role's variables on a host of these groups: its defaults, and what it is given.

    ``site``: what gpuadmin.yml says; without it a site as it is new. ``host``: what the inventory says of the host.
    """
    settings = Settings.model_validate({"name": "gpuadmin", **(site or {})})
    cluster = Cluster(settings, (Host("host1", groups or ("gpu",), host),))
    path = ROLES / role / "defaults/main.yml"
    own = yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else {}
    found = variables(cluster, cluster.hosts[0])
    every = yaml.safe_load((ROLES.parent / "inventory/groups.yml").read_text(encoding="utf-8"))["all"]["vars"]
    own |= {name: every[name] for name in ("gpuadmin_python", "gpuadmin_confined")}
    return own | {name: value for name, value in found.items() if name.startswith(f"{role}_")}


def rendered(role: str, name: str, values: Mapping[str, Any]) -> str:
    """A template of the role with these variables, and with the filters that Ansible itself has."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(ROLES / role / "templates"), undefined=jinja2.StrictUndefined, trim_blocks=True,
        keep_trailing_newline=True, autoescape=False,
    )  # fmt: skip
    filters = FilterModule().filters()
    environment.filters.update(filters | {f"ansible.builtin.{name}": of for name, of in filters.items()})
    return environment.get_template(name).render(**values)
