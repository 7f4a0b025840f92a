"""Switching hosts off and on: which may go, in which order, and what keeps the others. Pure.

Nodes go before what they mount, and what they mount is back before them. If something about a host is unknown, it
stays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from gpuadmin.common.records.queue import WINDOW
from gpuadmin.common.waiting import WHY
from gpuadmin.errors import ConfigError

#: Why a job waits that a node more could begin.
_NEEDS_NODES = {WHY[one][0] for one in ("node", "resources", "processors", "priority", "booked")}
Action = Literal["reboot", "shutdown"]


@dataclass(frozen=True)
class Target:
    """A host that is meant. `people`: people log in there; `serves`: others mount from it."""

    name: str
    address: str
    people: bool
    serves: bool


@dataclass(frozen=True)
class Step:
    """Hosts that go at the same time. `step`: `switch`, or `release`: they let the homes go and stay up."""

    hosts: tuple[str, ...]
    step: Literal["switch", "release"]
    does: str


@dataclass(frozen=True)
class Decision:
    """What happens, step by step, and why the others are left out, by host."""

    steps: tuple[Step, ...]
    refused: Mapping[str, str]

    @property
    def hosts(self) -> tuple[str, ...]:
        """Every host that goes."""
        return tuple(dict.fromkeys(host for step in self.steps for host in step.hosts))


def decide(
    action: Action,
    targets: Sequence[Target],
    reports: Mapping[str, Mapping[str, Any]],
    *,
    waits: bool,
    failed: Mapping[str, str] | None = None,
) -> Decision:
    """Given the hosts and what those that answer say, return what happens.

    `reports`: by host `people`, `clients`, `jobs` (None: not known, and `unknown` says why). `waits`: people are no
    obstacle; it waits for them or sends them away. `failed`: why a host that answers could not be looked at.
    """
    refused = {}
    for one in targets:
        if failed and one.name in failed:  # it is up: nobody shall take it for one that is off
            refused[one.name] = f"it answers, and could not be looked at: {failed[one.name]}"
        elif reason := _reason(one, reports.get(one.name), waits=waits):
            refused[one.name] = reason
    going = [one for one in targets if one.name not in refused and not one.serves]
    addresses = {one.address for one in going} | {one.name for one in going}
    servers = []
    for one in targets:
        if not one.serves or one.name in refused:
            continue
        staying = [client for client in reports[one.name]["clients"] if client not in addresses]
        if staying:  # guard: storage stays while somebody mounts it who stays up
            refused[one.name] = f"mounted by {', '.join(staying)}, which would stay up: name them, too"
        else:
            servers.append(one)
    return Decision(tuple(_steps(action, going, servers)), refused)


def choose_idle(decision: Decision, targets: Sequence[Target], count: int, last: Mapping[str, str]) -> Decision:
    """Given what could go, keep `count` nodes of it, fairly in turn.

    `last`: when each was last switched off, by host: whoever never was goes first, then whose turn is longest ago.
    """
    nodes = [one.name for one in targets if one.people and not one.serves and one.name in decision.hosts]
    chosen = sorted(nodes, key=lambda name: last.get(name, ""))[:count]
    steps = [replace(step, hosts=tuple(name for name in step.hosts if name in chosen)) for step in decision.steps]
    return Decision(tuple(step for step in steps if step.hosts), decision.refused)


def choose_needed(queue: Mapping[str, Any], off: Sequence[str], now: float) -> list[str]:
    """Given what the queue says, and nodes that are off, the first one to come first, return those that jobs need: with
    as many GPUs as jobs wait for that could begin, and as no idle node has. None is in a window of maintenance."""
    windows = [one for one in queue.get("reservations", ()) if one["name"].startswith(WINDOW) and one["begin"] <= now]
    # guard: nobody has a hand in a node that is switched on -> set()
    closed = {node for one in windows for node in one["nodes"]}
    gpus = {one["name"]: max(one.get("gpus") or 1, 1) for one in queue["nodes"]}
    lacking = sum(max(one["gpus"], 1) for one in queue["jobs"] if one["place"] and one["why"] in _NEEDS_NODES)
    # what idle nodes could begin waits for something else: a node more would not help
    lacking -= sum(gpus[one["name"]] for one in queue["nodes"] if one["state"] == "idle" and not one["reason"])
    chosen: list[str] = []
    for node in (one for one in off if one not in closed):
        if lacking > 0:
            chosen.append(node)
            lacking -= gpus.get(node, 1)
    return chosen


def _reason(one: Target, report: Mapping[str, Any] | None, *, waits: bool) -> str | None:
    if report is None:
        return "it does not answer; is it off already?"
    unknown = report["unknown"]
    if report["jobs"] is None or report["jobs"]:
        return f"busy with {', '.join(report['jobs'])}" if report["jobs"] else str(unknown.get("jobs"))
    if one.serves and report["clients"] is None:  # guard: storage stays where nobody knows who mounts it
        return str(unknown.get("clients"))
    if one.people and not waits and report["people"] is None:
        return f"nobody knows who is on it: {unknown.get('people')}"
    if one.people and not waits and report["people"]:
        return f"in use by {', '.join(report['people'])} (--when-idle waits, --at and --force do not)"
    return None


def _steps(action: Action, going: Sequence[Target], servers: Sequence[Target]) -> list[Step]:
    nodes = tuple(one.name for one in going if one.people)
    first, last = tuple(one.name for one in going), tuple(one.name for one in servers)
    if action == "shutdown":
        steps = [
            Step(first, "switch", "is switched off"),
            Step(last, "switch", "is switched off when nobody mounts it"),
        ]
    elif not last:
        steps = [Step(first, "switch", "reboots")]
    else:
        steps = [
            Step(nodes, "release", "ends what people run, and unmounts the homes"),
            Step(last, "switch", "reboots when nobody mounts it, and is back"),
            Step(first, "switch", "reboots, and mounts the homes again"),
        ]
    return [step for step in steps if step.hosts]


def parse_time(text: str, now: datetime) -> datetime:
    """Given `HH:MM` or `YYYY-MM-DD HH:MM` and the time, return when that is: within a day. Raises ConfigError."""
    try:
        if re.fullmatch(r"\d{1,2}:\d{2}", text):
            wanted = datetime.combine(now.date(), datetime.strptime(text, "%H:%M").time())
            wanted += timedelta(days=1) if wanted <= now else timedelta()
        else:
            wanted = datetime.strptime(text.replace("T", " "), "%Y-%m-%d %H:%M")
    except ValueError:
        raise ConfigError(
            f"--at {text!r}: is not a time of day", hint="write HH:MM (00:00 to 23:59), or 'YYYY-MM-DD HH:MM'"
        ) from None
    if wanted <= now:
        raise ConfigError(
            f"--at {text}: is in the past: this machine's clock says {now:%Y-%m-%d %H:%M}", hint="name a later time"
        )
    if wanted > now + timedelta(days=1):
        raise ConfigError(
            f"--at {text}: is more than a day away, and this command waits until then",
            hint="gpuadmin announce tells people of it now; run this on the day",
        )
    return wanted
