"""Switch hosts on and off from afar: each goes by itself where it answers, and by its BMC where it does not."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from gpuadmin.actions.shared.now import plain_table
from gpuadmin.actions.shared.power import PowerRequest, find_targets, find_turns, go, look_and_decide
from gpuadmin.actions.shared.prometheus import Prometheus
from gpuadmin.actions.shared.queue import Away, ask, away, controller, look
from gpuadmin.answers import Answers
from gpuadmin.auditing.hardware import load
from gpuadmin.common.queries import HOT
from gpuadmin.common.text import listed, the_page
from gpuadmin.common.waiting import IDLE_OFF
from gpuadmin.config.inventory import Host
from gpuadmin.desired.nodes import find_askers, find_bmc
from gpuadmin.errors import ConfigError, UnreachableError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.power import Decision, Target, choose_needed
from gpuadmin.reading import read_secret
from gpuadmin.records import history
from gpuadmin.results import HostResult, RunResult, with_all
from gpuadmin.session import Session, opened

PASSWORD_VARIABLE = "GPUADMIN_BMC_PASSWORD"
#: Seconds for a host to go by itself, and to come.
SECONDS = {"off": 300, "on": 900}
UNREPORTED = {"state": "unknown", "answers": True, "problem": "the host that was to ask its BMC says nothing of it"}


@dataclass(frozen=True)
class Bmcs:
    """The BMCs of the hosts that are meant. `order`: what the host `asker` is told of each; `seen`: what it found.
    `answering`: whether hosts are cut off even if they answer by then."""

    session: Session
    order: Mapping[str, Mapping[str, Any]]
    asker: str = ""
    seen: Mapping[str, Any] = field(default_factory=dict)
    answering: bool = False

    def by(self, name: str) -> str:
        one = self.order.get(name)
        if one is None:
            return "—"
        return "Wake-on-LAN" if one["kind"] == "wol" else f"its BMC ({one['kind']}, {one['address']})"

    def ask(
        self, asker: str, names: Sequence[str], wanted: str, hard: Collection[str] = ()
    ) -> tuple[Answers, RunResult]:
        given = {
            "gpuadmin_power_tasks": "bmcs", "gpuadmin_bmcs": [self.order[name] for name in names],
            "gpuadmin_bmc_switch": wanted, "gpuadmin_bmc_hard": [*hard], "gpuadmin_bmc_seconds": SECONDS.get(wanted, 0),
            "gpuadmin_bmc_answering": self.answering,
        }  # fmt: skip
        doing = f"Waiting until they are {wanted}: {listed(names)}" if wanted else "Asking BMCs"
        check = self.session.check or not wanted
        run = self.session.run("shutdown", [asker], given, check=check, label=doing, doing=doing, quiet=not wanted)
        return Answers.of(run.hosts, [asker], "bmcs"), run

    def switch(self, wanted: str, names: Sequence[str], hard: Collection[str] = ()) -> RunResult:
        """Have hosts on or off. `hard`: those that are cut off; the others go by themselves."""
        if not names:
            return RunResult({})
        answers, run = self.ask(self.asker, names, wanted, hard)
        silent = {"problem": f"{self.asker} was to ask its BMC: {answers.unknown.get(self.asker)}"}
        bad = {name: answers.known.get(self.asker, {}).get(name, silent)["problem"] for name in names}
        hosts = {name: HostResult("failed", message=why) if why else HostResult("changed") for name, why in bad.items()}
        return RunResult(hosts, run.interrupted, run.error)


def power(
    options: Options, action: str, patterns: Sequence[str], *, hard: bool, force: bool,
    choose: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> int:  # fmt: skip
    """Show whether hosts are on, or switch them. `choose`: which of those that can come do so; those that cannot have
    failed then. Returns the exit code."""
    with opened("power", options, changes=action != "status") as session:
        targets, order, odd = _find(session, patterns, strict=action != "status" and choose is None)
        bmcs = replace(_ask(session, order, () if action == "status" else order), answering=hard)
        if action == "status":
            bmcs = replace(
                bmcs, seen={**bmcs.seen, **{name: {**UNREPORTED, "problem": why} for name, why in odd.items()}}
            )
            run = RunResult({name: HostResult("failed" if one["problem"] else "ok") for name, one in bmcs.seen.items()})
            return report(session, run, {"asked_from": bmcs.asker, "hosts": bmcs.seen}, show=lambda: _show(bmcs))
        left = {one.name: odd.get(one.name, "no bmc in the inventory") for one in targets if one.name not in order}
        left |= {name: one["problem"] for name, one in bmcs.seen.items() if one["problem"]}
        builder = PlanBuilder(f"Power of {session.site.settings.name}: {action}")
        request = PowerRequest("shutdown", tuple(name for name in order if name not in left), False, None, force)
        queue, decision, cut = Away(session), Decision((), {}), list[str]()
        if action != "on" and request.patterns:
            queue, decision, cut = _plan_off(bmcs, request, builder, left, hard=hard)
        silent = ", and its ssh does not answer: gpuadmin power cycle "
        up = {name: "" if one["answers"] else f"{silent}{name}" for name, one in bmcs.seen.items()
              if action == "on" and one["state"] == "on" and name not in left}  # fmt: skip
        if choose is not None:
            left |= {name: f"it is on{why or f', and drained: gpuadmin resume {name}'}" for name, why in up.items()}
            up = {}
        for name, why in up.items():
            builder.warn(f"{name} is on already{why}")
        coming = [one for one in targets if action != "off" and one.name not in {*left, *up}]
        if choose is not None:
            chosen = choose([one.name for one in coming])
            coming = [one for one in coming if one.name in chosen]
        steps = [step for serves in (True, False) if (step := [one.name for one in coming if one.serves == serves])]
        for number, names in enumerate(steps, start=1 + len(decision.steps) + bool(cut)):
            builder.add_all(names, [f"{number}. is switched on; waits until ssh answers"])
        for name, why in left.items():
            builder.warn(f"{name} is left out: {why}")
        if not session.plan(replace(builder.build(), destroys=bool(cut))):
            if not left or up:
                return nothing(session)
            raise session.refuse("no host can be switched", [f"{name}: {why}" for name, why in left.items()])
        session.confirm()  # guard: nothing is switched from afar that was not confirmed
        run, gone = go(session, request, queue, decision)
        queue.left(run)
        if run.code:  # guard: no host is cut off after a step that did not succeed
            run, cut = with_all(run, cut), []
        run = run.then(bmcs.switch("off", [] if run.interrupted else [*sorted(gone), *cut], cut))
        off = {*gone, *cut, *(name for name, one in bmcs.seen.items() if one["state"] != "on")} - {*run.bad}
        for names in steps:
            # guard: nodes stay off where the storage host does not come, or somebody interrupts -> True
            if not run.interrupted and (action != "on" or not run.code):
                run = run.then(bmcs.switch("on", [name for name in names if name in off]))
        if steps and not session.check:
            came = [name for names in steps for name in names if name in off]
            away(session, [*run.hosts]).resume([name for name, found in run.hosts.items() if not found.bad], came)
        if choose is not None:
            run = run.then(RunResult({name: HostResult("failed", message=why) for name, why in left.items()}))
        return report(session, run, {"cut": cut, "left": left}, advice="run it again, which looks at every host again")


def switch_on_needed(options: Options, patterns: Sequence[str]) -> int:
    """Switch on nodes that `shutdown --idle` has switched off, as many as jobs of the queue need, unless it is too hot.
    Returns the exit code. A site without such a job has no run of it."""
    choose, off = functools.partial(choose_needed, now=time.time()), list[str]()
    with opened("power", options, changes=False) as session:
        for asking in (look, ask):  # what decides is asked of today's code
            host = controller(session)
            answers, _ = asking(session, host)
            if host not in answers.known:
                return nothing(session, [answers])
            queue, turns = answers.known[host], find_turns(session)
            named = {one.name for one in find_targets(session, patterns or ["gpu"])}
            named &= {one.name for one in session.hosts if find_bmc(session.site.settings, one)}
            off = [one["name"] for one in queue["nodes"] if one["name"] in named and IDLE_OFF.match(one["reason"])]
            late = _find_late(session)
            # guard: a node that did not come is tried after the others -> off
            off = sorted(off, key=lambda name: (late.get(name, ""), turns.get(name, "")))
            off = [name for name in off if choose(queue, [name])]
            if not off:
                return nothing(session)
            # guard: nothing is switched on while it is too hot, or too much is drawn
            if asking is look and (hot := _find_heat(session)):  # of which there is no run either
                session.console.print(f"{listed(off)} stay off while there is an alert: {listed(hot)}")
                return nothing(session)
    # one that cannot come holds up no other
    return power(options, "on", off, hard=False, force=False, choose=functools.partial(choose, queue))


def _find_late(session: Session) -> dict[str, str]:
    """When a run of this verb last failed on each host; empty for one on which the last run did not."""
    late: dict[str, str] = {}
    for run, result in history(session.site.runs, {"power"}):
        for host, found in (result or {}).get("hosts", {}).items():
            if not run["check"]:
                late.setdefault(host, run["started"] if found["status"] == "failed" else "")
    return late


def _find_heat(session: Session) -> list[str]:
    """Which alerts keep nodes off."""
    if not session.site.inventory.group("monitor"):
        return []
    with Prometheus(session.site) as prometheus:
        return sorted({one.labels["alertname"] for one in prometheus.ask(HOT)})


def _find(
    session: Session, patterns: Sequence[str], *, strict: bool
) -> tuple[list[Target], dict[str, dict[str, Any]], dict[str, str]]:
    """The hosts that are meant, what is asked of the BMC of each, and what is wrong with what the site says of others.
    Raises ConfigError where none has one; where one is wrong, if `strict`."""
    named, hosts = find_targets(session, patterns or ["all"]), {host.name: host for host in session.hosts}
    recorded, order, odd = load(session.site.directory) or {}, {}, dict[str, str]()
    for one in named:
        try:
            found = _describe(session, one, hosts[one.name], recorded.get(one.name, {}).get("network", ()))
        except ConfigError as error:
            if strict:  # guard: nothing is switched by a bmc that is not whole
                raise
            odd[one.name] = str(error)
            continue
        if found is not None:
            order[one.name] = found
    if not order:
        why = next(iter(odd.values()), f"no bmc in the inventory: {listed([one.name for one in named])}")
        raise ConfigError(why, hint=f"see {the_page('power')}")
    return named, order, odd


def _describe(session: Session, one: Target, host: Host, macs: Iterable[str]) -> dict[str, Any] | None:
    """What is asked of a host's BMC; None: it has none. Raises ConfigError where the site does not say enough."""
    bmc = find_bmc(session.site.settings, host)
    if bmc is None:
        return None
    password, macs = None, [bmc.mac] if bmc.mac else [*macs]
    needs: dict[str, object] = {"mac (or gpuadmin audit --record while it is on)": macs}
    if bmc.kind != "wol":
        password = read_secret(PASSWORD_VARIABLE, bmc.password_file, f"{one.name}: bmc.password_file")
        needs = {"address": bmc.address, "user": bmc.user, f"password_file (or {PASSWORD_VARIABLE})": password}
    if lacks := [name for name, value in needs.items() if not value]:
        raise ConfigError(f"{one.name}: its bmc has no {' and no '.join(lacks)}", hint=f"see {the_page('power')}")
    # guard: a host whose sshd has another port on the cluster's network is not taken for a hung one -> 0
    also = 22 if one.address != host.address and host.port != 22 else 0
    given = {"name": one.name, "host": one.address, "ssh": host.port, "also": also, "macs": macs}
    given |= {"user": bmc.user or "", "password": password or ""}
    return given | bmc.model_dump(include={"kind", "address", "key"})


