"""Divide GPUs into MIG devices: nodes say what would happen to each GPU, and who holds it or was granted it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuadmin.actions.shared.queue import away
from gpuadmin.answers import Answers
from gpuadmin.common.text import listed
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import Session, opened

WAITING = (
    "The MIG devices of a GPU that you hold or were granted will change as soon as you let it go. Please finish.\n"
    "사용 중이거나 배정받은 GPU는 사용이 끝나는 대로 MIG 구성이 변경됩니다. 작업을 마무리해 주세요."
)
ADVICE = "GPUs that were divided stay divided; run it again when the cause is gone"


def divide(options: Options, patterns: Sequence[str], *, when_idle: bool) -> int:
    """Divide the GPUs of the hosts that the patterns name, or of all nodes. Returns the exit code."""
    with opened("mig", options) as session:
        hosts = _hosts(session, patterns)
        found = session.look("mig", hosts, {})
        answers = Answers.of(found.hosts, hosts, "mig")
        builder = PlanBuilder(f"Divide GPUs of {session.site.settings.name}")
        acting = plan(builder, answers.known, when_idle=when_idle)
        left = list(builder.warnings)
        queue = away(session, list(answers.known))
        if acting and queue.unknown and set(acting) & set(queue.nodes):
            # guard: GPUs of the queue are divided only where it can be told
            raise RefusedError(f"the queue cannot be told that GPUs change: {queue.unknown}", hint="gpuadmin queue")
        again = [one for one in answers.known if one not in acting and queue.stale(one)]
        for host in again:
            builder.add(host, f"takes jobs of the queue again ({queue.closed[host]})")
        queue.plan(builder, acting)
        if acting:
            builder.warn("names of GPUs for containers follow: a MIG device may have another name afterwards")
        if not session.plan(builder.build()):
            if left:
                raise session.refuse("no GPU can be divided", left, hint="--when-idle waits for people")
            return nothing(session, [answers])
        session.confirm()  # guard: mig asks before it divides a GPU
        given = {"gpuadmin_divide_gpus": acting, "gpuadmin_divide_waiting": WAITING if when_idle else ""}
        queue.resume(again)
        run = session.run("mig", list(acting), given | queue.asked(waits=when_idle, force=False), check=session.check)
        queue.left(run)
        return report(session, run, {"gpus": acting, "left": left}, advice=ADVICE, unknown=[answers])


def _hosts(session: Session, patterns: Sequence[str]) -> list[str]:
    """The nodes that are meant. Raises ConfigError for a host that is not a node, and where no node has the setting."""
    nodes = {host.name: host for host in session.hosts if "gpu" in host.groups}
    named = [host.name for one in patterns for host in session.site.inventory.limited(one, "HOST")]
    if odd := [name for name in named if name not in nodes]:
        raise ConfigError(f"{listed(odd)}: not in the group gpu", hint="name nodes, or none for all of them")
    site = session.site.settings.gpus.mig
    with_it = [name for name, host in nodes.items() if site is not None or host.variables.get("gpus_mig") is not None]
    found = [name for name in (dict.fromkeys(named) or nodes) if name in with_it]
    if not found:
        raise ConfigError(
            f"the site says nothing about MIG {f'on {listed(named)}' if named else 'anywhere'}",
            hint="gpus.mig in gpuadmin.yml, or gpus_mig of a host or group in the inventory",
        )
    return found


def plan(builder: PlanBuilder, nodes: Mapping[str, Mapping[str, Any]], *, when_idle: bool) -> dict[str, list[int]]:
    """Plan each GPU, and return those that are acted on, by host."""
    acting: dict[str, list[int]] = {}
    for host, answer in nodes.items():
        for step in answer["steps"]:
            name = f"GPU {step['gpu']}"
            if step["state"] == "change":
                builder.add(host, f"{name}: {step['words']}")
            elif step["state"] == "waits" and when_idle:
                builder.add(host, f"{name}: {step['words']}, as soon as nobody is on it: {'; '.join(step['people'])}")
            elif step["state"] == "waits":
                builder.warn(f"{host}: {name} is left out: {'; '.join(step['people'])}")
                continue
            elif step["state"] == "refused":
                builder.warn(f"{host}: {name} is left out: {step['words']}")
                continue
            else:
                continue
            acting.setdefault(host, []).append(step["gpu"])
    return acting
