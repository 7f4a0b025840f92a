"""What provision and drift share: which roles a host's groups call for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
import yaml

from gpuadmin.accounts.desired import variables
from gpuadmin.ansible.playbooks import read_groups
from gpuadmin.config.groups import GROUPS
from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings
from gpuadmin.content import content_path
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.session import Session


def list_host_roles(host: Host, settings: Settings, groups: Mapping[str, Sequence[str]]) -> list[str]:
    """Given a host, and the names of the hosts of each group, return the roles that playbooks/provision.yml runs on it:
    the playbook itself is asked, so plan and work agree.
    """
    (*_, play) = yaml.safe_load(content_path("playbooks", "provision.yml").read_text(encoding="utf-8"))
    if not set(str(play["hosts"]).split(":")) & set(host.groups):
        return []
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    known = {"group_names": host.groups, "groups": groups, "gpuadmin_site": settings.model_dump(mode="json")}
    names = (
        str(task["ansible.builtin.include_role"]["name"])
        for task in play["tasks"]
        if environment.compile_expression(str(task.get("when", "true")))(**known)
    )
    return list(dict.fromkeys(names))  # node_state and homes_client come twice


def plan_roles(session: Session, title: str) -> Plan:
    """Every role on every host that calls for it. Raises ConfigError if no host calls for any."""
    session.some(*read_groups("provision"))
    builder = PlanBuilder(title)
    groups = {name: [host.name for host in session.site.inventory.group(name)] for name in GROUPS}
    for host in session.hosts:
        names = list_host_roles(host, session.site.settings, groups)
        if names:
            builder.add(host.name, f"roles: {', '.join(names)}")
        else:
            builder.warn(f"{host.name} is in no group that has roles; nothing is done there")
    return builder.build()


def everybody(session: Session) -> dict[str, Any]:
    """What a playbook receives where all accounts are its business: those registered, and those that stay removed."""
    site = session.site
    absent = [(entry.name, entry.uid) for entry in site.registry.registry.retired]
    return variables(site.settings, site.registry.registry.users, absent)
