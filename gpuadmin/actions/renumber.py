"""Give people the uids that users.yml says, on every host, with everything that carries the old ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuadmin.accounts import renumbering
from gpuadmin.accounts.renumbering import Moves
from gpuadmin.accounts.requests import known
from gpuadmin.answers import Answers
from gpuadmin.common.text import counted, listed
from gpuadmin.config.schema import User
from gpuadmin.errors import ConfigError, RefusedError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened

PLAYBOOK = "renumber"
GO_ON = "gpuadmin renumber goes on where it was; those people stay locked out until it has ended"


def renumber(options: Options, names: Sequence[str]) -> int:
    """Renumber these people, or everybody whose uid differs from users.yml somewhere. Returns the exit code."""
    with opened("renumber", options, forget=names or None) as session:
        if session.site.settings.accounts.source != "registry":
            raise ConfigError(
                "accounts.source is directory: uids are what the directory says", hint="change them there; then by hand"
            )
        registry = session.site.registry
        people = [one for one in (known(registry, names) if names else registry.registry.users) if one.uid is not None]
        hosts = session.some("gpu", "storage")
        left_out = {host.name for host in session.site.inventory.hosts if {"gpu", "storage"} & set(host.groups)} - set(
            hosts
        )
        storage = session.named("storage")
        # a run that was cut off on a host that is left out now would be opened on the others in the middle
        if left_out and not session.check:  # guard: nobody's home changes hands while a host that uses it is left out
            raise ConfigError(
                f"--limit leaves out {listed(sorted(left_out))}: homes could be another's there",
                hint="leave --limit out; with --check it only looks",
            )
        seen = _look(session, hosts, people)
        moves = renumbering.decide(seen, storage, {one.name: one.uid or 0 for one in people})
        under_way = [host for host, answer in seen.items() if answer["under_way"]]
        if not session.plan(_plan(seen, moves, under_way)):
            if moves.left:
                raise RefusedError("; ".join(f"{name} ({why})" for name, why in sorted(moves.left.items())[:5]))
            return nothing(session)
        session.confirm()  # guard: renumber asks before it does something
        session.save(registry, forget=[*moves.people, *({name for host in under_way for name in seen[host]["people"]})])
        if session.check:
            run = session.run(PLAYBOOK, list(moves.hosts), _given(moves, people, "carry-out"), check=True)
            return report(session, run, _result(moves, seen))
        return _perform(session, moves, people, seen, under_way)


def _look(session: Session, hosts: Sequence[str], people: Sequence[User]) -> dict[str, Any]:
    """Ask all hosts; where homes are without accounts, once more with the uids that the nodes say."""
    wanted = {one.name: one.uid or 0 for one in people}
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


def _given(moves: Moves, people: Sequence[User], step: str) -> dict[str, Any]:
    """What the hosts are asked to do. Whoever has no account there is named with the uid that their files have."""
    uids = {one.name: one.uid or 0 for one in people}
    return {
        "gpuadmin_renumber": {
            host: _document(
                step,
                {name: uids[name] for name in of},
                expected=of,
                assumed={name: pair[0] for name, pair in of.items()},
            )
            for host, of in moves.hosts.items()
        }
    }


def _plan(seen: Mapping[str, Any], moves: Moves, under_way: Sequence[str]) -> Plan:
    builder = PlanBuilder("Give people one uid on every host", destroys=True)
    for host in under_way:
        builder.add(host, f"go on with what was begun: {listed(sorted(seen[host]['people']))}")
    for host, of in moves.hosts.items():
        if host not in under_way:
            builder.add_all([host], renumbering.steps(seen[host], of))
    if renumbering.agree(seen, moves):
        builder.warn(
            "all hosts agree on these people's uids already: to keep them costs nothing and is often right. "
            "accounts.uid_first: 1000 in gpuadmin.yml, and the uids that they have in users.yml (docs/renumber.md)"
        )
    for name, why in sorted(moves.left.items()):
        builder.warn(f"{name} is left as they are: {why}")
    if moves.hosts:
        builder.warn(f"{counted(len(moves.people), 'person', 'people')} cannot log in until it has ended")
        builder.warn(
            "reboot all hosts first (gpuadmin reboot), and let nobody log in until it has ended: not every process "
            "of theirs, and none of others in their groups, is seen (docs/renumber.md)"
        )
    for host, answer in sorted(seen.items()):
        if host in moves.hosts:
            for line in renumbering.notes(host, answer):
                builder.warn(line)
    return builder.build()


def _perform(
    session: Session, moves: Moves, people: Sequence[User], seen: Mapping[str, Any], under_way: Sequence[str]
) -> int:
    """Close them on all hosts, then do it on all; where one of them cannot be closed, none is changed."""
    fresh = Moves(moves.closed(seen), moves.left)
    closed = session.run(
        PLAYBOOK, list(fresh.hosts), _given(fresh, people, "close"), check=False, doing="Closing the accounts"
    )
    if closed.bad or closed.interrupted or closed.error:
        # guard: what was closed for nothing is opened again
        session.run(
            PLAYBOOK, list(fresh.hosts), _given(fresh, people, "give-up"), check=False, doing="Opening them again"
        )
        return report(session, closed, {}, advice="the table says why; nobody was renumbered")
    given = _given(fresh, people, "carry-out")
    given["gpuadmin_renumber"] |= {host: _document("carry-out", {}) for host in under_way}
    run = session.run(PLAYBOOK, list(given["gpuadmin_renumber"]), given, check=False, doing="Renumbering")
    whole = not (run.bad or run.interrupted or run.error)
    if whole:  # guard: nobody is let in anywhere before every host is done -> True
        given["gpuadmin_renumber"] = {
            host: {**document, "step": "open"} for host, document in given["gpuadmin_renumber"].items()
        }
        last = session.run(PLAYBOOK, list(given["gpuadmin_renumber"]), given, check=False, doing="Opening the accounts")
        if last.bad or last.interrupted or last.error:
            run = last
    return report(session, run, _result(moves, seen, run), advice=f"the table says why; {GO_ON}")


def _result(moves: Moves, seen: Mapping[str, Any], run: RunResult | None = None) -> dict[str, Any]:
    return {
        "hosts": {host: {name: list(pair) for name, pair in of.items()} for host, of in moves.hosts.items()},
        "left": dict(moves.left),
        "measured": {host: answer.get("trees", {}) for host, answer in seen.items()},
        "renumbered": {} if run is None else dict(run.reported("renumbered")),
    }