def _ask(session: Session, order: Mapping[str, Mapping[str, Any]], without: Collection[str]) -> Bmcs:
    """Ask the BMCs from the first host that answers and is not itself switched. Raises UnreachableError."""
    silent, bmcs = {}, Bmcs(session, order)
    for asker in find_askers(session.site.settings, session.site.inventory.hosts):
        silent[asker] = "is to be switched itself"
        if asker not in without:
            answers, run = bmcs.ask(asker, [*order], "")
            session.whole(run)
            if asker in answers.known:
                return replace(
                    bmcs, asker=asker, seen={one: answers.known[asker].get(one, UNREPORTED) for one in order}
                )
            silent |= answers.unknown
    why = ", ".join(f"{name} ({reason})" for name, reason in silent.items()) or "it is in storage, monitor or backup"
    raise UnreachableError(f"no host can ask the BMCs: {why}", hint="bmc.via in gpuadmin.yml names one, such as a node")


def _show(bmcs: Bmcs) -> None:
    rows = [[name, bmcs.by(name), one["state"], "answers" if one["answers"] else "silent", one["problem"] or "—"]
            for name, one in bmcs.seen.items()]  # fmt: skip
    bmcs.session.console.print(plain_table(("Host", "By", "Power", f"ssh, from {bmcs.asker}", "Problem"), rows))


