"""Move people's homes from the disks of nodes to the storage host, and delete the old ones when an admin says so."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuadmin.accounts.requests import known
from gpuadmin.common.amounts import disk_amount
from gpuadmin.common.records.moving import MovedHome
from gpuadmin.common.text import counted, listed, size_words
from gpuadmin.config.host_variables import LIMITS
from gpuadmin.config.schema.limits import Limits
from gpuadmin.errors import ConfigError, ExitCode, RefusedError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.session import Session, opened
from gpuadmin.takeover.actions.shared.moving_homes import PLAYBOOK, Moving, list_moving_hosts
from gpuadmin.takeover.adoption import home_plan
from gpuadmin.takeover.adoption.home_plan import Decision

GO_ON = "gpuadmin move-homes continues where it stopped"


def _people(session: Session, names: Iterable[str]) -> dict[str, int]:
    registry = session.site.registry
    chosen = known(registry, list(names)) if names else registry.registry.users
    return {one.name: one.uid for one in chosen if one.uid is not None}


def _mains(session: Session, given: Sequence[str], moving: Moving) -> dict[str, str]:
    found = {}
    for one in given:
        name, separator, host = one.partition("=")
        if not separator or host not in moving.nodes:
            raise ConfigError(f"--main {one}: give USER=HOST, where HOST is a node: {listed(moving.nodes)}")
        found[known(session.site.registry, [name])[0].name] = host
    return found


def _limits(session: Session, server: str, people: Collection[str]) -> dict[str, int]:
    """What each of them may have in their home, where that is limited."""
    host = next(one for one in session.site.inventory.hosts if one.name == server)
    section = session.site.settings.limits or Limits()
    text = str(host.variables.get(next(name for name, of in LIMITS.items() if of == "home"), None) or section.home)
    groups = {one.name: one.group for one in session.site.registry.registry.users}
    found = {}
    for name in people:
        own = text
        for one in section.people:
            if one.home is not None and (name in one.names or groups.get(name) in (one.groups or ())):
                own = str(one.home)
        size = disk_amount(own)
        if size is not None:
            found[name] = size
    return found


def move_homes(options: Options, names: Sequence[str], mains: Sequence[str]) -> int:
    """Move the homes of these people, or of everybody who has one on a node. Returns the exit code."""
    with opened("move-homes", options) as session:
        moving = list_moving_hosts(session)
        asked = _mains(session, mains, moving)
        wanted = _people(session, names)
        seen = _look(moving, wanted)
        said = {name for answer in seen.values() for name in answer["closed"]}
        # guard: who is kept out and in users.yml no more stops nobody else -> said
        closed = {name for name in said if session.site.registry.find(name) is not None}
        if closed - set(wanted):  # guard: who is still kept out is part of the next run
            wanted |= _people(session, sorted(closed - set(wanted)))
            seen = _look(moving, wanted)
        if seen[moving.server]["working"] and not session.check:  # guard: nothing is begun beside a job that goes on
            raise RefusedError(
                f"{moving.server} is still at work on a run that was cut off (gpuadmin-move-homes.service)",
                hint="run it again when that has ended; those people stay locked out until then",
            )
        found = home_plan.decide(
            wanted,
            home_plan.Cluster({host: seen[host] for host in moving.nodes}, moving.server, seen[moving.server], asked,
                              _limits(session, moving.server, wanted),
                              {host: moving.address(host) for host in moving.nodes}),
        )  # fmt: skip
        stale = {name: wanted[name] for name in sorted(closed - set(found.people)) if name in wanted}
        strangers = sorted(said - closed)
        if not session.plan(_plan(found, moving, stale, strangers)):
            if found.left:
                reasons = [f"{name} ({why})" for name, why in sorted(found.left.items())]
                raise session.refuse("no home can be moved", reasons)
            return nothing(session)
        session.confirm()  # guard: move-homes asks before it does something
        if session.check:
            documents = {
                host: moving.document(host, "aside", homes=[one for one in found.fetch if one.host == host])
                for host in moving.nodes
            }
            order = {"gpuadmin_move_homes": documents}
            return report(session, session.run(PLAYBOOK, list(documents), order, check=True), _result(found, (), {}))
        return _perform(moving, found, seen, stale)


def _look(moving: Moving, wanted: Mapping[str, int]) -> dict[str, Any]:
    people = [{"name": name, "uid": uid} for name, uid in wanted.items()]
    nodes = {host: {"address": moving.address(host)} for host in moving.nodes}
    server = {moving.server: {"address": moving.address(moving.server)}}
    return moving.look(
        {
            host: moving.document(host, "look", people=people, nodes=nodes if host == moving.server else server)
            for host in moving.hosts
        },
        "who has a home",
    )


def _plan(found: Decision, moving: Moving, stale: Mapping[str, int], strangers: Sequence[str]) -> Plan:
    builder = PlanBuilder("Move homes from nodes to the storage host", destroys=True)
    for one in found.finish:
        builder.add(one.host, f"{one.name}: is on {moving.server} already: rename the old home")
    for one in found.fetch:
        builder.add(one.host, home_plan.steps(one, found.why[one.name]))
    for name in stale:
        builder.add(moving.server, f"{name}: let in again, everywhere: nothing of theirs is under way")
    for name in strangers:
        builder.warn(
            f"{name} has been kept out since a run was cut off, and is no longer in users.yml: to let "
            "them in, put them back there and run this again"
        )
    for name, why in sorted(found.left.items()):
        builder.warn(f"{name} is left alone: {why}")
    if found.people:
        builder.warn(
            f"{counted(len(found.people), 'person', 'people')} cannot log in between the copying of their homes and "
            "the end of their own move"
        )
    for host in sorted({one.host for one in (*found.fetch, *found.finish)}):
        builder.warn(f"afterwards: {_no_home(host)}")
    for words in found.notes:
        builder.warn(words)
    return builder.build()


def _perform(moving: Moving, found: Decision, seen: Mapping[str, Any], stale: Mapping[str, int]) -> int:
    """Copy while they work; close, fetch the rest, rename in, rename the old ones; let each in as theirs is done."""
    moving.placed = {one.name for one in found.finish}
    moving.closed = {name for answer in seen.values() for name in answer["closed"]} & {*found.people, *stale}
    moving.open(stale)
    done: set[tuple[str, str]] = set()
    if not moving.last.interrupted and _copy(moving, found, seen):
        _take(moving, found, done)
    _let_in(moving, found, done, found.people)
    _let_out(moving, found)
    for line in _describe_end(moving, done):
        moving.session.console.print(line)
    code = ExitCode.HOST_FAILED if (moving.problems or moving.closed) and not moving.last.code else None
    result = {**_result(found, done, moving.problems), "locked_out": sorted(moving.closed)}
    return report(moving.session, moving.last, result, code=code, advice=f"the table says why; {GO_ON}")


def _describe_end(moving: Moving, done: Collection[tuple[str, str]]) -> Iterable[str]:
    """Whose homes stay, who cannot log in, where, and until when."""
    for name, words in sorted(moving.problems.items()):
        # guard: nobody who is kept out is called left alone -> "is left alone"
        how = "stays locked out" if name in moving.closed else "is left alone"
        yield f"{name} {how}: {words}"
    silent = sorted(moving.closed - set(moving.problems))
    if silent:
        yield f"{listed(silent)} stay{'s' if len(silent) == 1 else ''} locked out on all hosts: {GO_ON}"
    for host in sorted({host for _, host in done}):
        names = listed(sorted({name for name, where in done if where == host} - moving.closed))
        if names:
            yield f"{names}: {_no_home(host)}"


def _no_home(host: str) -> str:
    return f"no home on {host}, and no log-in by a key in it, until gpuadmin provision mounts the shared homes there"


def _copy(moving: Moving, found: Decision, seen: Mapping[str, Any]) -> bool:
    """Let the storage host in on the nodes, and have it copy homes while their people work."""
    if not found.fetch:
        return True
    nodes = sorted({one.host for one in found.fetch})
    known_nodes = {host: {"address": moving.address(host), "key": seen[host]["host_key"]} for host in nodes}
    if not moving.run({moving.server: moving.document(moving.server, "key", nodes=known_nodes)}, "Making a key"):
        return False
    key = str(moving.last.hosts[moving.server].reports.get("move_key", ""))
    documents = {
        host: moving.document(host, "let-in", key=key, homes=[one for one in found.fetch if one.host == host])
        for host in nodes
    }
    if not moving.run(documents, "Letting the storage host in on the nodes"):
        return False
    if moving.run({moving.server: _fetching(moving, "copy", found.fetch)}, "Copying while people work"):
        return True
    # guard: who may be fetched by a job that goes on is not let in -> set()
    moving.unknown = {one.name for one in found.fetch}
    return False


def _fetching(moving: Moving, step: str, homes: Sequence[MovedHome], done: Iterable[str] = ()) -> dict[str, Any]:
    nodes = {one.host: {"address": moving.address(one.host)} for one in homes}
    return moving.document(moving.server, step, homes=homes, nodes=nodes, done=sorted(done))


def _take(moving: Moving, found: Decision, done: set[tuple[str, str]]) -> None:
    """Adds to `done` which homes are moved, and their old ones set aside: by person and node."""
    people = {name: uid for name, uid in found.people.items() if name not in moving.problems}
    entries = [{"name": name, "uid": uid} for name, uid in people.items()]
    if not people:
        return
    moving.closed |= set(people)
    closing = {host: moving.document(host, "close", people=entries) for host in moving.hosts}
    if not moving.run(closing, "Closing the accounts"):
        return
    _let_in(moving, found, done, moving.problems)
    done |= _aside(moving, [one for one in found.finish if one.name not in moving.problems])
    _let_in(moving, found, done, [one.name for one in found.finish])
    fetch = [one for one in found.fetch if one.name in people and one.name not in moving.problems]
    everybody = {one.name for one in fetch}
    waiting, more = set(everybody), True
    while waiting and more and not moving.last.interrupted:
        if not moving.run(
            {moving.server: _fetching(moving, "take", fetch, everybody - waiting)}, "Fetching what has changed"
        ):
            break
        more = moving.is_working
        sums = {(one["name"], one["host"]): one["checksum"] for one in moving.said(moving.server)}
        ready = ({name for name, _ in sums} | set(moving.problems)) & waiting
        placed = [
            replace(one, checksum=sums[one.name, one.host])
            for one in fetch if one.name in ready and (one.name, one.host) in sums
        ]  # fmt: skip
        moving.placed |= {one.name for one in placed}
        done |= _aside(moving, placed)
        _let_in(moving, found, done, ready)  # guard: nobody waits for the end of another's home
        waiting -= ready
    moving.unknown |= waiting


def _aside(moving: Moving, old: Sequence[MovedHome]) -> set[tuple[str, str]]:
    """Have the old homes renamed, of a person all or none. Returns which are."""
    asides = {
        host: moving.document(host, "aside", homes=[one for one in old if one.host == host])
        for host in sorted({one.host for one in old})
    }
    if not asides:
        return set()
    moving.run(asides, "Renaming the old homes")
    silent = moving.failed
    named = {(one["name"], host) for host in asides for one in moving.said(host)}
    done = {(one.name, one.host) for one in old} & named
    lost = {one.name for one in old if (one.name, one.host) not in done}
    for one in old:
        if one.host in silent and (one.name, one.host) not in done:
            moving.problems.setdefault(one.name, f"{one.host}: it did not say whether the old home there was renamed")
    # guard: what a host has not said may have been done -> set()
    unclear = {one.name for one in old if one.host in silent}
    if lost - unclear and not moving.last.interrupted:
        _take_back(moving, [one for one in old if one.name in lost - unclear], done)
    here = [one for one in old if one.name not in lost]
    if here and not moving.run({moving.server: moving.document(moving.server, "noted", homes=here)}, "Noting it"):
        return set()
    return {(one.name, one.host) for one in here}


def _take_back(moving: Moving, homes: Sequence[MovedHome], done: Collection[tuple[str, str]]) -> None:
    """Where an old home cannot be renamed, nothing of that person's is moved: all is as it was before the last step."""
    renamed = [one for one in homes if (one.name, one.host) in done]
    backs = {
        host: moving.document(host, "put-back", homes=[one for one in renamed if one.host == host])
        for host in sorted({one.host for one in renamed})
    }
    if backs:
        moving.run(backs, "Giving old homes their names again")
    back = {(one["name"], host) for host in backs for one in moving.said(host)}
    # guard: what was set aside and is not back is not taken from the storage host -> set()
    stuck = {one.name for one in renamed if (one.name, one.host) not in back}
    going = [one for one in homes if one.name not in stuck]
    if going and not moving.last.interrupted:
        moving.run({moving.server: moving.document(moving.server, "take-back", homes=going)}, "Taking homes back")
        moving.placed -= {one["name"] for one in moving.said(moving.server)} & {one.name for one in going}


