"""Report who is root on hosts, or could be, and where hosts differ from what the site says."""

from __future__ import annotations

from gpuadmin.actions.provision import find_checks
from gpuadmin.actions.shared.metrics import metrics_variables, read_metrics_secret, slurm_variables
from gpuadmin.actions.shared.privileges import Seen, declared
from gpuadmin.actions.shared.roles import everybody, plan_roles
from gpuadmin.common.text import counted
from gpuadmin.console import echo
from gpuadmin.errors import ExitCode
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.session import opened


def drift(options: Options) -> int:
    """Compare the hosts with the site. Returns the exit code: 6 where some host differs."""
    with opened("drift", options, changes=False) as session:
        title = f"Find out who is root on the hosts of {session.site.settings.name}, and compare them with the site"
        session.planned(plan_roles(session, title))
        secret = read_metrics_secret(session.site)
        secrets = metrics_variables(session.site, secret) | slurm_variables(session.site, secret)
        given = everybody(session) | secrets | declared(session) | {"gpuadmin_health_checks": find_checks(session)}
        run = session.run("drift", None, given, check=True)
        seen = Seen.of(session, run)
        if not options.json:
            seen.show(session)
        differing = [name for name, host in run.hosts.items() if host.changed or name in seen.hosts]
        if differing:
            count = counted(len(differing), "host differs", "hosts differ")
            echo(f"{count}: {', '.join(differing)}", err=True)
        # nobody knows whether hosts differ that failed or did not answer
        code = (
            run.code  # guard: a host that did not answer is not said not to differ
            or seen.code  # guard: of a host whose answer is odd nobody knows whether it differs
            or (ExitCode.DIFFERS if differing else ExitCode.DONE)
        )
        return report(session, run, {"differing": differing, "privileges": seen.document()}, code=code)