def _plan_off(
    bmcs: Bmcs, request: PowerRequest, builder: PlanBuilder, left: dict[str, str], *, hard: bool
) -> tuple[Away, Decision, list[str]]:
    """Decide and plan who goes by itself and who is cut off; who does neither is added to `left`."""
    _targets, answers, queue, decision = look_and_decide(bmcs.session, request)
    cut, off = [], {name for name, seen in bmcs.seen.items() if seen["state"] == "off"}
    for name, seen in bmcs.seen.items():
        silent = name in answers.unknown and name not in answers.failed
        if name in {*left, *off} or not (silent or hard):
            continue
        if silent and seen["answers"] and not hard:  # guard: a host that only this machine cannot reach is not cut off
            left[name] = f"it answers {bmcs.asker}, and not this machine: {answers.unknown[name]} (--hard cuts it off)"
        elif bmcs.order[name]["kind"] == "wol":
            left[name] = "Wake-on-LAN switches nothing off: somebody has to go there"
        else:
            cut.append(name)
    # what is cut off without being asked goes alone
    decision = Decision((), {}) if hard else decision
    left |= {name: why for name, why in decision.refused.items() if name not in {*cut, *left, *off}}
    for number, step in enumerate(decision.steps, start=1):
        builder.add_all(step.hosts, [f"{number}. {step.does}"])
    queue.plan(builder, decision.hosts, back=False)
    for name in cut:
        builder.add(name, f"{1 + len(decision.steps)}. is cut off by {bmcs.by(name)}: what runs there is lost")
        people = [*(answers.known.get(name, {}).get("people") or ()), *queue.jobs.get(name, ())]
        known = listed(people) if people else queue.unknown or ("nobody" if name in answers.known else "not known")
        builder.warn(f"{name} {'answers' if name in answers.known else 'does not answer'}; who is on it: {known}")
    return queue, decision, cut
