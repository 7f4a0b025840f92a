"""Show the whole cluster on one screen: hosts, who is on them, disks, the newest backup, and what is left to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from typing import Any

from gpuadmin.actions.shared.queue import lacks_gpus
from gpuadmin.actions.shared.screen import show_status
from gpuadmin.ansible.playbooks import read_groups
from gpuadmin.answers import Answers
from gpuadmin.common.mail.ledger import State
from gpuadmin.common.text import as_fields
from gpuadmin.config.schema import Settings, Term
from gpuadmin.errors import ConfigError
from gpuadmin.mail.ledger import Ledger
from gpuadmin.options import Options
from gpuadmin.outcome import finish, report
from gpuadmin.pending import pending
from gpuadmin.plan import PlanBuilder
from gpuadmin.records import goes_on, history
from gpuadmin.results import HostResult, RunResult
from gpuadmin.semester.journal import Journal
from gpuadmin.session import Session, opened
from gpuadmin.site_history import bring_up_to_date


def status(options: Options) -> int:
    """Look at every host once, and at the site's records, and show what they say. Returns the exit code."""
    with opened("status", options, changes=False) as session:
        asked = session.named(*read_groups("status"))
        bring_up_to_date(session.site)
        records = _records(session, asked)  # as they are before this run has one
        if not asked:
            nobody = _result(session, RunResult({}), asked) | records | {"looked": None}
            if not options.json:
                show_status(session.site.settings.name, nobody)
            return finish(session, 0, nobody)
        builder = PlanBuilder("Look at the cluster")
        builder.add_all(asked, ["look at people, GPUs, disks, backups and images"])
        session.planned(builder.build())
        looked = datetime.now(UTC).isoformat(timespec="seconds")  # before any host was asked: what is up was up then
        run = session.run("status", None, {}, check=True)
        result = _result(session, run, asked) | records | {"looked": looked}
        # a screen that could not be filled everywhere is still an answer; the exit code says the rest
        return report(session, run, result, show=lambda: show_status(session.site.settings.name, result))


def _result(session: Session, run: RunResult, asked: list[str]) -> dict[str, Any]:
    """What hosts say. What is not known is None, and its reason is in `unknown` of the host or of the backup."""
    answers = Answers.of(run.hosts, asked, "status")
    closed = {node: why for one in answers.known.values() for node, why in (one.get("queue") or {}).items()}
    gpuless = lacks_gpus(
        session, [one for found in answers.known.values() for one in found.get("queue_without_gpus") or ()]
    )
    hosts: dict[str, dict[str, Any]] = {}
    for host in session.hosts:
        entry: dict[str, Any] = {"state": "up", "reason": None, "groups": list(host.groups)}
        answer = answers.known.get(host.name)
        if answer is None:
            found = run.hosts.get(host.name)
            entry["state"] = "not asked" if host.name not in asked else _state(found)
            entry["reason"] = answers.unknown.get(host.name, "in no group of the cluster's hosts")
        if "gpu" in host.groups:
            entry["gpus_expected"] = host.gpus
        if host.name in closed:
            entry["closed"] = closed[host.name]
        if host.name in gpuless:
            entry["gpus_in_queue"] = 0
        hosts[host.name] = _without_unmounted(entry | _parts(answer, "gpu" in host.groups), session.site.settings)
    return {"hosts": hosts, "totals": _totals(hosts, asked), "backup": _backup(hosts)}


def _state(found: HostResult | None) -> str:
    """The state of a host without an answer: unreachable, failed, or unknown where its turn did not come."""
    if found is None or found.status == "not run":
        return "unknown"
    return "unreachable" if found.silent else "failed"


def _parts(answer: Mapping[str, Any] | None, node: bool) -> dict[str, Any]:
    """The parts of one host's answer; of a node also those that it could not say, as None."""
    answer = answer or {}
    of_node = ("people", "gpu_people", "gpus", "gpu_gate", "image") if node else ()
    keys = ("disks", "backup", "timers", "updates", *of_node)
    return {key: answer.get(key) for key in keys} | {"unknown": dict(answer.get("unknown") or {})}


