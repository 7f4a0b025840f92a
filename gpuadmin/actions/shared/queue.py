"""What the verbs about the queue share: which host has it, what it says, and which nodes take its jobs."""

from __future__ import annotations

import hashlib
import re
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuadmin.actions.shared import directly
from gpuadmin.answers import Answers
from gpuadmin.common.text import clock, counted, listed, the_page
from gpuadmin.common.waiting import FAILED, IDLE_OFF, PASSING, SICK, SILENT, drained, misfit, settled
from gpuadmin.config.queue import takes_jobs, there
from gpuadmin.console import echo
from gpuadmin.errors import ConfigError
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session
from gpuadmin.who import who

#: What to do about a node whose slurmd does not answer; `gpuadmin resume` is not a way out of it.
SILENT_NODE = (
    "slurmd there does not answer the queue's controller: systemctl status slurmd on the node, and the network between "
    "them; once it answers the node takes jobs"
)
#: What to do about one that Slurm has drained itself: if it were resumed as it is, the next job would drain it again.
FAILED_NODE = "journalctl -u slurmd on the node says what failed there; then gpuadmin resume NODE"
#: What to do about one that has less than Slurm was told: it takes no jobs, resumed or not, until Slurm is told anew.
MISFIT_NODE = (
    "it has less than the queue was told: mend it, or gpuadmin provision, which tells the queue what it has now; then "
    "gpuadmin resume NODE"
)
#: What to do about one that is closed by what passes: it looks again each minute.
PASSING_NODE = "it takes jobs again by itself once that is over: gpuadmin list-gpus, gpuadmin run NODE -- df -h"
#: What to do about one on which something is broken.
SICK_NODE = (
    "gpuadmin list-gpus says what is wrong; mend it, or reboot, or reset the GPU and gpuadmin burn-in NODE; then "
    "gpuadmin resume NODE"
)
#: What to do about one of which Slurm was told when its GPUs were not there yet.
GPULESS_NODE = (
    "gpuadmin list-gpus shows what it has; once the driver answers, gpuadmin provision tells the queue. One that has "
    "none has gpus: 0 in the inventory"
)
RESUME = "gpuadmin resume NODE"


def way_back(reason: str, state: str = "") -> str:
    """What to do about a node that takes no jobs, for this reason of Slurm's. `state`: Slurm's, where it is known."""
    if reason == SILENT:
        return SILENT_NODE
    if misfit(reason, state):
        return MISFIT_NODE
    if reason.startswith(PASSING):
        return PASSING_NODE
    if reason.startswith(SICK):
        return SICK_NODE
    return FAILED_NODE if reason in FAILED else RESUME


def controller(session: Session) -> str:
    """The host that has the queue. Raises ConfigError where there is none."""
    if not there(session.site.settings, session.site.inventory.hosts):
        lacks = (
            "gpuadmin.yml has no section slurm"
            if session.site.settings.slurm is None
            else "no host is in the group slurm"
        )
        raise ConfigError(f"this site has no queue: {lacks}", hint=f"{the_page('slurm')} says how one is set up")
    return session.site.inventory.group("slurm")[0].name


def ask(session: Session, host: str) -> tuple[Answers, RunResult]:
    """Ask Slurm's controller for jobs and nodes."""
    run = session.run("queue", [host], {}, check=True, quiet=True)
    return Answers.of(run.hosts, [host], "queue"), run


def look(session: Session, host: str) -> tuple[Answers, RunResult]:
    """The same for people to see, without a playbook where that host can answer so."""
    given = session.options
    # Ansible hands on passwords, and shows its output
    slowly = given.ask_pass or given.ask_become_pass or given.verbose
    run = None if slowly else directly.answer(session.site, host, "queue", "queue-shown")
    return ask(session, host) if run is None else (Answers.of(run.hosts, [host], "queue"), run)


def lacks_gpus(session: Session, nodes: Iterable[str]) -> list[str]:
    """Of the nodes that have no GPUs in the queue, those of which the inventory does not say so."""
    none = set(nodes)
    return [one.name for one in session.site.inventory.hosts if one.name in none and one.gpus != 0]


def gpuless_words(session: Session, nodes: Iterable[Mapping[str, Any]]) -> list[str]:
    """A line about the nodes without GPUs in the queue; none where there are none. `nodes`: as the queue's answer has
    them."""
    names = lacks_gpus(session, [one["name"] for one in nodes if one.get("gpus") == 0])
    return [f"{listed(names)}: 0 GPUs in the queue. {GPULESS_NODE}"] if names else []


