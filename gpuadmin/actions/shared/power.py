"""What reboot and shutdown share: look, decide, plan, confirm, tell people, wait, and go step by step."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from gpuadmin.actions.shared.queue import Away, away
from gpuadmin.answers import Answers
from gpuadmin.common.text import counted
from gpuadmin.config.groups import GROUPS
from gpuadmin.console import echo
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.power import Action, Decision, Step, Target, choose_idle, decide, parse_time
from gpuadmin.records import history
from gpuadmin.results import HostResult, RunResult
from gpuadmin.session import Session, opened

#: What people on a node read before it goes.
NOW = {
    "reboot": (
        "This node reboots now. Your home stays as it is; /tmp may be emptied.\n"
        "이 노드는 지금 재부팅됩니다. 홈은 그대로 유지되지만 /tmp는 지워질 수 있습니다."
    ),
    "shutdown": (
        "This node is switched off now. Your home stays as it is; /tmp may be emptied.\n"
        "이 노드는 지금 꺼집니다. 홈은 그대로 유지되지만 /tmp는 지워질 수 있습니다."
    ),
}
#: What people there, or who log in, read while it waits until nobody is.
WHEN_IDLE = {
    "reboot": (
        "This node reboots as soon as nobody uses it: please finish and log out.\n"
        "이 노드는 사용자가 없어지는 대로 재부팅됩니다. 작업을 마치고 로그아웃해 주세요."
    ),
    "shutdown": (
        "This node is switched off as soon as nobody uses it: please finish and log out.\n"
        "이 노드는 사용자가 없어지는 대로 꺼집니다. 작업을 마치고 로그아웃해 주세요."
    ),
}
#: The same for a time that is set.
AT = {
    "reboot": (
        "This node reboots at {time}. Everything that still runs then is ended: please save your work and log out.\n"
        "이 노드는 {time}에 재부팅됩니다. 그때 실행 중인 작업은 모두 종료되니 저장하고 로그아웃해 주세요."
    ),
    "shutdown": (
        "This node is switched off at {time}. Everything that still runs then is ended: please save your work and log "
        "out.\n이 노드는 {time}에 꺼집니다. 그때 실행 중인 작업은 모두 종료되니 저장하고 로그아웃해 주세요."
    ),
}
CUT = "interrupted before it was done: gpuadmin status says whether it is up"
ADVICE = "when the cause is gone, run it again: it looks at every host again"


@dataclass(frozen=True)
class PowerRequest:
    """What the command line asks for. `at`: a time of day, as typed. `idle`: so many nodes that nobody is on. `place`:
    hosts alone whose place in the inventory has this in it.
    """

    action: Action
    patterns: tuple[str, ...]
    when_idle: bool
    at: str | None
    force: bool
    idle: int | None = None
    place: str | None = None


def switch(options: Options, request: PowerRequest) -> int:
    """Reboot hosts, or switch them off. Returns the exit code."""
    with opened(request.action, options) as session:
        at = None if request.at is None else parse_time(request.at, datetime.now())
        targets, answers, queue, decision = look_and_decide(session, request)
        builder = _plan(session, request, decision, at)
        queue.plan(builder, decision.hosts, back=request.action == "reboot")
        if not session.plan(builder.build()):
            if set(decision.refused) - set(answers.unknown):
                raise session.refuse("no host can go", [f"{host}: {why}" for host, why in decision.refused.items()])
            return nothing(session, [answers])
        session.confirm()
        nodes = [one.name for one in targets if one.people and one.name in decision.hosts]
        if at is not None and not session.check and nodes:
            _wait(session, request, queue, nodes, at)
        run, gone = go(session, request, queue, decision, sent_away=at is not None)
        # guard: a node that stays says no more that it goes
        if (at is not None or request.when_idle) and not session.check:
            _withdraw(session, request, queue, [node for node in nodes if node not in gone])
        queue.left(run)
        left = [host for host in decision.hosts if host not in run.hosts]
        if left:
            echo(f"Not touched: {', '.join(left)}", err=True)
        result = {"steps": [list(step.hosts) for step in decision.steps], "refused": dict(decision.refused),
                  "untouched": left}  # fmt: skip
        advice = f"no later step was begun; {ADVICE}" if left else ADVICE
        return report(session, run, result, advice=advice, unknown=[answers])


def look_and_decide(session: Session, request: PowerRequest) -> tuple[list[Target], Answers, Away, Decision]:
    """Look at the hosts that are meant, and at the queue's jobs there. Returns what both say, and what can happen."""
    targets = find_targets(session, request.patterns, request.place)
    answers = _look(session, request, targets)
    waits = request.when_idle or request.force or request.at is not None
    failed = {host: answers.unknown[host] for host in answers.failed}
    queue = away(session, [one.name for one in targets])
    known = {
        host: _with_jobs(queue, host, _with_claims(found, request), request) for host, found in answers.known.items()
    }
    decision = decide(request.action, targets, known, waits=waits, failed=failed)
    if request.idle is not None:
        decision = choose_idle(decision, targets, request.idle, find_turns(session))
    return targets, answers, queue, decision


