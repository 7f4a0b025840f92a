"""Bring every host to what users.yml says."""

from __future__ import annotations

from functools import partial

from gpuadmin.actions.shared.accounts import account_result, ask_carried, show_changes
from gpuadmin.actions.shared.roles import everybody
from gpuadmin.common.text import counted
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.session import Session, opened


def sync_users(options: Options) -> int:
    """Bring accounts and homes to what users.yml says. Returns the exit code."""
    with opened("sync-users", options) as session:
        session.plan(_plan(session))
        given = everybody(session)
        session.predict("sync-users", None, ask_carried(session, given), first=partial(show_changes, session))
        session.confirm()  # guard: sync-users asks before it does something
        wanted = ask_carried(session, given) if session.check else given
        run = session.run("sync-users", None, wanted, check=session.check)
        if session.check:
            show_changes(session, run)
        return report(session, run, account_result(run))


def _plan(session: Session) -> Plan:
    registry = session.site.registry.registry
    builder = PlanBuilder(f"Bring {session.site.settings.name} to what users.yml says")
    people = counted(len(registry.users), "account")
    session.some("gpu", "storage")
    builder.add_all(session.named("storage"), [f"{people} and their homes"])
    builder.add_all(session.named("gpu"), [f"{people}, keys, subids and Docker directories"])
    if registry.retired:
        removed = counted(len(registry.retired), "removed account stays", "removed accounts stay") + " away"
        builder.add_all(session.named("gpu", "storage"), [removed])
    return builder.build()