def change(session: Session, names: Sequence[str], wanted: Mapping[str, Any], *, keep: bool = False) -> int:
    """Have nodes take no further jobs, or take jobs again (`wanted`: `reason`, `resume`). `keep`: one that
    takes none keeps the reason that it has. Returns the exit code."""
    host, inventory = controller(session), session.site.inventory
    nodes = list(dict.fromkeys(one.name for name in names for one in inventory.limited(name, "HOST")))
    for one in inventory.hosts:
        if one.name in nodes and not takes_jobs(session.site.settings, inventory.hosts, one):
            raise ConfigError(
                f"{one.name} takes no jobs of the queue", hint="it is not in gpu, or has slurm_node: false"
            )
    answers, run = ask(session, host)
    if host not in answers.known:
        return report(session, run, {}, unknown=[answers])
    queue = answers.known[host]
    builder = PlanBuilder("Let nodes take jobs again" if wanted["resume"] else "Let nodes take no further jobs")
    so = {one["name"]: one for one in queue["nodes"] if one["name"] in nodes and settled(one, **wanted, keep=keep)}
    for one in so.values():
        session.console.print(_is_so_already(one))
    nodes = [node for node in nodes if node not in so]
    sick = _look_again(session, nodes) if wanted["resume"] else {}
    for node, why in sick.items():
        builder.warn(f"{node} takes no jobs yet: {why}: {SICK_NODE.replace('NODE', node)}")
    # guard: a node that is still sick is not resumed -> nodes
    nodes = [node for node in nodes if node not in sick]
    if not nodes and not sick:
        return nothing(session, [answers])
    for node in nodes:
        builder.add(node, _words(node, queue, wanted))
    session.plan(builder.build())
    if sick and not nodes:
        raise session.refuse("no node can take jobs again", builder.warnings)
    session.confirm()  # guard: a node takes no jobs, or takes them again, once that is confirmed
    given = {"gpuadmin_drain": {"nodes": nodes, **wanted}}
    run = session.run("drain", [host], given, check=session.check)
    after = Answers.of(run.hosts, [host], "queue")
    return report(session, run, {"nodes": after.known[host]["nodes"] if host in after.known else None})


def _look_again(session: Session, nodes: Sequence[str]) -> dict[str, str]:
    """The nodes with which something is still wrong, or that do not say, and what."""
    run = session.run("list-gpus", nodes, {}, check=True, quiet=True)
    answers = Answers.of(run.hosts, nodes, "gpus")
    found = {node: "; ".join(answers.known[node]["closed"]) for node in answers.known}
    return {node: why for node, why in {**found, **answers.unknown}.items() if why}


def _is_so_already(node: Mapping[str, Any]) -> str:
    name, state, reason = node["name"], node["state"], node["reason"]
    if reason == SILENT:
        return f"{name} is not drained ({state}). {SILENT_NODE}"
    if misfit(reason, state):
        return f"{name} takes no jobs ({state}: {reason}): {MISFIT_NODE.replace('NODE', name)}"
    return f"{name} already takes no jobs ({state}: {reason})" if reason else f"{name} is not drained ({state})"


