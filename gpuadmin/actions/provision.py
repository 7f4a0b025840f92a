"""Set nodes and the storage host up."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from typing import Any

from gpuadmin.actions.shared.accounts import account_result, ask_carried, show_changes, show_notes
from gpuadmin.actions.shared.metrics import keep_secret, metrics_variables, read_metrics_secret, slurm_variables
from gpuadmin.actions.shared.queue import say_drained
from gpuadmin.actions.shared.roles import everybody, plan_roles
from gpuadmin.common.text import listed
from gpuadmin.config.check import NO_LIMITS, WITH_LIMITS, findings
from gpuadmin.console import echo
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import Plan
from gpuadmin.session import Session, opened


def provision(options: Options) -> int:
    """Run every role on every host that calls for it. Returns the exit code."""
    with opened("provision", options) as session:
        session.plan(_plan(session))
        for one in findings(session.site):
            if one.level == "error":  # beside the plan: a twin has other files, and its plan is compared
                echo(f"Note: gpuadmin check: {one.where}: {one.message}", err=True)
        secret, secrets, given = gather(session)
        session.predict("provision", None, ask_carried(session, given), first=partial(show_changes, session))
        session.confirm()  # guard: provision asks before it does something
        if secrets and not session.check:
            keep_secret(session.site, secret)
        wanted = ask_carried(session, given) if session.check else given
        run = session.run("provision", None, wanted, check=session.check)
        if session.check:
            show_changes(session, run)
        code = report(session, run, account_result(run))
        show_notes(session, run)
        say_drained(session, run)
        return code


def gather(session: Session) -> tuple[bytes, dict[str, Any], dict[str, Any]]:
    """The site's secret, what follows from it, and all that the playbook is given."""
    secret = read_metrics_secret(session.site)
    secrets = metrics_variables(session.site, secret) | slurm_variables(session.site, secret)
    return secret, secrets, everybody(session) | secrets | {"gpuadmin_health_checks": find_checks(session)}


def find_checks(session: Session) -> str:
    """The directory of the site's own checks of a node; empty: there is none. Raises ConfigError."""
    checks = session.site.directory / "health.d"
    odd = sorted(one.name for one in checks.glob("*") if not os.access(one, os.X_OK))
    if odd:  # guard: a README beside the checks, which fails as one, does not close all nodes
        raise ConfigError(
            f"health.d: not executable: {listed(odd)}", hint="all files there are checks: chmod +x, or move"
        )
    return str(checks) if checks.is_dir() else ""


def _plan(session: Session) -> Plan:
    plan = plan_roles(session, f"Set up the hosts of {session.site.settings.name}")
    notes = list(plan.warnings)
    if session.site.settings.limits is None and session.named("gpu"):
        notes.append(f"no limits: {NO_LIMITS}; {WITH_LIMITS}")
    if session.site.settings.slurm is None and session.site.inventory.group("slurm"):
        leaving = listed(session.named("slurm", "gpu"))
        notes.append(f"gpuadmin.yml has no section slurm: the queue is removed from {leaving}, if it is still there")
    return replace(plan, warnings=tuple(notes))
