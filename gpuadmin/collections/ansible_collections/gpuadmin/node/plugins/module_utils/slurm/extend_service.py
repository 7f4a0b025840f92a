"""The service behind `gpu extend` and `gpu book`: it does for people what Slurm lets only operators do. The kernel says
who asks, and the site's policy says how much they get.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from gpuadmin.common.records.queue import Policy

from .. import peercred_service
from ..accounts.desired import subordinate
from ..errors import NodeError, in_words
from ..files import read_bytes
from ..lookup import find_name
from ..paths import STATE
from ..run import run
from . import booking, exceptions, mail_choice, queue
from .accounts import EXCEPTION
from .policy import PATH, RefusedError, read_policy

SOCKET = "/run/gpuadmin-queue.sock"
HOUR = 3600
#: Reasons of those who wait for GPUs that somebody else has (waiting.WHY); others wait for themselves, or a node.
FOR_OTHERS = ("priority", "resources", "unread", "other")
_NUMBER, _NODE = "[1-9][0-9]{0,3}", "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_REQUESTS = {
    "extend": re.compile(rf"extend ([1-9][0-9]{{0,9}}(?:_[0-9]{{1,7}})?) ({_NUMBER})\Z"),
    "book": re.compile(rf"book ({_NUMBER}) ({_NUMBER}) ([1-9][0-9]{{0,11}})((?: {_NODE})?)\Z"),
    "cancel": re.compile(rf"cancel ({_NUMBER})\Z"),
    "mail": re.compile(r"mail (on|off|ko|en)\Z"),
}


def extend(user: str, id: str, hours: int, policy: Policy) -> str:
    """Give a job of somebody's more time. Returns its new end. Raises RefusedError, NodeError."""
    queue.alive()
    jobs = queue.ask_jobs()
    mine = next(
        (
            one
            for one in jobs
            if one["id"] == id and one["user"] == user  # guard: more time is given for a job of one's own alone
        ),
        None,
    )
    if mine is None or mine["start"] is None or mine["end"] is None:
        raise RefusedError(f"not-running {id}")
    # guard: an exception gets more time from an admin alone
    if mine["qos"] == EXCEPTION:
        who = re.sub(r"[^\w.@-]", "", exceptions.read_comments([id])[id]["who"])[:64]
        raise RefusedError(f"exception {id} {mine['end']} {who or '?'}")
    if policy.extend == "never":  # guard: nobody gets more time where the site says never
        raise RefusedError("never")
    most = policy.hours.get(mine["group"])
    if most is None:
        raise RefusedError("unknown")
    until = mine["end"] + hours * HOUR
    if until > mine["start"] + most * HOUR:  # guard: no job gets longer than its group's longest
        raise RefusedError(f"too-long {most} {mine['start'] + most * HOUR}")
    waiting = {one["user"] for one in jobs if one["gpus"] and one["waits"] and queue.code(one["reason"]) in FOR_OTHERS}
    # guard: nobody keeps a GPU longer that others wait for
    if policy.extend == "free" and waiting - {user}:
        raise RefusedError(f"others {len(waiting - {user})}")
    for one in booking.reservations():
        # guard: nobody keeps a GPU into somebody else's reservation
        if one.begin < until and user not in one.users and set(one.nodes) & set(mine["nodes"].split(",")):
            raise RefusedError(f"taken-from {one.begin}")
        # Slurm ends the job then, whatever its time is
        # guard: a job gets no time beyond the booking that it runs in
        if one.name == mine["booking"] and until > one.end:
            raise RefusedError(f"booked-until {one.end}")
    minutes = -(-(until - mine["start"]) // 60)
    # not `+60`: asked twice at once, it is done once
    run(["scontrol", "update", f"JobId={id}", f"TimeLimit={minutes}"])
    return f"extended {id} {until}"


def answered(uid: int, request: str, policy: Policy, now: float) -> tuple[int, str]:
    """Given who asks and what, do it or say why not: an exit status, and a word with its values."""
    word = request.partition(" ")[0]
    match = _REQUESTS[word].match(request) if word in _REQUESTS else None
    # guard: what is not a request of ours is not understood as one
    if match is None or (word != "mail" and int(match[2 if word != "cancel" else 1]) > queue.MOST_HOURS):
        return 1, "not-understood"
    try:
        name = find_name(uid)
        if name is None:
            raise RefusedError("unknown")
        if word == "extend":
            done = extend(name, match[1], int(match[2]), policy)
        elif word == "book":
            done = booking.book(name, int(match[1]), int(match[2]), int(match[3]), match[4].strip(), policy, now)
        elif word == "mail":
            done = mail_choice.choose(name, match[1])
        else:
            done = booking.cancel(name, int(match[1]))
    except RefusedError as error:
        return 1, str(error)
    except queue.AwayError:
        return 1, "away"
    except NodeError as error:
        print(f"uid {uid}: {request}: {error}", file=sys.stderr, flush=True)
        return 1, "failed"
    print(f"{name}: {done}", flush=True)  # the journal says who was given what
    return 0, done


def main(
    path: str = PATH,
    clock: Callable[[], float] = time.time,
    state: str = STATE,
    follow: Callable[[], object] | None = None,
) -> int:
    """What the unit runs: its socket is given by systemd. ``follow``: brings what this node says of jobs to their new
    ends. Raises NodeError.
    """
    from . import login_lines  # and the gate with it, which `gpu` need not wait for

    listener = peercred_service.given_socket()
    if listener is None:
        print("this is started by gpuadmin-queue-asked.socket; people run gpu extend and gpu book", file=sys.stderr)
        return 2
    with listener:
        policy = read_policy(read_bytes(path))

        def act(uid: int, request: str) -> tuple[int, str]:
            status, word = answered(uid, request, policy, clock())
            if word.startswith("extended "):  # the same end everywhere, once the person reads of it
                try:
                    (follow or login_lines.main)()
                except (NodeError, OSError) as error:  # the timer does it within a minute
                    print(f"uid {uid}: {request}: {in_words(error)}", file=sys.stderr, flush=True)
            return status, word

        # guard: nobody keeps others from the queue by subordinate ids -> lambda: lambda _uid: None
        refusals = partial(subordinate, state, "unknown")
        peercred_service.serve_requests(listener, refusals, act, "failed", busy="busy")
    return 0


def ask(request: str, seconds: float = 60.0, path: str = SOCKET) -> tuple[int, Sequence[Any]] | None:
    """Ask as whoever runs this: an exit status, and the word with its values. None: nobody answers."""
    found = peercred_service.ask(path, seconds, request)
    return None if found is None else (found[0], found[1].split(" "))
