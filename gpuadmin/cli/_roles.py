"""What provision and drift share: which roles a host's groups call for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuadmin.cli._verb import Verb, Work
from gpuadmin.content import content_path

if TYPE_CHECKING:
    from collections.abc import Mapping


def roles_by_group() -> Mapping[str, list[str]]:
    """The roles of each group, as playbooks/provision.yml names them: one truth for the plan and the work."""
    import yaml

    plays = yaml.safe_load(content_path("playbooks", "provision.yml").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = {}
    for play in plays:
        for group in str(play["hosts"]).replace(",", ":").split(":"):
            names = [role if isinstance(role, str) else role["role"] for role in play.get("roles", [])]
            found.setdefault(group, []).extend(name for name in names if name not in found.get(group, []))
    return found


def provision_work(verb: Verb, *, title: str) -> Work:
    """Given a verb, return the work of running every role on every host that calls for it."""
    from gpuadmin.accounts import variables
    from gpuadmin.cli._accounts import account_result
    from gpuadmin.plan import PlanBuilder

    builder = PlanBuilder(title)
    roles = roles_by_group()
    for host in verb.hosts:
        names = dict.fromkeys(role for group in roles if group in host.groups for role in roles[group])
        if names:
            builder.add(host.name, f"roles: {', '.join(names)}")
        else:
            builder.warn(f"{host.name} is in no group that has roles; nothing is done there")
    registry = verb.site.registry.registry
    absent = [(entry.name, entry.uid) for entry in registry.retired]
    return Work(
        plan=builder.build(),
        variables=variables(verb.site.registry, verb.site.settings, registry.users, absent),
        result=account_result,
    )
