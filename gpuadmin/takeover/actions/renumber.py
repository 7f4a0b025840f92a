"""Give people the uids that users.yml says, on every host, with everything that carries the old ones."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuadmin.accounts.requests import known, refuse_protected
from gpuadmin.actions.shared.power import PowerRequest, go, look_and_decide
from gpuadmin.actions.shared.queue import Away, ask, controller
from gpuadmin.answers import Answers
from gpuadmin.common.names import ACCOUNT
from gpuadmin.common.text import listed
from gpuadmin.config.inventory import find_storage
from gpuadmin.config.queue import there
from gpuadmin.errors import ConfigError, GpuadminError, RefusedError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.power import Decision, Step
from gpuadmin.results import HostResult, RunResult
from gpuadmin.session import Session, opened
from gpuadmin.takeover.plans import renumbering
from gpuadmin.takeover.plans.renumber_plan import plan
from gpuadmin.takeover.plans.renumbering import Moves

PLAYBOOK = "renumber"
GROUPS = ("gpu", "storage", "slurm")  # where people have accounts
FILES_PER_SECOND = 2000  # a slow disk: the boot walks over each file four times where people change places
GO_ON = "gpuadmin renumber goes on where it stopped; those people stay locked out until it has ended"
NOBODY = "nobody was renumbered"


def renumber(options: Options, names: Sequence[str], renames: Sequence[str] = (), *, force: bool = False) -> int:
    """Renumber these people, or everybody whose uid differs from users.yml somewhere. Returns the exit code.

    `renames`: who gets another name, as OLD=NEW. `force`: hosts reboot although people use them.
    """
    forget = [*names, *(one.partition("=")[2] for one in renames)] if names else None
    with opened("renumber", options, forget=forget) as session:
        if session.site.settings.accounts.source != "registry":
            raise ConfigError(
                "accounts.source is directory: uids are what the directory says", hint="change them there; then by hand"
            )
        registry = session.site.registry
        was = _read_renames(session, renames)
        people = known(registry, [*names, *was]) if names else registry.registry.users
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
        seen = _look(session, hosts, wanted, was)
        begun, begun_names = renumbering.begun(seen), renumbering.begun_names(seen)
        # guard: nobody is renumbered on the other hosts alone while one waits for some of an earlier plan -> False
        rest = any(answer["rest"] for answer in seen.values())
        if rest or not (begun.items() <= wanted.items() and begun_names.items() <= was.items()):
            # guard: what was begun for somebody is brought to its end on all hosts, whatever was asked for since
            wanted, was = ({} if rest else wanted) | begun, ({} if rest else was) | begun_names
            _check_renames(session, was)
            seen = _look(session, hosts, wanted, was)
        for host, answer in seen.items():
            # guard: a host says of nobody else that they get another name -> answer["renamed"]
            asked = {name: one for name, one in answer["renamed"].items() if was.get(name) == one["was"]}
            seen[host] = {**answer, "renamed": asked}
        for new, old in was.items():
            if not any(new in answer["renamed"] for answer in seen.values()):  # guard: a name that nobody has is said
                raise ConfigError(
                    f"--rename {old}={new}: no host has an account '{old}'",
                    hint="names are exact; who has the new one everywhere needs no --rename any more",
                )
        moves = renumbering.decide(seen, storage, wanted, _jobs(session) if renumbering.moving(seen) else {})
        under_way = [host for host, answer in seen.items() if answer["under_way"]]
        opening = renumbering.shut_out(seen, moves)
        boot = _boot(session, renumbering.reboots(seen, moves, storage), force)
        queued = there(session.site.settings, session.site.inventory.hosts)
        registered = {one.name: one.uid for one in registry.registry.users if one.uid is not None}
        strange = renumbering.find_strange(seen, registered)
        if not session.plan(plan(seen, moves, under_way, opening, boot.decision, strange, queued=queued)):
            if moves.left:
                reasons = [f"{name} ({why})" for name, why in sorted(moves.left.items())]
                raise session.refuse("nobody can be renumbered", reasons)
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
            variables = {"gpuadmin_renumber": shut | _orders(session, seen, moves, wanted, "arm")["gpuadmin_renumber"]}
            run = session.run(PLAYBOOK, list(variables["gpuadmin_renumber"]), variables, check=True)
            return report(session, run, _result(moves, seen))
        if shut:
            variables = {"gpuadmin_renumber": shut}
            run = session.run(PLAYBOOK, list(shut), variables, check=False, doing="Opening the accounts")
            if _failed(run) or not (moves.hosts or under_way):
                return report(session, run, _result(moves, seen))
        return _perform(session, moves, wanted, seen, under_way, boot)


def _read_renames(session: Session, given: Sequence[str]) -> dict[str, str]:
    """New name → old name."""
    found: dict[str, str] = {}
    for one in given:
        old, separator, new = one.partition("=")
        if not separator or not re.fullmatch(ACCOUNT, old) or old == new:
            raise ConfigError(f"--rename {one}: give OLD=NEW, the account's name on hosts and its name in users.yml")
        user = known(session.site.registry, [new])[0]
        if user.uid is None:
            raise ConfigError(f"--rename {one}: '{new}' has no uid in users.yml", hint="write it there first")
        if found.setdefault(new, old) != old:  # guard: no two people become one
            raise ConfigError(f"--rename: both '{found[new]}' and '{old}' would become '{new}'")
    _check_renames(session, found)
    return found


def _check_renames(session: Session, was: Mapping[str, str]) -> None:
    """Raise ConfigError or RefusedError where one of these names must not change."""
    registry = session.site.registry.registry
    refuse_protected(session.site.settings, (name for pair in was.items() for name in pair), "renumber --rename")
    for new, old in was.items():
        others = sorted(other for other, name in was.items() if name == old and other != new)
        if others:  # guard: nobody becomes two people
            raise ConfigError(f"--rename: '{old}' would become both '{new}' and '{others[0]}'")
        if old in {one.name for one in registry.users} | {one.name for one in registry.retired}:
            # guard: who is in users.yml by that name keeps it
            raise RefusedError(f"--rename {old}={new}: '{old}' is in users.yml, as somebody else")


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


def _look(session: Session, hosts: Sequence[str], wanted: Mapping[str, int], was: Mapping[str, str]) -> dict[str, Any]:
    """Ask all hosts; where homes are without accounts, once more with the uids that the nodes say."""
    homes = _homes(session)

    def document(host: str, uids: Mapping[str, int] | None = None) -> dict[str, Any]:
        return _document("look", wanted, measure=True, assumed=uids, was=was, homes=homes.get(host, ""))

    answers = _ask(session, hosts, {host: document(host) for host in hosts})
    seen = dict(answers)
    assumed = renumbering.assumed(seen, [host for host in session.named("storage") if host in seen], wanted)
    again = {
        host: uids
        for host, uids in assumed.items()
        if any(wanted[name] != uid or name in was for name, uid in uids.items())
    }
    if again:
        seen |= _ask(session, list(again), {host: document(host, uids) for host, uids in again.items()})
    return seen


def _homes(session: Session) -> dict[str, str]:
    """The host that serves homes → the directory that has them there."""
    homes = session.site.settings.homes
    server = find_storage(session.site.inventory.hosts, homes.server)
    return {} if server is None else {server.name: str(homes.export)}


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
    was: Mapping[str, str] | None = None,
    home_moves: Collection[str] = (),
    homes: str = "",
) -> dict[str, Any]:
    return {
        "step": step,
        "measure": measure,
        "people": [
            {
                "name": name,
                "uid": uid,
                "assumed": (assumed or {}).get(name, 0),
                "was": (was or {}).get(name, ""),
                "home_moves": name in home_moves,
            }
            for name, uid in wanted.items()
        ],
        "expected": {name: list(pair) for name, pair in (expected or {}).items()},
        "keep": [],
        "homes": homes,
    }


def _orders(
    session: Session, seen: Mapping[str, Any], moves: Moves, wanted: Mapping[str, int], step: str
) -> dict[str, Any]:
    """What the hosts are asked to do. Whoever has no account there is named with the uid that their files have."""
    homes = _homes(session)
    home_moves = {name for host in homes if host in seen for name, one in seen[host]["renamed"].items() if one["homes"]}
    return {
        "gpuadmin_renumber": {
            host: _document(
                step,
                {name: wanted[name] for name in of},
                expected=of,
                assumed={name: pair[0] for name, pair in of.items()},
                was={name: one["was"] for name, one in seen[host]["renamed"].items() if name in seen[host]["people"]},
                home_moves=home_moves,
                homes=homes.get(host, ""),
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
    variables = _orders(session, seen, fresh, wanted, "close")
    closed = session.run(PLAYBOOK, hosts, variables, check=False, doing="Closing the accounts")
    late = {} if _failed(closed) else _asked_meanwhile(session, seen, moves)
    if _failed(closed) or late:
        if not under_way:  # guard: who is half renumbered somewhere is opened nowhere -> True
            variables = _orders(session, seen, fresh, wanted, "give-up")
            # guard: what was closed for nothing is opened again
            session.run(PLAYBOOK, hosts, variables, check=False, doing="Opening them again")
        if late:
            raise RefusedError("; ".join(f"{name} {words}" for name, words in sorted(late.items())))
        return report(session, closed, {}, advice=f"the table says why; {GO_ON if under_way else NOBODY}")
    documents = _orders(session, seen, fresh, wanted, "arm")["gpuadmin_renumber"]
    documents |= {host: _document("arm", {}) for host in under_way}
    booted = [host for host in documents if host in boot.decision.hosts]
    armed: dict[str, HostResult] = {}

    def arm(step: Step) -> bool:
        """Have the next boot of these hosts do it, once those that went before them are done."""
        if step.step != "switch":
            return True
        # guard: no node has new ids while the storage host has the old ones
        if _problems(_look_again(session, list(armed))):
            return False
        going = [host for host in step.hosts if host in documents]
        variables = {"gpuadmin_renumber": {host: documents[host] for host in going}}
        run = session.run(PLAYBOOK, going, variables, check=False, doing="Preparing the boot")
        armed.update(run.hosts)
        return not _failed(run)

    # beside the time that the host has for any boot, which the inventory may set
    most = max((int(answer.get("seen", 0)) for answer in seen.values()), default=0)
    more = {"gpuadmin_more_seconds": most // FILES_PER_SECOND}
    run, _ = go(session, boot.request, boot.queue, boot.decision, begin=arm, more=more)
    boot.queue.left(run)
    after = Answers() if _failed(run) else _look_again(session, booted)
    problems, kept = _problems(after), dict[str, str]()
    if problems:
        run = RunResult({host: HostResult("failed", message=words) for host, words in problems.items()})
    if not _failed(run):  # guard: nobody is let in anywhere before every host is done -> True
        # where nothing changes and nothing booted there is no end to wait for: what was closed is opened as it was
        changed = {*moves.hosts, *under_way, *booted}
        steps = {host: "open" if host in changed else "give-up" for host in documents}
        kept = renumbering.find_kept({**seen, **after.known}, wanted)
        ends = {host: {**one, "step": steps[host], "keep": sorted(kept)} for host, one in documents.items()}
        variables = {"gpuadmin_renumber": ends}
        last = session.run(PLAYBOOK, list(documents), variables, check=False, doing="Opening the accounts")
        # guard: who could not be let in is not said to be let in -> RunResult(run.hosts | armed)
        run = last if _failed(last) else RunResult(run.hosts | armed | _blame(kept, armed))
    stay = f"{listed(sorted(kept))} {'stays' if len(kept) == 1 else 'stay'} locked out until then"
    advice = f"mend that, and run it again: {stay}, everybody else is in"
    result = {**_result(moves, seen), "kept": kept}
    return report(session, run, result, advice=advice if kept else f"the table says why; {GO_ON}")


def _blame(kept: Mapping[str, str], armed: Mapping[str, HostResult]) -> dict[str, HostResult]:
    """The hosts that keep somebody out, whether or not they have booted, with whom and why."""
    found: dict[str, HostResult] = {}
    for name, words in sorted(kept.items()):
        host, _, why = words.partition(": ")
        before = found.get(host) or HostResult("failed", changed=armed[host].changed if host in armed else [])
        message = "; ".join(filter(None, (before.message, f"{name} stays locked out: {why}")))
        found[host] = replace(before, message=message)
    return found


@dataclass(frozen=True)
class Boot:
    """Which hosts boot, in which order, and what the queue does meanwhile."""

    request: PowerRequest
    decision: Decision
    queue: Away


def _boot(session: Session, names: Sequence[str], force: bool) -> Boot:
    request = PowerRequest("reboot", tuple(names), when_idle=False, at=None, force=force)
    if not names:
        return Boot(request, Decision((), {}), Away(session))
    _targets, _answers, queue, decision = look_and_decide(session, request)
    return Boot(request, decision, queue)


def _look_again(session: Session, hosts: Sequence[str]) -> Answers:
    """How far hosts are that have booted."""
    if not hosts:
        return Answers()
    found = session.look(PLAYBOOK, hosts, {"gpuadmin_renumber": {host: _document("look", {}) for host in hosts}})
    return Answers.of(found.hosts, hosts, "renumber")


def _problems(answers: Answers) -> dict[str, str]:
    """Host → why it has not ended there. What the host does not say counts as not ended."""
    problems = dict(answers.unknown)
    for host, answer in answers.known.items():
        if answer["under_way"] and not answer["whole"]:
            problems[host] = (
                answer["problem"] or "it has booted, and has not changed the ids: journalctl -u gpuadmin-renumber there"
            )
    return problems


def _result(moves: Moves, seen: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "hosts": {host: {name: list(pair) for name, pair in of.items()} for host, of in moves.hosts.items()},
        "renamed": {host: {name: one["was"] for name, one in seen[host]["renamed"].items() if name in of}
                    for host, of in moves.hosts.items()},
        "left": dict(moves.left),
        "measured": {host: answer.get("trees", {}) for host, answer in seen.items()},
    }  # fmt: skip
