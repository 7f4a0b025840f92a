"""Move nodes to an image, batch by batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gpuadmin.actions.shared.images import NOTICE, WAITING, in_store, look, variables
from gpuadmin.actions.shared.queue import Away, away
from gpuadmin.console import echo
from gpuadmin.errors import RefusedError
from gpuadmin.images.chain_key import make_key
from gpuadmin.images.facts import Facts, check_name
from gpuadmin.images.push import batches, chains, links, plan_push, slowest_steps, time_spent
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened

ADVICE = "run it again to go on, or build a corrected image; gpuadmin list-images says what each node runs"


@dataclass(frozen=True)
class Push:
    """What the command line asks for. `deadline`: seconds that a trial may take, or None for images.deadline."""

    name: str
    canary: int
    batch: str
    reboot: bool
    when_idle: bool
    force: bool
    full: bool
    deadline: int | None


def push_image(options: Options, push: Push) -> int:
    """Move the nodes that can take it to the image. Returns the exit code."""
    with opened("push-image", options) as session:
        found = look(session, check_name(push.name), full=push.full)
        manifest = in_store(found, push.name)
        builder = PlanBuilder(f"Move nodes to the image {push.name}")
        queue = away(session, session.named("gpu") if push.reboot else [])
        if why := queue.newer(manifest["packages"]):  # guard: no node gets a slurmd that is newer than its controller
            raise RefusedError(f"{push.name}: {why}", hint="gpuadmin list-images NAME says what is in it")
        nodes = _nodes(session, builder, found, push, queue)
        again = [one for one in found.nodes if one not in nodes and queue.stale(one)]
        for host in again:
            builder.add(host, f"takes jobs of the queue again ({queue.closed[host]})")
        queue.plan(builder, nodes)
        sizes = batches(len(nodes), canary=push.canary, batch=push.batch)
        addresses = {host.name: host.cluster_address for host in session.hosts}
        reports = {host: found.nodes[host] for host in nodes}
        along = chains(reports, sizes, addresses)
        for chain in along:
            builder.warn(f"the full image goes along {' → '.join(chain)}; who gets none of it there asks the store")
        if len(sizes) > 1:
            builder.warn(f"in batches of {', '.join(str(size) for size in sizes)}; it stops after the first that fails")
        unknown = [found.nodes_known.among(session.named("gpu"))]
        if not session.plan(builder.build()):
            return nothing(session, unknown)
        session.confirm()  # guard: push-image asks before it does something
        given: dict[str, Any] = {
            "gpuadmin_image": push.name,
            "gpuadmin_full": push.full,
            "gpuadmin_links": links(along, addresses),
            "gpuadmin_chain_key": make_key() if along else "",
            "gpuadmin_reboot": push.reboot,
            "gpuadmin_force": push.force,
            "gpuadmin_when_idle": push.when_idle,
            "gpuadmin_batches": sizes or [1],
            "gpuadmin_reason": NOTICE.format(name=push.name),
            "gpuadmin_waiting": WAITING.format(name=push.name),
            **({} if push.deadline is None else {"gpuadmin_deadline": push.deadline}),
        }
        given |= queue.asked(waits=push.when_idle, force=push.force)
        queue.resume(again)
        run = session.run("push-image", nodes, variables(session.site, **given), check=session.check)
        queue.left(run)
        return report(session, run, _result(run, nodes), advice=ADVICE, unknown=unknown)


def _nodes(session: Session, builder: PlanBuilder, found: Facts, push: Push, queue: Away) -> list[str]:
    """Plan for each node, and return those that move. Raises RefusedError if all that could are refused."""
    nodes, refused = [], []
    for host in session.named("gpu"):
        if host not in found.nodes:
            builder.warn(f"{host} is left out: {found.silent.get(host, 'it did not answer')}")
            continue
        # guard: an image is not booted where the queue does not say whose jobs are there
        if queue.unknown and host in queue.nodes and not push.force:
            builder.warn(f"{host} is left out: {queue.unknown} (--no-reboot only prepares, --force goes on)")
            refused.append(host)
            continue
        there = {**found.nodes[host]}
        # guard: whoever has a job of the queue on a node keeps it from a new image -> there
        there["gpu_work"] = [*(there.get("gpu_work") or ()), *queue.jobs.get(host, ())]
        plan = plan_push(
            there, push.name, reboot=push.reboot, force=push.force, when_idle=push.when_idle
        )  # fmt: skip
        if plan.action == "push":
            nodes.append(host)
            builder.add_all([host], plan.summary)
        else:
            refusal = plan.action == "refuse"
            builder.warn(f"{host} is left out: {plan.summary[0]}" if refusal else f"{host} {plan.summary[0]}")
            refused += [host] if refusal else []
    if refused and not nodes:
        raise RefusedError("; ".join(builder.warnings))
    return nodes


def _result(run: RunResult, nodes: Sequence[str]) -> dict[str, Any]:
    """Which nodes were not touched, because a batch before theirs failed; and where the time went, printed too."""
    untouched = [host for host in nodes if run.hosts[host].status == "not run"]
    spent = {
        host: time_spent(
            (entry.reports.get("switch") or {}).get("seconds") or {},
            (entry.reports.get("node") or {}).get("last") or {},
        )
        for host, entry in run.hosts.items()
    }
    if longest := slowest_steps(spent):
        echo(f"Where the time went: {longest}", err=True)
    return {"untouched": untouched, "seconds": spent}
