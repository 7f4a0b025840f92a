"""Set nodes and the storage host up."""

from __future__ import annotations

from gpuadmin.actions.shared.accounts import account_result
from gpuadmin.actions.shared.metrics import keep_secret, metrics_variables, secret_of
from gpuadmin.actions.shared.roles import everybody, plan_roles
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.session import opened


def provision(options: Options) -> int:
    """Run every role on every host that calls for it. Returns the exit code."""
    with opened("provision", options) as session:
        session.plan(plan_roles(session, f"Set up the hosts of {session.site.settings.name}"))
        secret = secret_of(session.site)
        given = everybody(session) | metrics_variables(session.site, secret)
        session.predict("provision", None, given)
        session.confirm()  # guard: provision asks before it does something
        if "gpuadmin_metrics" in given and not session.check:
            keep_secret(session.site, secret)
        run = session.run("provision", None, given, check=session.check)
        return report(session, run, account_result(run))
