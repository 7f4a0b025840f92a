"""What provision and drift share: which roles a host's groups call for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpuadmin.cli._verb import Verb, Work
from gpuadmin.content import content_path

if TYPE_CHECKING:
    from gpuadmin.config.inventory import Host
    from gpuadmin.config.schema import Settings


def roles_of(host: Host, settings: Settings) -> list[str]:
    """The roles that playbooks/provision.yml runs on a host: the playbook itself is asked, so plan and work agree."""
    import jinja2
    import yaml

    (play,) = yaml.safe_load(content_path("playbooks", "provision.yml").read_text(encoding="utf-8"))
    if not set(str(play["hosts"]).split(":")) & set(host.groups):
        return []
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    known = {"group_names": host.groups, "gpuadmin_site": settings.model_dump(mode="json")}
    return [
        str(task["ansible.builtin.include_role"]["name"])
        for task in play["tasks"]
        if environment.compile_expression(str(task.get("when", "true")))(**known)
    ]


def provision_work(verb: Verb, *, title: str) -> Work:
    """Given a verb, return the work of running every role on every host that calls for it."""
    from gpuadmin.accounts import variables
    from gpuadmin.cli._accounts import account_result
    from gpuadmin.plan import PlanBuilder

    builder = PlanBuilder(title)
    for host in verb.hosts:
        names = roles_of(host, verb.site.settings)
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
        observe=True,
    )
