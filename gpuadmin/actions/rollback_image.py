"""Move nodes back to the root that they ran before."""

from __future__ import annotations

from gpuadmin.actions.shared.images import NOTICE, look, variables
from gpuadmin.actions.shared.queue import away
from gpuadmin.images.push import batches
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def rollback_image(options: Options, *, canary: int, batch: str, force: bool) -> int:
    """Move nodes back, batch by batch; `force`: also those that are in use. Returns the exit code."""
    with opened("rollback-image", options) as session:
        found = look(session)
        builder = PlanBuilder("Move nodes back to the root they ran before")
        queue = away(session, session.named("gpu"))
        nodes = []
        for host in session.named("gpu"):
            node = found.nodes.get(host)
            if node is None:
                builder.warn(f"{host} is left out: {found.silent.get(host, 'it did not answer')}")
            elif node["trial"]:
                nodes.append(host)
                builder.add(host, f"call off the switch to {node['trial']}, which waits for a reboot")
            elif queue.unknown and host in queue.nodes and not force:
                builder.warn(f"{host} is left out: {queue.unknown} (--force goes on)")
            elif node["rollback"] is None:
                builder.warn(f"{host} is left out: it has no confirmed root before {node['running']}")
            elif (there := sorted({*node["people"], *node["gpu_work"], *queue.jobs.get(host, ())})) and not force:
                builder.warn(f"{host} is left out: in use by {', '.join(there)} (--force reboots all the same)")
            else:
                nodes.append(host)
                builder.add(host, f"reboot from {node['running']} into {node['rollback']}")
        queue.plan(builder, [host for host in nodes if not found.nodes[host]["trial"]])
        unknown = [found.nodes_known.among(session.named("gpu"))]
        if not session.plan(builder.build()):
            return nothing(session, unknown)
        session.confirm()  # guard: rollback-image asks before it does something
        given = variables(
            session.site,
            gpuadmin_switch_action="rollback",
            gpuadmin_batches=batches(len(nodes), canary=canary, batch=batch) or [1],
            gpuadmin_force=force,
            gpuadmin_reason=NOTICE.format(name="rollback"),
            **queue.asked(waits=False, force=force),
        )
        run = session.run("rollback-image", nodes, given, check=session.check)
        queue.left(run)
        return report(session, run, unknown=unknown)
