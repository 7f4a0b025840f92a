"""Give people the uids that users.yml says, on every host, with everything that carries the old ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuadmin.accounts import renumbering
from gpuadmin.accounts.renumber_plan import plan
from gpuadmin.accounts.renumbering import Moves
from gpuadmin.accounts.requests import known
from gpuadmin.actions.shared.power import PowerRequest, find_targets, go, look, with_jobs
from gpuadmin.actions.shared.queue import Away, ask, away, controller
from gpuadmin.answers import Answers
from gpuadmin.common.text import listed
from gpuadmin.config.queue import there
from gpuadmin.errors import ConfigError, GpuadminError, RefusedError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.power import Decision, Step, decide
from gpuadmin.results import HostResult, RunResult
from gpuadmin.session import Session, opened

PLAYBOOK = "renumber"
GROUPS = ("gpu", "storage", "slurm")  # where people have accounts
REBOOT_SECONDS = 900
FILES_PER_SECOND = 2000  # that a boot goes through, twice in each of two phases, on a slow disk
GO_ON = "gpuadmin renumber goes on where it stopped; those people stay locked out until it has ended"
NOBODY = "nobody was renumbered"


def renumber(options: Options, names: Sequence[str], *, force: bool = False) -> int:
    """Renumber these people, or everybody whose uid differs from users.yml somewhere. Returns the exit code.

    `force`: hosts reboot although people use them.
    """
    with opened("renumber", options, forget=names or None) as session:
        if session.site.settings.accounts.source != "registry":
            raise ConfigError(
                "accounts.source is directory: uids are what the directory says", hint="change them there; then by hand"
            )
        registry = session.site.registry
        people = known(registry, names) if names else registry.registry.users
        wanted = {one.name: one.uid for one in people if one.uid is not None}
        hosts = session.some(*GROUPS)
        left_out = {host.name for host in session.site.inventory.hosts if set(GROUPS) & set(host.groups)} - set(hosts)
        storage = session.named("storage")
        # a run that was cut off on a host that is left out now would be opened on the others in the middle
        if left_out and not session.check:  # guard: nobody's home changes hands while a host that uses it is left out
            raise ConfigError(
                f"--limit leaves out {listed(sorted(left_out))}: homes could be another's there",
                hint="leave --limit out; with --check it only looks",
            )
        seen = _look(session, hosts, wanted)
        begun = renumbering.begun(seen)
        if not begun.items() <= wanted.items():
            # guard: what was begun for somebody is brought to its end on all hosts, whatever was asked for since
            wanted |= begun
            seen = _look(session, hosts, wanted)
        moves = renumbering.decide(seen, storage, wanted, _jobs(session) if renumbering.moving(seen) else {})
        under_way = [host for host, answer in seen.items() if answer["under_way"]]
        opening = renumbering.shut_out(seen, moves)
        boot = _boot(session, renumbering.reboots(seen, moves, storage), force)
        if not session.plan(plan(seen, moves, under_way, opening, boot.decision)):
            if moves.left:
                raise RefusedError("; ".join(f"{name} ({why})" for name, why in sorted(moves.left.items())[:5]))
            return nothing(session)
        if stopped := sorted(set(moves.left) & set(begun)):
            # guard: nobody is let in who is renumbered on one host and cannot be on another
            raise RefusedError(
                "; ".join(f"{name} ({moves.left[name]})" for name in stopped),
                hint="they are half renumbered and locked out: settle this, then run it again",
            )
        # guard: nobody is locked out for a renumbering whose hosts cannot reboot
        if boot.decision.refused and not session.check:
            raise RefusedError(
                "; ".join(f"{host}: {why}" for host, why in boot.decision.refused.items()),
                hint="tell people of a time (gpuadmin announce); --force then sends away whoever is still there",
            )
        session.confirm()  # guard: renumber asks before it does something
        session.save(registry, forget=sorted({*moves.people, *begun}))
        shut = {host: _document("give-up", {}) for host in opening if host not in moves.closed(seen)}
        if session.check:
            given = {"gpuadmin_renumber": shut | _given(moves, wanted, "arm")["gpuadmin_renumber"]}
            run = session.run(PLAYBOOK, list(given["gpuadmin_renumber"]), given, check=True)
            return report(session, run, _result(moves, seen))
        if shut:
            given = {"gpuadmin_renumber": shut}
            run = session.run(PLAYBOOK, list(shut), given, check=False, doing="Opening the accounts")
            if _failed(run) or not (moves.hosts or under_way):
                return report(session, run, _result(moves, seen))
        return _perform(session, moves, wanted, seen, under_way, boot)


def _failed(run: RunResult) -> bool:
    return bool(run.bad or run.interrupted or run.error)


def _jobs(session: Session) -> dict[str, int]:
    """How many jobs people have in the queue, if there is one: such a job has the uid of when it was asked for."""
    if not there(session.site.settings, session.site.inventory.hosts):
        return {}
    answers, run = ask(session, controller(session))
    session.whole(run)
    answers.require("whose jobs are in the queue")  # guard: where the queue does not answer nobody is renumbered
    return Counter(job["user"] for answer in answers.known.values() for job in answer["jobs"])


def _look(session: Session, hosts: Sequence[str], wanted: Mapping[str, int]) -> dict[str, Any]:
    """Ask all hosts; where homes are without accounts, once more with the uids that the nodes say."""
    answers = _ask(session, hosts, {host: _document("look", wanted, measure=True) for host in hosts})
    seen = dict(answers)
    assumed = renumbering.assumed(seen, [host for host in session.named("storage") if host in seen], wanted)
    again = {host: uids for host, uids in assumed.items() if any(wanted[name] != uid for name, uid in uids.items())}
    if again:
        documents = {host: _document("look", wanted, measure=True, assumed=uids) for host, uids in again.items()}
        seen |= _ask(session, list(again), documents)
    return seen


def _ask(session: Session, hosts: Sequence[str], documents: Mapping[str, Any]) -> dict[str, Any]:
    found = session.look(PLAYBOOK, hosts, {"gpuadmin_renumber": documents})
    answers = Answers.of(found.hosts, hosts, "renumber")
    answers.require("who has which uid")  # guard: nobody is renumbered before every host has spoken
    return dict(answers.known)


def _document(
    step: str,
    wanted: Mapping[str, int],
    *,
    measure: bool = False,
    assumed: Mapping[str, int] | None = None,
    expected: Mapping[str, tuple[int, int]] | None = None,
) -> dict[str, Any]:
    return {
        "step": step,
        "measure": measure,
        "people": [{"name": name, "uid": uid, "assumed": (assumed or {}).get(name, 0)} for name, uid in wanted.items()],
        "expected": {name: list(pair) for name, pair in (expected or {}).items()},
    }


def _given(moves: Moves, wanted: Mapping[str, int], step: str) -> dict[str, Any]:
    """What the hosts are asked to do. Whoever has no account there is named with the uid that their files have."""
    return {
        "gpuadmin_renumber": {
            host: _document(
                step,
                {name: wanted[name] for name in of},
                expected=of,
                assumed={name: pair[0] for name, pair in of.items()},
            )
            for host, of in moves.hosts.items()
        }
    }


def _asked_meanwhile(session: Session, seen: Mapping[str, Any], moves: Moves) -> dict[str, str]:
    """Who has asked the queue for something since it was looked at, or that it does not say so any more."""
    try:
        # guard: who asks the queue for something while they are being closed is not renumbered -> {}
        return renumbering.in_queue(seen, moves.people, _jobs(session))
    except GpuadminError as error:
        return {"the queue:": error.format_message()}


def _perform(
    session: Session, moves: Moves, wanted: Mapping[str, int], seen: Mapping[str, Any], under_way: Sequence[str],
    boot: Boot,
) -> int:  # fmt: skip
    """Close them on all hosts, boot those where ids change, open them; if one cannot be closed, none is changed."""
    fresh = Moves(moves.closed(seen), moves.left)
    hosts = list(fresh.hosts)
    closed = session.run(PLAYBOOK, hosts, _given(fresh, wanted, "close"), check=False, doing="Closing the accounts")
    late = {} if _failed(closed) else _asked_meanwhile(session, seen, moves)
    if _failed(closed) or late:
        if not under_way:  # guard: who is half renumbered somewhere is opened nowhere -> True
            given = _given(fresh, wanted, "give-up")
            # guard: what was closed for nothing is opened again
            session.run(PLAYBOOK, hosts, given, check=False, doing="Opening them again")
        if late:
            raise RefusedError("; ".join(f"{name} {words}" for name, words in sorted(late.items())))
        return report(session, closed, {}, advice=f"the table says why; {GO_ON if under_way else NOBODY}")
    documents = _given(fresh, wanted, "arm")["gpuadmin_renumber"]
    documents |= {host: _document("arm", {}) for host in under_way}
    booted = [host for host in documents if host in boot.decision.hosts]
    armed: dict[str, HostResult] = {}

    def arm(step: Step) -> bool:
        """Have the next boot of these hosts do it, once those that went before them are done."""
        if step.step != "switch":
            return True
        # guard: no node has new ids while the storage host has the old ones
        if _problems(session, list(armed)):
            return False
        going = [host for host in step.hosts if host in documents]
        given = {"gpuadmin_renumber": {host: documents[host] for host in going}}
        run = session.run(PLAYBOOK, going, given, check=False, doing="Preparing the boot")
        armed.update(run.hosts)
        return not _failed(run)

    # a boot that has files to go through takes longer
    more = {"power_reboot_timeout": REBOOT_SECONDS + boot.files(seen) // FILES_PER_SECOND}
    run, _ = go(session, boot.request, boot.queue, boot.decision, begin=arm, more=more)
    boot.queue.left(run)
    problems = {} if _failed(run) else _problems(session, booted)
    if problems:
        run = RunResult({host: HostResult("failed", message=words) for host, words in problems.items()})
    if not _failed(run):  # guard: nobody is let in anywhere before every host is done -> True
        given = {"gpuadmin_renumber": {host: {**one, "step": "open"} for host, one in documents.items()}}
        last = session.run(PLAYBOOK, list(documents), given, check=False, doing="Opening the accounts")
        # guard: who could not be let in is not said to be let in -> RunResult(run.hosts | armed)
        run = last if _failed(last) else RunResult(run.hosts | armed)
    return report(session, run, _result(moves, seen), advice=f"the table says why; {GO_ON}")


@dataclass(frozen=True)
class Boot:
    """Which hosts boot, in which order, and what the queue does meanwhile."""

    request: PowerRequest
    decision: Decision
    queue: Away

    def files(self, seen: Mapping[str, Any]) -> int:
        """How many entries the host has that has the most."""
        return max((int(answer.get("seen", 0)) for answer in seen.values()), default=0)


def _boot(session: Session, names: Sequence[str], force: bool) -> Boot:
    request = PowerRequest("reboot", tuple(names), when_idle=False, at=None, force=force)
    if not names:
        return Boot(request, Decision((), {}), Away(session))
    targets = find_targets(session, names)
    answers = look(session, request, targets)
    queue = away(session, names)
    known = {host: with_jobs(queue, host, found, request) for host, found in answers.known.items()}
    failed = {host: answers.unknown[host] for host in answers.failed}
    return Boot(request, decide("reboot", targets, known, waits=force, failed=failed), queue)


def _problems(session: Session, hosts: Sequence[str]) -> dict[str, str]:
    """Host → why it has not ended there. What the host does not say counts as not ended."""
    if not hosts:
        return {}
    found = session.look(PLAYBOOK, hosts, {"gpuadmin_renumber": {host: _document("look", {}) for host in hosts}})
    answers = Answers.of(found.hosts, hosts, "renumber")
    problems = {host: answers.unknown[host] for host in hosts if host in answers.unknown}
    for host, answer in answers.known.items():
        if answer["under_way"] and not answer["whole"]:
            problems[host] = answer["problem"] or "it has booted, and has not changed the ids: see its journal"
    return problems


def _result(moves: Moves, seen: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "hosts": {host: {name: list(pair) for name, pair in of.items()} for host, of in moves.hosts.items()},
        "left": dict(moves.left),
        "measured": {host: answer.get("trees", {}) for host, answer in seen.items()},
    }
