"""Load the GPUs of nodes with a program before people compute there."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.common.text import listed
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened
from gpuadmin.who import who


def burn_in(options: Options, patterns: Sequence[str]) -> int:
    """Hosts are loaded at once; each says what came of it. Returns the exit code."""
    with opened("burn-in", options) as session:
        settings, inventory = session.site.settings.gpus.health, session.site.inventory
        hosts, named = session.those(patterns, "gpu"), [inventory.limited(part, "HOST") for part in patterns]
        if odd := [one.name for part in named for one in part if "gpu" not in one.groups]:
            raise ConfigError(f"{listed(odd)}: not in the group gpu")
        builder = PlanBuilder("Burn GPUs in")
        program = " ".join(settings.burn_in) or "what DCGM brings"
        words = f"takes no work, and runs {program}, for a day at most"
        builder.add_all(hosts, [f"{words}; takes jobs again if it passes and nobody else has drained it"])
        session.plan(builder.build())
        session.confirm()  # guard: a node is burnt in once that is confirmed
        run = session.run("burn-in", hosts, {"gpuadmin_burn_in": {"by": who()}}, check=session.check)
        return report(session, run)
