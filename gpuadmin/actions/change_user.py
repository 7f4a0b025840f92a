"""Change what users.yml says of a person, and bring the hosts to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuadmin.accounts.changing import Wanted, change, notes, on_nodes, on_site
from gpuadmin.accounts.importing import read_keys
from gpuadmin.accounts.requests import known, refuse_protected
from gpuadmin.actions.shared.accounts import Change, account_result, converge, limits_later, perform
from gpuadmin.common.text import listed
from gpuadmin.errors import ExitCode
from gpuadmin.options import Options
from gpuadmin.outcome import finish, nothing
from gpuadmin.plan import PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened


def change_user(
    options: Options,
    name: str,
    *,
    keys: Sequence[str] = (),
    add_keys: Sequence[str] = (),
    remove_keys: Sequence[str] = (),
    email: str | None = None,
    note: str | None = None,
    group: str | None = None,
    docker: bool | None = None,
    projects: Sequence[str] | None = None,
) -> int:
    """Change keys, Docker, address, note, group or projects of one person. Returns the exit code.

    Keys are given as they are, or as a file of them; what is not given stays as it is. Hosts are asked only where they
    have a part in it: a note is in users.yml alone, and an address where there is no queue.
    """
    wanted = Wanted(
        keys=read_keys(keys) if keys else None,
        add_keys=read_keys(add_keys, "--add-key"),
        remove_keys=tuple(remove_keys),
        email=email,
        note=note,
        group=group,
        docker=docker,
        projects=None if projects is None else tuple(projects),
    )
    with opened("change-user", options) as session:
        (before,) = known(session.site.registry, [name])
        after = change(before, wanted)
        registry = session.site.registry.changed(
            session.site.settings, update=[after], arguments={"keys": "--key" if keys else "--add-key"}
        )
        title = f"Change {name} on {session.site.settings.name}"
        nodes = on_nodes(before, after)
        found = converge(session, registry, [after], title=title, describe=lambda user, _: nodes)
        builder = PlanBuilder(title, steps=list(found.plan.steps), warnings=list(found.plan.warnings))
        moved = before.group != after.group or before.projects != after.projects
        queue = session.named("slurm") if moved else []
        mails = session.named("slurm") if before.email != after.email else []
        unix = {one.name for one in session.site.settings.groups} & {before.group, after.group}
        # guard: who leaves a group of people leaves the Unix group at once -> wanted.for_hosts or bool(queue or mails)
        for_hosts = wanted.for_hosts or bool(queue or mails) or (before.group != after.group and bool(unix))
        if not for_hosts:
            builder = PlanBuilder(title, warnings=limits_later(session, [after]))
        builder.add_all(queue, [f"{name}: {listed([after.group or 'no group', *after.projects])} in the queue"])
        builder.add_all(mails, [f"{name}: where mails about jobs go"])
        for line in on_site(before, after):
            builder.add("site", line)
        for line in notes(before, after):
            builder.warn(line)
        made = replace(found, plan=builder.build())
        return perform(session, made) if for_hosts else _write(session, made)


def change_access(verb: str, options: Options, names: Sequence[str], fields: Mapping[str, Any], words: str) -> int:
    """Lock people, let them in again, or set their last day: `fields` of users.yml. Returns the exit code.

    `verb` is lock-user, unlock-user or extend-user; `words` are what its plan says of each person.
    """
    with opened(verb, options) as session:
        if fields.get("locked"):
            refuse_protected(session.site.settings, names, verb)
        people = [user.model_copy(update=fields) for user in known(session.site.registry, names)]
        registry = session.site.registry.changed(session.site.settings, update=people)
        title = f"{verb}: {', '.join(user.name for user in people)}"
        found = converge(
            session, registry, people, title=title, describe=lambda user, _: [f"{user.name}: {words}"], homes=False
        )
        return perform(session, found)


def _write(session: Session, made: Change) -> int:
    """Change users.yml alone. Returns the exit code."""
    if not session.plan(made.plan):
        return nothing(session)
    session.confirm()  # guard: change-user asks before users.yml alone is written
    if not session.check:
        session.begun()
        session.save(made.registry)
    return finish(session, ExitCode.DONE, account_result(RunResult({})))
