"""Keeping people out for another verb, by the means that renumbering has: their ids stay, only their accounts close.

The journal says for which verb. It is kept until the last of them is let in, and `renumber` waits until then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.databases import Databases
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import number

from . import accounts, journal
from .journal import Journal, Renumbering
from .running import busy

LOCK_SECONDS = 120.0


def _lock(host: Host) -> str:
    return host.path("run/gpuadmin/renumber.lock")


def who(host: Host, verb: str) -> list[str]:
    """Who is kept out on this host for that verb."""
    found = journal.load(host.path(host.state))
    return [] if found is None or found.verb != verb else [one.name for one in found.people]


def keep_out(wanted: Mapping[str, int], host: Host, verb: str) -> dict[str, str]:
    """Close these people's accounts (name → uid), where they have one here. Who is kept out already stays so.

    Returns who could not be kept out, and why: they run something, or have another uid. Their accounts are as before:
    who may be between two homes since a cut is not let in because a container of theirs goes on.
    """
    state = host.path(host.state)
    with flocked(_lock(host), LOCK_SECONDS):
        found = journal.load_own(state, verb)
        data = Databases(accounts.texts(host))
        problems, people = {}, {one.name: one for one in (() if found is None else found.people)}
        for name, uid in sorted(wanted.items()):
            fields = data.passwd.get(name)
            if fields is None:
                continue
            if number(fields[2]) != uid:  # guard: nobody is taken for another who has their name
                problems[name] = f"has uid {fields[2]} here, not {uid}: gpuadmin renumber {name}"
            else:
                people.setdefault(name, Renumbering(name, uid, uid, uid))
        before = {} if found is None else dict(found.closed)
        more = accounts.read_fields(host, [one for name, one in people.items() if name not in before])
        made = Journal(tuple(people.values()), {**more, **before}, verb)
        if not made.people:
            return problems
        journal.begin(state, made)
        accounts.close(host, made)
        running = busy([one for one in made.people if one.name in wanted], host)
        if running:  # guard: nobody's home is moved while they run something
            # guard: who was kept out before stays so, whatever goes on in their name -> running
            let_in(host, made, set(running) - set(before))
        return {**problems, **running}


def reopen(names: Collection[str], host: Host, verb: str) -> list[str]:
    """Open these people's accounts as they were. Returns whose."""
    with flocked(_lock(host), LOCK_SECONDS):
        found = journal.load_own(host.path(host.state), verb)
        return [] if found is None else let_in(host, found, names)


def let_in(host: Host, found: Journal, names: Collection[str]) -> list[str]:
    """The same of what a journal has. It stays until the last of its people is in."""
    state = host.path(host.state)
    going = [one for one in found.people if one.name in names]
    rest = tuple(one for one in found.people if one.name not in names)
    closed = {name: value for name, value in found.closed.items() if name in names}
    if going:
        accounts.reopen(host, Journal(tuple(going), closed))
    if rest:
        closed = {name: value for name, value in found.closed.items() if name not in names}
        found = replace(found, people=rest, closed=closed)
        if found.verb == journal.VERB:  # the boot goes on for them; elsewhere they wait for that
            problem = journal.shorten("; ".join(f"{name}: {words}" for name, words in found.kept.items()))
            step = journal.ARMED if found.kept else journal.WHOLE
            found = replace(found, step=step, rest=True, problem=problem)
        journal.save(state, found)
    else:
        journal.end(state)
    return [one.name for one in going]
