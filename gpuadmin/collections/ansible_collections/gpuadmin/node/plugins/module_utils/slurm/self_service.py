"""The service behind `gpu` on a node without a queue: it grants GPUs that nobody has to whoever asks, as much as the
site's rule allows. The kernel says who that is, and which process of theirs; when that has ended so has the grant.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial

from gpuadmin.common.records.gpus import SelfService

from .. import health, peercred_service
from ..accounts.converge import Host
from ..accounts.desired import subordinate
from ..errors import NodeError
from ..fields import FIRST_HUMAN_UID
from ..files import flocked
from ..gpus import device_files, gate, grants, mig, reconcile
from ..gpus.gate import Places
from ..gpus.grants import Grant
from ..logins import announcements
from ..logins.occupants import holders
from ..web_links import Refused, who
from .gpu_here import read_rule
from .policy import RefusedError

#: The source of such grants.
SOURCE = "self"
FREE = "free"
_REQUEST = re.compile(r"(?:take ([1-9][0-9]?) ([1-9][0-9]{0,3}) (run|get)|release (all|run-[0-9a-f]{8})|list)\Z")

#: GPU → its number; whether it is free, granted (to whom, until when), held (by whose program), or does not answer.
States = Mapping[str, "tuple[int, str, str, int]"]


def look_at_gpus(places: Places, found: list[Grant], settings: gate.Settings, now: float) -> States:
    """The GPUs of this node that are not divided. Raises RefusedError where the driver does not say."""
    there = device_files.gpus(settings, places.root)
    parts = [one for one in mig.read(places.run) if one.uuid in there]
    away = {*mig.waiting(places.run).gpus, *(one.gpu for one in parts), *(one.uuid for one in parts)}
    whole = {name: paths for name, paths in there.items() if name not in away}
    seen = health.look_at_node(places, health.BURST)
    if seen.answering is None:  # guard: a GPU of which the driver says nothing is granted to nobody
        raise RefusedError("silent-driver")
    working = seen.working(whole, settings)
    wanted = re.compile("|".join(re.escape(path) for paths in whole.values() for path in paths) or r"(?!)")
    held = {path: user for user, paths in holders(wanted, FIRST_HUMAN_UID, places.proc).items() for path in paths}
    granted = {gpu: one for one in found if now < one.until for gpu in one.gpus}
    states = {}
    for number, (name, paths) in enumerate(there.items()):  # by nvidia-smi's number: MIG devices come after all GPUs
        if name not in whole:
            continue
        user = next((held[path] for path in paths if path in held), None)
        if name in granted:  # guard: what somebody was granted is not taken
            states[name] = number, "granted", granted[name].user, granted[name].until
        elif name not in working:  # guard: a GPU that is sick, or that the driver has lost, is granted to nobody
            states[name] = number, "lost", "-", 0
        elif user is not None:  # guard: a GPU that somebody's program has open is granted to nobody
            states[name] = number, "held", user, 0
        else:
            states[name] = number, FREE, "-", 0
    return states


def take(uid: int, pid: int, number: int, hours: int, kind: str, rule: SelfService, places: Places) -> str:
    """Grant so many GPUs to whoever asks. Returns the answer. Raises RefusedError, NodeError."""
    name = find_person(uid, places)
    started = grants.start_time(pid, places.proc) if kind == "run" else 0
    if started is None:
        raise RefusedError("failed")  # it has ended
    if hours > rule.hours:  # guard: nobody takes a GPU for longer than the rule allows
        raise RefusedError(f"too-long {rule.hours}")
    with ExitStack() as stack:
        stack.enter_context(flocked(reconcile.adding_path(places), 20.0))
        # guard: a GPU is taken while nobody else grants or takes one
        stack.enter_context(flocked(reconcile.lock_path(places), 20.0))
        now = time.time()
        settings, found = _granted(places)
        mine = [one for one in found if one.source == SOURCE and one.user == name and now < one.until]
        # guard: nobody takes more GPUs than the rule allows
        if sum(len(one.gpus) for one in mine) + number > rule.gpus:
            raise RefusedError(f"too-many {rule.gpus}")
        until = announcements.find_window(places.state, int(now), int(now) + 3600 * hours)
        if until <= now:  # guard: nobody takes a GPU of a node that is maintained
            raise RefusedError("maintained")
        states = look_at_gpus(places, found, settings, now)
        free = [gpu for gpu, (_, state, _, _) in states.items() if state == FREE][:number]
        if len(free) < number:
            counts = [sum(1 for one in states.values() if one[1] == state) for state in ("granted", "held", "lost")]
            raise RefusedError(f"none-free {len(free)} {' '.join(map(str, counts))}")
        new = grants.checked(
            Grant(
                f"run-{secrets.token_hex(4)}", name, uid, free, int(now), until, f"gpu {kind}", "", SOURCE,
                process=pid if started else 0, started=started,
            )
        )  # fmt: skip
        grants.write_until_boot(new, places.run)
        outcome = reconcile.under_lock(places, now, whole=False)
        if outcome.problems:  # guard: a GPU that could not be opened for somebody is not called theirs
            grants.delete([new.id], places.state, places.run)
            raise NodeError("; ".join([*outcome.problems, *reconcile.under_lock(places, now, whole=False).problems]))
    word = "taken" if until == int(now) + 3600 * hours else "taken-window"
    return f"{word} {new.id} {until} {','.join(str(states[gpu][0]) for gpu in free)} {' '.join(free)}"


def release(uid: int, which: str, places: Places) -> str:
    """End what somebody has taken. Returns the answer. Raises RefusedError, NodeError."""
    with flocked(reconcile.lock_path(places), 20.0):
        found, _problems = grants.read(places.state, places.run)
        mine = [one.id for one in found if one.source == SOURCE and which in ("all", one.id)]
        # guard: nobody gives back what another has
        mine = [one.id for one in found if one.id in mine and one.uid == uid]
        if not mine:
            raise RefusedError("nothing")
        problems = grants.delete(mine, places.state, places.run)
        outcome = reconcile.under_lock(places, time.time(), whole=False)
    if problems or outcome.problems:
        raise NodeError("; ".join([*problems, *outcome.problems]))
    return "released"


def show(places: Places) -> str:
    settings, found = _granted(places)
    states = look_at_gpus(places, found, settings, time.time())
    rows = (f"{number}|{state}|{who.replace(' ', '-')}|{at}" for number, state, who, at in states.values())
    return " ".join(["listed", *rows])


def _granted(places: Places) -> tuple[gate.Settings, list[Grant]]:
    settings = gate.read(places.settings)
    if settings.access != "granted":  # guard: where GPUs are everybody's nothing is granted
        raise RefusedError("open")
    found, problems = grants.read(places.state, places.run)
    if problems:  # guard: where a grant cannot be read no GPU is free
        raise NodeError(problems[0])
    return settings, found


def find_person(uid: int, places: Places) -> str:
    """Who asks, by name. Raises RefusedError for whoever has no account of the site's, or one that is over."""
    host = Host(places.root, os.path.relpath(places.state, places.root))
    try:
        # guard: GPUs are people's of the site, whose accounts are not over -> f"uid {uid}"
        return who(uid, host, int(time.time() // 86400))
    except Refused:
        raise RefusedError("unknown") from None


def answered(uid: int, line: str, rule: SelfService, places: Places) -> tuple[int, str]:
    """Given who asks, and their process with what they ask for, do it or say why not: an exit status, and a word with
    its values."""
    pid, _, request = line.partition(" ")
    match = _REQUEST.match(request)
    if match is None:  # guard: a line that is no request takes no GPU
        return 1, "failed"
    try:
        if match[1]:
            done = take(uid, int(pid), int(match[1]), int(match[2]), match[3], rule, places)
        else:
            done = release(uid, match[4], places) if match[4] else show(places)
    except RefusedError as error:
        return 1, str(error)
    except NodeError as error:
        print(f"uid {uid}: {request}: {error}", file=sys.stderr, flush=True)
        return 1, "failed"
    if not done.startswith("listed"):
        print(f"uid {uid}: {done}", flush=True)  # the journal says who took what
    return 0, done


def main(places: Places | None = None, rule: Callable[[], SelfService | None] = read_rule) -> int:
    """What the unit runs: its socket is given by systemd."""
    listener, allowed = peercred_service.given_socket(), rule()
    if listener is None or allowed is None:
        print("this is started by gpuadmin-gpus.socket; people run gpu", file=sys.stderr)
        return 2
    where = places or Places()
    with listener:
        # guard: nobody keeps others from GPUs by subordinate ids -> lambda: lambda _uid: None
        refusals = partial(subordinate, where.state, "unknown")
        act = partial(answered, rule=allowed, places=where)
        peercred_service.serve_requests(
            listener, refusals, act, "failed", busy="busy", read=peercred_service.lines_with_process
        )
    return 0
