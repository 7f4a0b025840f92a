"""The phases of a reset that concern data: backup, wipe, prune."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from gpuadmin.actions.semester.phase import Outcome, Phase
from gpuadmin.answers import Answers
from gpuadmin.errors import ExitCode, RefusedError
from gpuadmin.plan import Plan
from gpuadmin.results import RunResult
from gpuadmin.semester import plans
from gpuadmin.semester.machine import BACKUP, END_SESSIONS, PRUNE, WIPE
from gpuadmin.semester.refusals import refuse_running, refuse_stale, refuse_unbacked, refuse_unknown


class Backup(Phase):
    """The backup must be complete; the second copy may be pending if the admin allows it."""

    name = BACKUP
    does = (
        "a snapshot of all homes; those that go are read twice and compared; "
        "then the copy to the host of group `backup`"
    )
    proof = "manifests, checksums, there too"
    plays = (BACKUP, "copy")

    def require(self) -> None:
        if self.reset.facts.homes_unknown is not None:
            self.reset.look()  # it may answer now, and whose homes are verified depends on it
            # guard: a backup is not made where homes are not known
            refuse_unknown("backup", self.reset.facts)

    def plan(self) -> Plan:
        return plans.backup(self.reset.decision, self.hosts(check=False), self.reset.named("backup"))

    def hosts(self, *, check: bool) -> list[str]:
        return self.reset.named("storage")

    def variables(self, *, check: bool) -> Mapping[str, Any]:
        decision = self.reset.decision
        return {"gpuadmin_backup": {"name": decision.backup, "users": [name for _, name in decision.going]}}

    def run(self, *, check: bool) -> Outcome:
        made = super().run(check=check)
        if (
            # guard: a check copies no backup
            check
            # guard: a backup that failed is not copied
            or made.code
            or not self.reset.named("backup")
        ):  # what it copies is not there before
            return made
        wanted = {"name": self.reset.decision.backup}
        copied = self.reset.play(self.plays[1], hosts=self.hosts(check=False), check=False, gpuadmin_backup=wanted)
        # guard: a second copy that failed is pending -> made
        return self.proven(copied, made.result)

    def result(self, run: RunResult) -> Outcome:
        # guard: a backup that failed ends the reset
        if run.bad:
            return Outcome({}, run.bad, ExitCode.HOST_FAILED)
        made = next((host.reports["backup"] for host in run.hosts.values() if "backup" in host.reports), None)
        return Outcome({"backup": self.reset.decision.backup, "homes": {} if made is None else _sums(made)})


def _sums(made: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("uid", "files", "bytes", "checksum", "verified")
    return {name: {key: home[key] for key in keys} for name, home in made["homes"].items()}


class Wipe(Phase):
    """Homes on the storage host, Docker data and scratch on the nodes whose sessions are known to have ended."""

    name = WIPE
    does = "homes, Docker data, and what is theirs in `reset.scratch`. You type the term's name"
    proof = "the homes are gone; what the backup does not have stays"
    plays = (WIPE,)

    @property
    def blocked(self) -> list[str]:
        """Nodes that nobody could look at now, or whose sessions are not known to have ended."""
        reset, pending = self.reset, self.reset.state.pending.get(END_SESSIONS, {})
        return [
            host
            for host in reset.named("gpu")
            if host in pending  # guard: sessions that are not known to have ended block the wipe of their node
            or reset.facts.hosts.get(host) is None
        ]

    def require(self) -> None:
        reset = self.reset
        # guard: before a wipe the hosts are looked at again
        reset.look()
        # guard: a wipe is refused where homes are not known
        refuse_unknown("wipe", reset.facts)
        # guard: before a wipe it is asked who runs something
        refuse_running(reset.decision, reset.facts)
        # guard: before a wipe the backup is looked for
        refuse_unbacked(reset.decision, reset.facts)
        blocked = self.blocked
        # guard: a node that is away blocks the wipe
        if blocked and not reset.request.leave_pending:
            raise RefusedError(
                f"wipe: {', '.join(blocked)}: not reachable, or sessions there are not known to have ended",
                hint="--resume when they are back; --leave-pending wipes the rest, what these hold stays pending",
            )

    def plan(self) -> Plan:
        return plans.wipe(self.reset.decision, self.reset.named("storage"), self.reset.facts, self.blocked)

    def _homes(self, *, check: bool) -> list[dict[str, Any]]:
        """What goes in the home root; in a check only what hosts can be asked for: its backup is there."""
        decision, backups = self.reset.decision, self.reset.facts.backups()
        if check and not any(one["name"] == decision.backup for one in backups):
            return []
        # a home that is out of sight but not deleted yet is named again, too
        return [
            {"name": name, "uid": one.uid, "user": one.name}
            for one in decision.leaving
            for name in sorted({*one.directories, *self._waiting(one.name)})
        ]

    def _waiting(self, name: str) -> list[str]:
        """What of somebody's is out of sight under this backup. A user's name has no dot; what is beside it has one."""
        waiting, head = self.reset.facts.waiting(), f"{self.reset.decision.backup}/"
        found = [one.partition("/")[2] for one in waiting if one.startswith(head)]
        # guard: what is out of sight and not deleted yet is named again -> []
        return [
            one
            for one in found
            # guard: what is out of sight is somebody's by the whole name -> one.startswith(name)
            if one == name or one.startswith(f"{name}.")
        ]

    def hosts(self, *, check: bool) -> list[str]:
        blocked = self.blocked
        groups = ("gpu",) if check and not self._homes(check=True) else ("gpu", "storage")
        return [
            host
            for host in self.reset.named(*groups)
            # guard: a node that blocks the wipe loses nothing
            if host not in blocked
        ]

    def variables(self, *, check: bool) -> Mapping[str, Any]:
        decision, hosts = self.reset.decision, self.hosts(check=check)
        scratch = {host: list(items) for host, items in decision.scratch.items() if host in hosts}
        homes = self._homes(check=check)
        return {"gpuadmin_term": self.reset.term(wipe=homes, scratch=scratch, backup=decision.backup)}

    def prepare(self) -> None:
        # guard: a plan that waited too long for its yes wipes nothing
        refuse_stale(self.reset.decision, self.reset.facts, datetime.now(UTC))

    def result(self, run: RunResult) -> Outcome:
        going = {home["name"] for home in self._homes(check=False)}
        kept: dict[str, str] = {}
        totals: dict[str, dict[str, int]] = {}
        for host, answer in run.hosts.items():
            for name, home in answer.reports.get("homes", {}).items():
                # guard: a home that a host has not wiped is kept
                if home["problem"]:
                    kept[name] = home["problem"]
            for name, rest in (answer.reports.get("deleted") or {}).items():
                if rest["kept"] and name in going:
                    what = "entry" if rest["kept"] == 1 else "entries"
                    kept[name] = f"{rest['kept']} {what} not as in the backup, not deleted: {', '.join(rest['words'])}"
            done = [one for path, one in (answer.reports.get("deleted") or {}).items() if path.startswith("/")]
            if done:
                totals[host] = {"entries": len(done), "bytes": sum(int(one["bytes"]) for one in done)}
        outcome = self.proven(run, {"kept": kept, "scratch": totals})
        blocked = dict.fromkeys(self.blocked, "was not reachable, or its sessions had not ended")
        return replace(outcome, pending={**outcome.pending, **blocked})


class Prune(Phase):
    """Hosts say in check mode which backups are old enough; only those are named to them afterwards."""

    name = PRUNE
    does = "backups older than `backups.days`"
    proof = "never the newest verified one of anybody"
    plays = (PRUNE,)

    @property
    def _expired(self) -> Answers:
        """Which backups may go, on each host that answered."""
        return Answers.of(self.predicted.hosts, self.hosts(check=True), "pruned")

    def plan(self) -> Plan:
        expired = self._expired
        return plans.prune({host: list(old) for host, old in expired.known.items() if old}, expired.unknown)

    def hosts(self, *, check: bool) -> list[str]:
        if check:
            return self.reset.named("storage", "backup")
        return [host for host, old in self._expired.known.items() if old]

    def variables(self, *, check: bool) -> Mapping[str, Any]:
        only = (
            self._all()
            # guard: only backups that were shown are named to be deleted -> True
            if check
            else {host: list(old) for host, old in self._expired.known.items()}
        )
        return {"gpuadmin_backup": {"only": only}}

    def _all(self) -> dict[str, list[str]]:
        return {
            host: [one["name"] for one in (self.reset.facts.hosts.get(host) or {}).get("backups", [])]
            for host in self.hosts(check=True)
        }

    def result(self, run: RunResult) -> Outcome:
        outcome = self.proven(
            run, {"deleted": {host: answer.reports.get("pruned", []) for host, answer in run.hosts.items()}}
        )
        # guard: a host that did not say which backups are old is pending -> outcome
        return replace(outcome, pending={**self._expired.unknown, **outcome.pending})