def find_turns(session: Session) -> dict[str, str]:
    """When `shutdown` last switched each host off, as all admins' records have it."""
    turns: dict[str, str] = {}
    for run, result in history(session.site.runs, {"shutdown"}):
        for host, found in (result or {}).get("hosts", {}).items():
            if found["status"] == "changed" and not run["check"]:
                turns.setdefault(host, run["started"])
    return turns


def find_targets(session: Session, patterns: Sequence[str], place: str | None = None) -> list[Target]:
    """The hosts that are meant, each once; of `place` alone where it is given. Raises ConfigError for one that is in
    none of the groups, and for none.
    """
    allowed = {host.name for host in session.hosts}
    found = {host.name: host for pattern in patterns for host in session.site.inventory.limited(pattern, "HOST")}
    outside = [host.name for host in found.values() if not set(GROUPS) & set(host.groups)]
    if outside:  # guard: a host of no group is not switched off unasked
        raise ConfigError(
            f"{', '.join(outside)}: in none of the groups {', '.join(GROUPS)}", hint="put it into one in inventory/"
        )
    targets = [
        Target(host.name, host.cluster_address, "gpu" in host.groups, host.serves)
        for host in found.values()
        if host.name in allowed and (place is None or (place and place in host.place))
    ]
    if not targets and place is not None:
        raise ConfigError(f"--place {place!r}: no host of {' '.join(patterns)} has this in its place",
                          hint="gpuadmin audit shows the places of the inventory")  # fmt: skip
    if not targets:
        raise ConfigError(f"--limit {session.options.limit}: leaves none of the hosts {' '.join(patterns)}")
    return targets


def _look(session: Session, request: PowerRequest, targets: Sequence[Target]) -> Answers:
    names = [one.name for one in targets]
    found = session.look(request.action, names, {"gpuadmin_power_tasks": "look"})
    return Answers.of(found.hosts, names, "power")


def _with_jobs(queue: Away, host: str, found: Mapping[str, Any], request: PowerRequest) -> Mapping[str, Any]:
    """What a host says, with jobs of the queue as people who are on it."""
    if host not in queue.nodes:
        return found
    if queue.unknown and not request.force:  # guard: a node goes only where the queue says whose jobs are there
        return {**found, "jobs": None, "unknown": {**found["unknown"], "jobs": f"{queue.unknown} (--force goes on)"}}
    if found["people"] is None:
        return found
    jobs = queue.jobs.get(host, ())  # guard: whoever has a job of the queue on a node is on it -> ()
    return {**found, "people": [*found["people"], *jobs]}


def _with_claims(found: Mapping[str, Any], request: PowerRequest) -> Mapping[str, Any]:
    """What a host says, with those as people who only have a container or a grant there: nobody chose this node."""
    if request.idle is None or found["people"] is None:
        return found
    claims = found.get("claims")
    if claims is None:  # guard: a node is chosen only where it is known who has something there
        return {**found, "people": None, "unknown": {**found["unknown"], "people": found["unknown"].get("claims")}}
    # guard: who has a container or a grant is on the node -> found["people"]
    people = [*found["people"], *claims]
    return {**found, "people": people}


