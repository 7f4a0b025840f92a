"""Report where hosts differ from what the site says."""

from __future__ import annotations

from gpuadmin.actions.shared.roles import everybody, plan_roles
from gpuadmin.console import echo
from gpuadmin.errors import ExitCode
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.session import opened
from gpuadmin.text import counted


def drift(options: Options) -> int:
    """Compare the hosts with the site. Returns the exit code: 3 where some host differs."""
    with opened("drift", options, changes=False) as session:
        plan = plan_roles(session, f"Compare the hosts of {session.site.settings.name} with the site")
        session.planned(plan)
        if plan.empty:
            return nothing(session)
        run = session.run("drift", None, everybody(session), check=True)
        differing = [name for name, host in run.hosts.items() if host.changed]
        if differing:
            count = counted(len(differing), "host differs", "hosts differ")
            echo(f"{count}: {', '.join(differing)}", err=True)
        code = run.code
        if differing and code in (ExitCode.DONE, ExitCode.HOST_UNREACHABLE):
            code = ExitCode.HOST_FAILED
        return report(session, run, {"differing": differing}, code=code)
