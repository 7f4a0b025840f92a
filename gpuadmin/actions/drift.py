"""Report where hosts differ from what the site says."""

from __future__ import annotations

from gpuadmin.actions.shared.metrics import metrics_variables, secret_of
from gpuadmin.actions.shared.roles import everybody, plan_roles
from gpuadmin.console import echo
from gpuadmin.errors import ExitCode
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.session import opened
from gpuadmin.text import counted


def drift(options: Options) -> int:
    """Compare the hosts with the site. Returns the exit code: 6 where some host differs."""
    with opened("drift", options, changes=False) as session:
        session.planned(plan_roles(session, f"Compare the hosts of {session.site.settings.name} with the site"))
        given = everybody(session) | metrics_variables(session.site, secret_of(session.site))
        run = session.run("drift", None, given, check=True)
        differing = [name for name, host in run.hosts.items() if host.changed]
        if differing:
            count = counted(len(differing), "host differs", "hosts differ")
            echo(f"{count}: {', '.join(differing)}", err=True)
        # of hosts that failed or did not answer nobody knows whether they differ
        code = run.code or (ExitCode.DIFFERS if differing else ExitCode.DONE)
        return report(session, run, {"differing": differing}, code=code)