def _plan(session: Session, request: PowerRequest, decision: Decision, at: datetime | None) -> PlanBuilder:
    verb = "Reboot" if request.action == "reboot" else "Switch off"
    title = f"{verb} {counted(len(decision.hosts), 'host')} of {session.site.settings.name}"
    builder = PlanBuilder(title + ("" if at is None else f" at {at:%Y-%m-%d %H:%M}"))
    for number, step in enumerate(decision.steps, start=1):
        builder.add_all(step.hosts, [f"{number}. {step.does}"])
    for host, why in decision.refused.items():
        builder.warn(f"{host} is left out: {why}")
    if at is not None and decision.steps:
        builder.warn(
            "people are told now, and sent away at that time; this command waits here until then, "
            "and no other run can change the site meanwhile"
        )
    if request.when_idle and decision.steps:
        builder.warn(
            "people are told, and each node waits until nobody is on it, for a day at most; "
            "no other run can change the site meanwhile"
        )
    if request.idle is not None and len(decision.hosts) < request.idle:
        builder.warn(f"only {len(decision.hosts)} of the {request.idle} nodes that you want can go")
    if request.action == "shutdown" and decision.steps:
        builder.warn("gpuadmin power on switches on those that have a bmc; others by hand, storage first")
    return builder


def _wait(session: Session, request: PowerRequest, queue: Away, nodes: Sequence[str], at: datetime) -> None:
    """Tell people, and wait. Whoever interrupts it takes back what people were told."""
    text = AT[request.action].format(time=f"{at:%Y-%m-%d %H:%M}")
    given = {"gpuadmin_power_tasks": "announce", "gpuadmin_waiting": text, "gpuadmin_reason": text}
    given |= queue.asked(waits=False, force=request.force)
    notified = session.run(request.action, nodes, given, check=False, quiet=True)
    if notified.interrupted or notified.error:
        _withdraw(session, request, queue, nodes)
    session.whole(notified, "interrupted; nothing was switched off, and people are told so")
    session.console.print(f"People are told. Waiting until {at:%Y-%m-%d %H:%M}; Ctrl-C calls it off.")
    try:
        while (left := (at - datetime.now()).total_seconds()) > 0:
            time.sleep(min(left, 30))  # by the wall clock, which somebody may set meanwhile
    except KeyboardInterrupt:
        _withdraw(session, request, queue, nodes)
        raise


def _withdraw(session: Session, request: PowerRequest, queue: Away, nodes: Sequence[str]) -> None:
    """Take back what people were told: these nodes stay as they are."""
    session.run(
        request.action,
        nodes,
        {"gpuadmin_power_tasks": "withdraw", **queue.asked(waits=False, force=False)},
        check=False,
        quiet=True,
    )


def go(
    session: Session,
    request: PowerRequest,
    queue: Away,
    decision: Decision,
    *,
    sent_away: bool = False,
    begin: Callable[[Step], bool] = lambda _: True,
    more: Mapping[str, Any] | None = None,
) -> tuple[RunResult, set[str]]:
    """Step by step; none is begun after one that did not succeed everywhere.

    `begin`: what a verb does before each step; False: it is not begun. `more`: variables of the verb's own. Returns
    what became of every host, and which were switched off, or are back.
    """
    hosts: dict[str, HostResult] = {}
    run = RunResult({})
    released: set[str] = set()
    gone: set[str] = set()
    for step in decision.steps:
        if not begin(step):
            break
        # people who came after the homes were released have none: they are told, and the node is not kept for them
        force = request.force or sent_away or set(step.hosts) <= released
        given = {
            "gpuadmin_power_action": request.action,
            "gpuadmin_power_step": step.step,
            "gpuadmin_force": force,
            "gpuadmin_when_idle": request.when_idle,
            "gpuadmin_reason": NOW[request.action],
            "gpuadmin_waiting": WHEN_IDLE[request.action],
            **queue.asked(waits=request.when_idle, force=force, idle=request.idle is not None),
            **(more or {}),
        }
        run = session.run(
            request.action, step.hosts, given, check=session.check, label=f"{request.action}: {step.does}"
        )
        hosts |= {
            # nobody saw what became of it
            name: replace(found, message=CUT)
            if found.status == "interrupted"  # guard: an interrupted reboot is not a success
            else found
            for name, found in run.hosts.items()
        }
        done = {name for name, found in run.hosts.items() if found.status == "changed"}
        gone |= done if step.step == "switch" else set()
        if run.code:  # guard: no step of a shutdown follows one that failed
            break
        released |= set(step.hosts) if step.step == "release" else set()
    return RunResult(hosts, run.interrupted, run.error), gone
