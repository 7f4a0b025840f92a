"""Set nodes and the storage host up."""

from __future__ import annotations

from gpuadmin.actions.shared.accounts import account_result
from gpuadmin.actions.shared.roles import everybody, plan_roles
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.session import opened


def provision(options: Options) -> int:
    """Run every role on every host that calls for it. Returns the exit code."""
    with opened("provision", options) as session:
        session.plan(plan_roles(session, f"Set up the hosts of {session.site.settings.name}"))
        given = everybody(session)
        session.predict("provision", None, given)
        session.confirm()
        run = session.run("provision", None, given, check=session.check)
        return report(session, run, account_result(run))
