"""The phases of a reset that concern data: backup, wipe, prune."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gpuadmin.actions.semester.hosts import play
from gpuadmin.actions.semester.reset import Outcome, Reset, proven
from gpuadmin.answers import Answers
from gpuadmin.errors import ExitCode, RefusedError
from gpuadmin.plan import Plan
from gpuadmin.semester import plans
from gpuadmin.semester.refusals import refuse_running, refuse_stale, refuse_unbacked, refuse_unknown


def backup_plan(reset: Reset) -> Plan:
    if not reset.check and reset.facts.homes_unknown is not None:
        reset.look()  # it may answer by now, and whose home is verified depends on it
        refuse_unknown("backup", reset.facts)
    return plans.backup(reset.decision, reset.named("storage"), reset.named("backup"))


def backup(reset: Reset) -> Outcome:
    """The backup must be whole; the second copy may pend if the admin lets it."""
    wanted = {"name": reset.decision.backup, "users": [name for _, name in reset.decision.going]}
    run = reset.play("backup", hosts=reset.named("storage"), gpuadmin_backup=wanted)
    made = next((host.reports["backup"] for host in run.hosts.values() if "backup" in host.reports), None)
    if run.bad:
        return Outcome({}, run.bad, ExitCode.HOST_FAILED)
    result = {"backup": reset.decision.backup, "homes": {} if made is None else _sums(made)}
    if not reset.named("backup"):
        return Outcome(result)
    copied = reset.play("copy", hosts=reset.named("storage"), gpuadmin_backup={"name": reset.decision.backup})
    return proven(reset, copied, result)


def _sums(made: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("uid", "files", "bytes", "checksum", "verified")
    return {name: {key: home[key] for key in keys} for name, home in made["homes"].items()}


def _blocked(reset: Reset) -> list[str]:
    """Nodes that nobody could look at now, or whose sessions are not known to have ended."""
    pending = reset.state.pending.get("end-sessions", {})
    return [host for host in reset.named("gpu") if host in pending or reset.facts.hosts.get(host) is None]


def wipe_plan(reset: Reset) -> Plan:
    if not reset.check:
        reset.look()
        refuse_unknown("wipe", reset.facts)
        refuse_running(reset.decision, reset.facts)
        refuse_unbacked(reset.decision, reset.facts)
    blocked = _blocked(reset)
    if blocked and not reset.request.leave_pending and not reset.check:
        raise RefusedError(
            f"wipe: {', '.join(blocked)}: not reachable, or sessions there are not known to have ended",
            hint="--resume when they are back; --leave-pending wipes the rest, what these hold stays pending",
        )
    return plans.wipe(reset.decision, reset.named("storage"), reset.facts, blocked)


def wipe(reset: Reset) -> Outcome:
    refuse_stale(reset.decision, reset.facts, datetime.now(UTC))
    blocked = _blocked(reset)
    hosts = [host for host in reset.named("storage", "gpu") if host not in blocked]
    scratch = {host: list(items) for host, items in reset.decision.scratch.items() if host in hosts}
    # a home that is out of sight but not deleted yet is named again, too
    homes = [
        {"name": name, "uid": one.uid, "user": one.name}
        for one in reset.decision.leaving
        for name in sorted({*one.directories, *_waiting(reset, one.name)})
    ]
    names = {home["name"] for home in homes}
    run = reset.play(
        "wipe", hosts=hosts, gpuadmin_term=reset.term(wipe=homes, scratch=scratch, backup=reset.decision.backup)
    )  # fmt: skip
    kept: dict[str, str] = {}
    totals: dict[str, dict[str, int]] = {}
    for host, said in run.hosts.items():
        for name, home in said.reports.get("homes", {}).items():
            if home["problem"]:
                kept[name] = home["problem"]
        for name, rest in (said.reports.get("deleted") or {}).items():
            if rest["kept"] and name in names:
                what = "entry" if rest["kept"] == 1 else "entries"
                kept[name] = f"{rest['kept']} {what} not as in the backup, not deleted: {', '.join(rest['words'])}"
        done = [one for path, one in (said.reports.get("deleted") or {}).items() if path.startswith("/")]
        if done:
            totals[host] = {"entries": len(done), "bytes": sum(int(one["bytes"]) for one in done)}
    result = {"kept": kept, "scratch": totals}
    outcome = proven(reset, run, result)
    pending = {**dict(outcome.pending), **dict.fromkeys(blocked, "was not reachable, or its sessions had not ended")}
    return Outcome(result, pending, outcome.code)


def _waiting(reset: Reset, name: str) -> list[str]:
    """What of somebody's is out of sight under this backup. A user's name has no dot; what is beside a home has one."""
    found = [one.partition("/")[2] for one in reset.facts.waiting() if one.startswith(f"{reset.decision.backup}/")]
    return [one for one in found if one == name or one.startswith(f"{name}.")]


def _expired(reset: Reset) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Which backups may go, on each host that has any, and the hosts that did not say.

    It is asked in check mode, and only those are named afterwards.
    """
    hosts = reset.named("storage", "backup")
    run = play(reset.session, "prune", hosts, check=True, gpuadmin_backup={"only": _all(reset)})
    answers = Answers.of(run.hosts, hosts, "pruned")
    return {host: list(names) for host, names in answers.known.items()}, dict(answers.unknown)


def _all(reset: Reset) -> dict[str, list[str]]:
    return {
        host: [one["name"] for one in (reset.facts.hosts.get(host) or {}).get("backups", [])]
        for host in reset.named("storage", "backup")
    }


def prune_plan(reset: Reset) -> Plan:
    only, unknown = _expired(reset)
    return plans.prune({host: names for host, names in only.items() if names}, unknown)


def prune(reset: Reset) -> Outcome:
    only, unknown = _expired(reset)
    hosts = [host for host, names in only.items() if names]
    run = reset.play("prune", hosts=hosts, gpuadmin_backup={"only": only})
    result = {"deleted": {host: result.reports.get("pruned", []) for host, result in run.hosts.items()}}
    outcome = proven(reset, run, result)
    return replace(outcome, pending={**unknown, **outcome.pending})
