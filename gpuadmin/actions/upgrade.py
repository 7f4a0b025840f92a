"""Upgrade ordinary hosts, one after the other: what was shown, a look whether the host is well, a reboot if needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from gpuadmin.actions.shared.power import PowerRequest, find_targets, go, look_and_decide
from gpuadmin.actions.shared.queue import Away
from gpuadmin.answers import Answers
from gpuadmin.common.text import counted, listed, the_page
from gpuadmin.console import echo
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.power import Decision, Step
from gpuadmin.results import RunResult
from gpuadmin.session import opened

_WAITS = ("packages", "reboot", "interrupted", "problems")  # one of these is something to do
_BOOTED = re.compile(r"linux-image-\d")  # a kernel, in use after a boot


def upgrade(options: Options, patterns: Sequence[str], *, security: bool) -> int:
    """Upgrade the hosts that the patterns name. Returns the exit code."""
    with opened("upgrade", options) as session:
        targets = sorted(find_targets(session, patterns), key=lambda one: one.serves)  # what all need comes last
        names = [one.name for one in targets]
        looked = session.look("upgrade", names, {"gpuadmin_upgrade": {"step": "look", "security": security}})
        answers = Answers.of(looked.hosts, names, "updates")
        found = {name: one for name, one in answers.known.items() if any(one[key] for key in _WAITS)}
        needed = {name for name, one in found.items() if one["reboot"] or any(map(_BOOTED.match, one["packages"]))}
        storage = any(one.serves and one.name in needed for one in targets)  # the nodes let its homes go, and boot, too
        asked = tuple(one.name for one in targets if one.name in needed or (storage and one.people))
        request = PowerRequest("reboot", asked, False, None, force=False)
        queue, decision = look_and_decide(session, request)[2:] if asked else (Away(session), Decision((), {}))
        together = len(decision.steps) > 1
        booting = [name for name in decision.hosts if together or name in needed]
        builder = PlanBuilder(f"Upgrade {counted(len(found), 'host')} of {session.site.settings.name}, one by one")
        for name, one in found.items():
            builder.add_all([name], _lines(one))
        builder.add_all(booting, ["reboots at the end, with the storage host" if together else "reboots"])
        for name, why in answers.unknown.items():
            builder.warn(f"{name} is left out: {why}")
        for name in needed & set(decision.refused):
            builder.warn(f"{name} does not reboot: {decision.refused[name]}; later: gpuadmin reboot {name}")
        if held := sorted({one for host in found.values() for one in host["held"]}):
            builder.warn(f"held: {listed(held)}: the GPU's driver and its modules stay ({the_page('upgrades')})")
        queue.plan(builder, booting)
        if not session.plan(builder.build()):
            return nothing(session, [answers])
        session.confirm()
        result: dict[str, Any] = {"hosts": found, "reboots": booting, "untouched": []}
        if session.check:
            return report(session, RunResult({}), result, unknown=[answers], show=lambda: None)

        def ask(hosts: Sequence[str], **step: Any) -> RunResult:
            return session.run("upgrade", hosts, {"gpuadmin_upgrade": {"security": security, **step}}, check=False)

        def boot(which: Decision) -> RunResult:
            return go(session, request, queue, which)[0]

        def steps() -> Iterator[Callable[[], RunResult]]:
            for name, one in found.items():
                shown = {key: value["new"] for key, value in one["packages"].items()}
                yield partial(ask, [name], step="upgrade", shown=shown)
                if name in booting and not together:
                    yield partial(boot, Decision((Step((name,), "switch", "reboots"),), {}))
                    yield partial(ask, [name], step="well")
            if together:
                yield partial(boot, decision)
                yield partial(ask, booting, step="well")

        run = RunResult({})
        for step in steps():
            later = step()
            run = run.then(later) if later.code else later.then(run)  # what a host changed first is kept
            if later.code:  # guard: no host is upgraded after one that is not well
                break
        queue.left(run)
        result["untouched"] = [name for name in found if name not in run.hosts]
        if result["untouched"]:
            echo(f"Not touched: {', '.join(result['untouched'])}", err=True)
        return report(session, run, result, advice="settle what is said above, then run it again", unknown=[answers])


def _lines(found: Mapping[str, Any]) -> Iterator[str]:
    """What happens to a host: `openssl 3.0.15-1 → 3.0.17-1 (security)`."""
    if found["interrupted"]:
        yield "configures what an interrupted dpkg has left (dpkg --configure -a)"
    yield from (f"looks whether that is over: {why}" for why in found["problems"])
    for name, one in found["packages"].items():
        yield f"{name} {one['old'] or '(new)'} → {one['new']}{' (security)' if one['security'] else ''}"