def _words(node: str, queue: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What happens to a node, and what is there."""
    unknown = {"state": "not known to Slurm", "reason": ""}
    seen = next((one for one in queue["nodes"] if one["name"] == node), unknown)
    why = f": {seen['reason']}" if seen["reason"] else ""
    if wanted["resume"]:
        return f"takes jobs again ({seen['state']} now{why})"
    jobs = _on(queue, node)
    until = max((one["end"] for one in jobs if one["end"]), default=None)
    runs = f"; {counted(len(jobs), 'job')} there, the last until {clock(until)}" if until else ""
    return f"takes no further job ({seen['state']} now{why}){runs}"


def say_drained(session: Session, run: RunResult) -> None:
    """After a run that has set the queue up: say which nodes take no jobs all the same. Slurm remembers what somebody
    has drained, also from before the queue was taken away."""
    if session.check or not there(session.site.settings, session.site.inventory.hosts):
        return
    host = controller(session)
    if host not in run.hosts or run.hosts[host].bad:
        return
    answers, _ = look(session, host)
    for answer in answers.known.values():
        for one in answer["nodes"]:
            if one["reason"] not in ("", SILENT):  # slurmd may be starting
                back = way_back(one["reason"], one["state"]).replace("NODE", one["name"])
                echo(f"{one['name']} takes no jobs ({one['state']}: {one['reason']}): {back}", err=True)
        for line in gpuless_words(session, answer["nodes"]):
            echo(line, err=True)


WAITS = 86400 // 30  # how often a verb looks whether jobs are still there: for a day, each half minute


@dataclass(frozen=True)
class Away:
    """Nodes of the queue that a verb takes away: it drains them, acts, and lets them take jobs again.

    `asked`: what the playbook is given; empty where none of the nodes takes jobs. `jobs`: by node, whose they are.
    `closed`: by node, why it already takes no jobs. `unknown`: why the queue does not say.
    `version`: the release of its controller, such as (24, 11).
    """

    session: Session
    mark: str = ""
    nodes: tuple[str, ...] = ()
    jobs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    closed: Mapping[str, str] = field(default_factory=dict)
    unknown: str = ""
    version: tuple[int, ...] = ()

    def newer(self, packages: Mapping[str, str]) -> str:
        """Why an image is not for nodes of the queue: its slurmd is of a newer release than the controller, which would
        not understand it. Empty where it is not, or where that is not known. `packages`: name → version."""
        match = re.match(r"(\d+)\.(\d+)\.", packages.get("slurmd", ""))
        if match is None or not self.version or (int(match[1]), int(match[2])) <= self.version:
            return ""
        here = ".".join(f"{part:02}" for part in self.version)
        return (
            f"its slurmd is {packages['slurmd']}, and the queue's controller is of {here}: "
            "upgrade slurmdbd and slurmctld there first, in this order"
        )

    def asked(self, *, waits: bool, force: bool, idle: bool = False) -> dict[str, Any]:
        """The variables of a playbook whose roles drain and resume. `idle`: whoever needs the nodes may have them."""
        reason = {"mark": self.mark, "reason": f"{'idle, ' if idle else ''}by {who()}", "force": force}
        return {"gpuadmin_away": {**reason, "waits": WAITS if waits else 0}} if self.nodes else {}

    def plan(self, builder: PlanBuilder, going: Iterable[str], *, back: bool = True) -> None:
        """Say of nodes that go what the queue does, and whose jobs are there."""
        for node in [one for one in self.nodes if one in set(going)]:
            closed = self.closed.get(node, "")
            # a full node's own drain gives way to the verb's
            if closed and not self.stale(node) and not closed.startswith(PASSING):
                builder.warn(f"{node} takes no jobs of the queue, and takes none afterwards: {closed}")
                continue
            again = " until it is as it should be" if back else f"; afterwards: gpuadmin resume {node}"
            there = f"; there now: {', '.join(self.jobs[node])}" if self.jobs.get(node) else ""
            builder.add(node, f"takes no further job of the queue{again}{there}")

    def stale(self, node: str) -> bool:
        """Whether an earlier run of this verb has drained it, and was cut off."""
        return self.closed.get(node, "").startswith(self.mark) if self.mark else False

    def resume(self, nodes: Iterable[str], came: Collection[str] = ()) -> None:
        """Let nodes take jobs again that an earlier run of this verb has drained. `came`: those that were off, and
        which `shutdown --idle` of whomever has drained."""
        marks: dict[str, list[str]] = {}
        for node in nodes:
            idle = IDLE_OFF.match(self.closed.get(node, "")) if node in came else None
            if idle or self.stale(node):
                marks.setdefault(idle[0] if idle else self.mark, []).append(node)
        for mark, found in marks.items():
            given = {"gpuadmin_drain": {"nodes": found, "resume": True, "mark": mark}}
            self.session.run("drain", [controller(self.session)], given, check=self.session.check, quiet=True)

    def left(self, run: RunResult) -> None:
        """After a run that did not succeed everywhere: say which nodes take no jobs because of it."""
        if not self.nodes or self.session.check or not (run.code or run.interrupted):
            return
        answers, _ = ask(self.session, controller(self.session))
        for answer in answers.known.values():
            for one in answer["nodes"]:
                if one["name"] in self.nodes and one["reason"].startswith(self.mark):
                    echo(f"{one['name']} takes no jobs of the queue now. Run the same command again, or: "
                         f"gpuadmin resume {one['name']}", err=True)  # fmt: skip
        for why in answers.unknown.values():
            echo(f"The queue does not say which nodes take jobs ({why}): gpuadmin queue", err=True)


def make_mark(verb: str, site: Path) -> str:
    """How the reason begins of a node that a verb takes away: with the verb, and with this clone of the site, whose
    lock one run at a time holds. What the verb of another clone has drained is not this one's: that may be at work."""
    # guard: what another clone of the site has drained is not this one's -> ''
    clone = f"{socket.gethostname()}:{site.resolve()}"
    return f"gpuadmin {verb} {hashlib.sha256(clone.encode()).hexdigest()[:8]}:"


def away(session: Session, names: Sequence[str]) -> Away:
    """Ask the queue about nodes that this verb takes away. Asks nobody where none of them takes jobs."""
    inventory = session.site.inventory
    nodes = tuple(
        one.name
        for one in inventory.hosts
        if one.name in names and takes_jobs(session.site.settings, inventory.hosts, one)
    )
    mark = make_mark(session.verb, session.site.directory)
    if not nodes:
        return Away(session)
    host = controller(session)
    answers, run = ask(session, host)
    session.whole(run)
    if host not in answers.known:
        return Away(session, mark, nodes, unknown=answers.unknown.get(host, "it did not answer"))
    queue = answers.known[host]
    closed = {one["name"]: one["reason"] for one in queue["nodes"] if one["reason"] and drained(one["state"])}
    jobs = {node: _jobs(queue, node) for node in nodes}
    return Away(session, mark, nodes, jobs, closed, version=tuple(queue.get("version") or ()))


def _jobs(queue: Mapping[str, Any], node: str) -> list[str]:
    """Whose jobs are on a node, and until when, in words."""
    there = _on(queue, node)
    until = {one["id"]: f", until {clock(one['end'])}" if one["end"] else "" for one in there}
    return [f"{one['user']} (job {one['id']}{until[one['id']]})" for one in there]


def _on(queue: Mapping[str, Any], node: str) -> list[Mapping[str, Any]]:
    """The jobs on a node; one that waits has none."""
    return [one for one in queue["jobs"] if node in one["nodes"].split(",")]