def _let_in(moving: Moving, found: Decision, done: set[tuple[str, str]], names: Collection[str]) -> None:
    """Let in those of them whose homes are all at one place: moved, or as they were. What is not known stays closed."""
    homes = [*found.fetch, *found.finish]
    # guard: nobody is let in between two homes -> set()
    between = moving.unknown | {
        one.name for one in homes if one.name in moving.placed and (one.name, one.host) not in done
    }
    moving.open({name: uid for name, uid in found.people.items() if name in names and name not in between})


def _let_out(moving: Moving, found: Decision) -> None:
    """The key is taken away. After a kill the next run does it, and sshd itself after some days."""
    if moving.last.interrupted:
        return
    documents = {host: moving.document(host, "let-out") for host in sorted({one.host for one in found.fetch})}
    moving.run({**documents, moving.server: moving.document(moving.server, "drop-key")}, "Taking the key away")


def _result(found: Decision, done: Collection[tuple[str, str]], problems: Mapping[str, str]) -> dict[str, Any]:
    homes = [
        {"name": one.name, "host": one.host, "main": one.main, "files": one.files, "bytes": one.bytes,
         "moved": (one.name, one.host) in done}
        for one in (*found.fetch, *found.finish)
    ]  # fmt: skip
    return {"homes": homes, "why": dict(found.why), "left": {**found.left, **problems}}