def _without_unmounted(entry: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Where the disk of the homes is not mounted, what is below its place says nothing of homes and backups."""
    disk = (entry["disks"] or {}).get("homes")
    wanted = settings.homes.mountpoint
    # guard: a disk that is not mounted is not taken for one without backups -> True
    if disk is None or (f"{disk['mount']}/".startswith(f"{wanted}/") if wanted else disk["mount"] != "/"):
        return entry
    why = f"the disk of the homes is not mounted: {disk['path']} is on {disk['mount']}"
    unknown = {**entry["unknown"], "homes": why} | ({"backup": why} if entry["backup"] is None else {})
    return entry | {"disks": {k: v for k, v in entry["disks"].items() if k != "homes"}, "unknown": unknown}


def _totals(hosts: Mapping[str, Mapping[str, Any]], asked: list[str]) -> dict[str, Any]:
    """How many hosts are up, and how many GPUs those have that say; `gpus_unknown`: nodes whose GPUs nobody knows."""
    nodes = {name: host for name, host in hosts.items() if "gpus" in host}
    return {
        "hosts": len(asked),
        "up": sum(1 for name in asked if hosts[name]["state"] == "up"),
        "gpus": sum(len(host["gpus"]) for host in nodes.values() if host["gpus"] is not None),
        "gpus_expected": _sum([host["gpus_expected"] for host in nodes.values()]),
        "gpus_unknown": [name for name, host in nodes.items() if host["gpus"] is None],
        "people": sorted({name for host in nodes.values() for name in host["people"] or ()}),
    }


def _sum(numbers: list[int | None]) -> int | None:
    """None if the inventory does not say it of every node."""
    known = [number for number in numbers if number is not None]
    return sum(known) if known and len(known) == len(numbers) else None


def _backup(hosts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The newest backup of the storage hosts, and by backup host the newest second copy there."""
    storage = [name for name, host in hosts.items() if "storage" in host["groups"]]
    second = [name for name, host in hosts.items() if "backup" in host["groups"] and name not in storage]

    def reason(name: str) -> str | None:
        host = hosts[name]
        why: str | None = host["reason"] if host["state"] != "up" else host["unknown"].get("backup")
        return why

    known = [{**hosts[name]["backup"], "host": name} for name in storage if hosts[name]["backup"]]
    newest = max(known, key=lambda one: str(one["created"]), default=None)
    unknown = {name: why for name in (*storage, *second) if (why := reason(name)) is not None}
    return {
        "newest": newest and newest | {"age_hours": _hours(str(newest["created"]))},
        "second": {name: hosts[name]["backup"] for name in second if name not in unknown},
        "unknown": unknown,
        "asked": storage,
    }


def _hours(created: str) -> float | None:
    try:
        then = datetime.strptime(created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return round((datetime.now(UTC) - then).total_seconds() / 3600, 1)


def _records(session: Session, asked: list[str]) -> dict[str, Any]:
    """What the site's own records say: the term, the last look for drift, and what is left of earlier runs."""
    site = session.site
    records = list(history(site.runs))
    unknown: list[str] = []
    resets = []
    for path in sorted(site.runs.glob("term-*")):
        try:
            state = Journal(site.runs, path.name.removeprefix("term-")).state()
        except ConfigError as error:
            unknown.append(error.message)  # guard: a record that is damaged is said to be unknown
            continue
        if state.open and state.decision is not None:
            hosts = {phase: dict(found) for phase, found in state.pending.items() if found}
            resets.append({"term": state.decision.term, "next": state.next_phase(), "pending": hosts})
    mails: dict[str, list[str]] = {"uncertain": [], "refused": [], "owed": []}
    try:
        for entry in Ledger.of(site.directory):
            if any(site.registry.find(name) is None for name in entry.names):
                continue  # people who have left are owed no mail
            kind = {State.REFUSED: "refused", State.OWED: "owed", State.FAILED: "owed"}.get(entry.state)
            kind = "uncertain" if entry.uncertain else kind
            if kind is not None:
                mails[kind] += entry.names
    except ConfigError as error:
        unknown.append(error.message)
    left = [
        replace(run, status="going on") if run.status == "unfinished" and goes_on(site.runs / run.run) else run
        for run in pending(records)
    ]
    return {
        "term": _term(site.settings),
        "drift": _drift(records, asked),
        "pending": {
            "runs": [one.document() for one in left],
            "resets": resets,
            "mails": {kind: sorted(set(names)) for kind, names in mails.items()},
            "unknown": unknown,
        },
    }


def _term(settings: Settings) -> dict[str, Any] | None:
    term: Term | None = settings.term
    if term is None:
        return None
    return {"name": term.name, "deadline": str(term.deadline), "days_left": (term.deadline - date.today()).days}


def _drift(records: list[tuple[dict[str, Any], dict[str, Any] | None]], hosts: Sequence[str]) -> dict[str, Any] | None:
    """When hosts were compared with the site for the last time, which differed, which not; None: never that we know.

    `unknown`: those that were away or failed then, or that --limit left out.
    """
    for run, result in records:
        found = as_fields((result or {}).get("result"))
        if run["verb"] == "drift" and isinstance(found.get("differing"), list):
            differing = list(map(str, found["differing"]))
            answers = (result or {}).get("hosts") or {}
            silent = as_fields(as_fields(found.get("privileges")).get("silent"))
            same = [
                name
                for name, host in answers.items()
                if name not in (*differing, *silent) and host["status"] in ("ok", "changed", "skipped")
            ]
            # guard: a host that was not compared is not said to be as it should -> []
            unknown = [name for name in hosts if name not in (*differing, *same)]
            return {
                "looked": run["started"], "differing": differing, "same": same, "unknown": unknown, "run": run["id"],
            }  # fmt: skip
    return None
