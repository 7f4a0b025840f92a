"""Each phase's plan, in names: what is shown, asked for, and recorded before it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuadmin.common.text import counted, size_words
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.semester.facts import Facts
from gpuadmin.semester.planner import Decision


def of_decision(decision: Decision, waiting: Sequence[str] = ()) -> PlanBuilder:
    """Who leaves, who stays, what is kept: the head of every plan of a reset. ``waiting``: what wipes left."""
    builder = PlanBuilder(f"End of {decision.term}: leaving: {len(decision.leaving)}, staying: {len(decision.staying)}")
    for one in decision.leaving:
        home = {True: "", False: ", no home to wipe", None: ", whether there is a home is not known"}[one.home]
        builder.add("leaves", f"{one.name} (uid {one.uid}){home}")
    for name, reason in decision.staying.items():
        builder.add("stays", f"{name}: {reason}")
    for name, reason in decision.kept.items():
        if name not in decision.staying:
            builder.add("kept", f"home {name}: {reason}")
    for host, reason in decision.silent.items():
        builder.warn(f"{host} could not be looked at ({reason}); what it holds stays until it can be")
    for name in waiting:
        if name.partition("/")[0] != decision.backup:
            builder.warn(f"{name}: an earlier wipe left something that its backup lacks (gpuadmin clear-leftovers)")
    return builder


def lock(
    decision: Decision, hosts: Sequence[str], *, registry: bool, queue: bool, untold: Sequence[str] | None
) -> Plan:
    """`untold`: who was sent no reminder; None where another machine sends them, and knows."""
    builder = PlanBuilder(f"Lock out those who leave at the end of {decision.term}")
    if registry and decision.names:
        builder.add("site", f"users.yml: lock {', '.join(decision.names)}")
    elif not registry:
        builder.warn("accounts come from a directory: take these people out of its group there; hosts are only checked")
    if untold is None and decision.names:
        builder.warn("whether reminders were sent is not known here: `gpuadmin runs` has the monitor host's `notify`")
    elif untold:
        builder.warn(f"gpuadmin sent no reminder of the deadline to {', '.join(untold)}")
    ends = "no login, linger, cron or at jobs, no grants of GPUs" + (
        ", no Slurm jobs (running ones end now)" if queue else ""
    )
    builder.add_all(hosts, [f"{one.name}: {ends}" for one in decision.leaving])
    return builder.build()


def end_sessions(decision: Decision, hosts: Sequence[str], facts: Facts, grace: int) -> Plan:
    builder = PlanBuilder(f"End what those who leave still run (after {counted(grace, 'second')})")
    running = facts.processes()
    for host in hosts:
        found = {name: count for name, count in running.get(host, {}).items() if name in decision.names}
        for name, count in sorted(found.items()):
            builder.add(host, f"{name}: end {counted(count, 'process', 'processes')}")
        if facts.hosts.get(host) is None:
            builder.add(host, "what runs there is not known; end it")
        elif not found:
            builder.add(host, "nothing runs; make sure of it")
    return builder.build()


def backup(decision: Decision, storage: Sequence[str], copies: Sequence[str]) -> Plan:
    builder = PlanBuilder(f"Back up all homes as {decision.backup}")
    builder.add_all(storage, ["read-only snapshot of all homes, a manifest of each"])
    going = ", ".join(name for _, name in decision.going)
    for host in storage:
        unknown = not going and host in decision.silent
        builder.add(
            host,
            "which homes go is not known; read and verify them" if unknown else f"read and verify {going or 'nobody'}",
        )
    builder.add_all(copies, ["receive the second copy and verify it"])
    if not copies:
        builder.warn(
            "no host is in the group backup: the only backup is on the same disks as the homes. "
            "A failed disk takes both"
        )
    return builder.build()


def wipe(decision: Decision, storage: Sequence[str], facts: Facts, blocked: Sequence[str] = ()) -> Plan:
    builder = PlanBuilder(f"Wipe what those who left at the end of {decision.term} leave", destroys=True)
    made: Mapping[str, Any] = next((one["homes"] for one in facts.backups() if one["name"] == decision.backup), {})
    for host in storage:
        for one, name in decision.going:
            saved = made.get(name)
            size = "" if saved is None else f"{counted(saved['files'], 'file')}, {size_words(saved['bytes'])}"
            where = size or "to be backed up before"
            builder.add(host, f"home {name} (uid {one.uid}); {where}, in {decision.backup}")
    for host, items in decision.scratch.items():
        if host in blocked:
            continue
        for item in items:
            builder.add(host, f"{item['directory']}/{item['name']} ({item['kind']} of {item['user']}; NOT backed up)")
    for host in blocked:
        builder.warn(f"{host}: sessions there are not known to have ended; what it holds stays pending")
    return builder.build()


def prune(gone: dict[str, list[str]], unknown: Mapping[str, str]) -> Plan:
    title = "Delete old backups" if gone or unknown else "Delete old backups: none is old enough"
    builder = PlanBuilder(title, destroys=True)
    for host, names in gone.items():
        builder.add_all([host], [f"delete the backup {name}" for name in names])
    for host, reason in unknown.items():
        builder.warn(f"{host}: which of its backups are old is not known ({reason}); they stay")
    return builder.build()


def reopen(
    decision: Decision, names: Sequence[str], hosts: Sequence[str], following: str | None, dashboard: str = ""
) -> Plan:
    """``dashboard``: the host that has it."""
    builder = PlanBuilder(f"Close {decision.term}")
    if names:
        builder.add("site", f"users.yml: retire {', '.join(names)}; their uids stay taken")
        builder.add_all(hosts, [f"remove the account {name}" for name in names])
    builder.add("site", "write the report")
    if following is not None:
        builder.add("site", f"gpuadmin.yml: the term is {following}")
        if dashboard:
            builder.warn(f"the dashboard has {following} after gpuadmin provision --limit {dashboard}")
    else:
        builder.warn("term.next is not set in gpuadmin.yml: set `term` for the next semester yourself")
    return builder.build()