def discard_homes(options: Options, names: Sequence[str]) -> int:
    """Delete the old homes of what was moved. Returns the exit code."""
    with opened("move-homes", options) as session:
        moving = list_moving_hosts(session)
        chosen = set(names)
        server = moving.look({moving.server: moving.document(moving.server, "look")}, "what was moved")[moving.server]
        found = [
            home_plan.get_home(one) for one in server["parts"]
            if one["step"] == "aside" and one["host"] in moving.nodes and (not chosen or one["name"] in chosen)
        ]  # fmt: skip
        if not found:
            session.plan(Plan("Delete old homes"))
            return nothing(session)
        compared = moving.look(
            {moving.server: moving.document(moving.server, "compare", homes=found)}, "what became of them", "moved"
        )[moving.server]
        missing = {(one["name"], one["host"]): one["missing"] for one in compared["parts"]}
        homes = {(one.name, one.host): one for one in found}
        builder = PlanBuilder("Delete the old homes of what was moved", destroys=True)
        for key, lacks in missing.items():
            one = homes[key]
            lacking = f"; {lacks} of its entries are not in the new one any more" if lacks else ""
            builder.add(one.host, f"delete {one.name}'s old home: {counted(one.files, 'file')}, "
                                  f"{size_words(one.bytes)}{lacking}")  # fmt: skip
        for name, words in sorted(compared["problems"].items()):
            builder.warn(f"{name}'s old home is kept: {words}")
        if not session.plan(builder.build(question="Delete them?")):
            return nothing(session)
        session.confirm()  # guard: old homes go when that was confirmed
        going = [homes[key] for key in missing]
        documents = {
            host: moving.document(host, "discard", homes=[one for one in going if one.host == host])
            for host in sorted({one.host for one in going})
        }
        if session.check:
            run = session.run(PLAYBOOK, list(documents), {"gpuadmin_move_homes": documents}, check=True)
            return report(session, run, {"discard": [[one.name, one.host] for one in going]})
        moving.run(documents, "Deleting old homes")
        reported = {(one["name"], host) for host in documents for one in moving.said(host)}
        # guard: a node says only of its own old homes that they are gone -> reported
        gone = [one for one in going if (one.name, one.host) in reported]
        moving.run({moving.server: moving.document(moving.server, "forget", homes=gone)}, "Noting it")
        for name, words in sorted(moving.problems.items()):
            session.console.print(f"{name}'s old home is kept: {words}")
        code = ExitCode.HOST_FAILED if moving.problems and not moving.last.code else None
        return report(
            session,
            moving.last,
            {"discarded": [{"name": one.name, "host": one.host} for one in gone], "kept": moving.problems},
            code=code,
        )
