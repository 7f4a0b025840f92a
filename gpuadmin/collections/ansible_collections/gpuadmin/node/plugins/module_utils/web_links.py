"""The node's service that signs a link to the dashboard for whoever asks, in the name that the kernel gives them.

It needs the standard library alone. People who are locked, have expired or are not in the site get none.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from functools import partial

from gpuadmin.common import tokens

from . import peercred_service
from .accounts.converge import Host
from .accounts.desired import DesiredState, load, subordinate
from .accounts.docker_self import member_name
from .errors import NodeError
from .files import read_bytes
from .lookup import find_name
from .paths import STATE
from .textdb import number

SETTINGS = os.path.join(STATE, "web-links.json")
KEY = "dashboard/link.key"  # below the state directory; root's alone
#: Words for which gpuadmin-me has the texts (web_reach.py), in the language of whoever asks.
FAILED, BUSY = "failed", "busy"


class Refused(NodeError):
    """Somebody gets no link; ``str(error)`` is the word for why."""


def who(uid: int, host: Host, today: int, *, nodes: bool = True) -> str:
    """The name in which a link is signed for a uid; ``today``: days since 1970-01-01. ``nodes``: only on a host where
    people log in. Raises Refused, and NodeError if the host itself is not as it should be.
    """
    desired = load(host.path(host.state))
    settings = desired.settings
    if (
        settings is None
        # guard: where nobody logs in nobody gets a link
        or (nodes and not settings.login)
    ):
        raise Refused("no-accounts")
    if uid not in settings.people:
        raise Refused("stranger")
    if settings.source == "registry":
        name = _registered(uid, desired)
        fields = _shadow(host, name)
        if (
            fields is None
            # guard: a link is in the name that this host gives to who asks
            or find_name(uid) != name
        ):
            raise Refused("not-here")
        ends = (desired.records[name].user.expires, number(fields[7]))
        # guard: who is locked gets no link -> False
        locked = desired.records[name].user.locked or fields[1].startswith("!")
    else:
        found = member_name(uid, settings.group)
        if found is None:
            raise Refused("no-member")
        record = desired.records.get(found)
        name, locked = (
            found,
            # guard: an account of a directory that is locked gets no link -> False
            record is not None and record.user.locked,
        )
        ends = (
            None
            if record is None
            else record.user.expires,  # guard: an account of a directory that has expired gets no link
            None,
        )
    if locked:
        raise Refused("locked")
    if any(day is not None and day <= today for day in ends):  # guard: whose account has expired gets no link
        raise Refused("expired")
    return name


def _registered(uid: int, desired: DesiredState) -> str:
    found = [one.user.name for one in desired.records.values() if one.user.uid == uid]
    if len(found) != 1:  # guard: a uid of two gets no link -> not found
        raise Refused("not-ours")
    return found[0]


def _shadow(host: Host, name: str) -> list[str] | None:
    raw = read_bytes(host.path("etc/shadow")) or b""
    lines = [line.split(":") for line in raw.decode("utf-8", "surrogateescape").splitlines()]
    found = [
        fields
        for fields in lines
        if fields[0] == name
        # guard: an account of half a line gets no link
        and len(fields) == 9
    ]
    return (
        found[0]
        if len(found) == 1  # guard: an account of two lines gets no link -> found
        else None
    )


def link(uid: int, host: Host, node: str, address: str, now: float) -> tuple[int, str]:
    """Given who asks, return an exit status and a link of ``address``, or the word that says why there is none."""
    try:
        name = who(uid, host, int(now // 86400))
        key = load_key(os.path.join(host.path(host.state), KEY))
    except Refused as refused:
        return 1, str(refused)
    except NodeError as error:
        print(f"uid {uid}: {error}", file=sys.stderr, flush=True)
        return 1, FAILED
    return 0, f"{address}/enter?link={tokens.sign(key, tokens.LINK, node, name, int(now))}"


def load_key(path: str) -> bytes:
    """Read the key with which this node signs. Raises NodeError."""
    raw = read_bytes(path)
    try:
        key = bytes.fromhex((raw or b"").decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != 32:
        raise NodeError(f"{KEY} is missing, or not what gpuadmin provision writes")
    return key


def main(host: Host, settings: str = SETTINGS, clock: Callable[[], float] = time.time) -> int:
    """What the unit runs: its socket is given by systemd. Raises NodeError."""
    listener = peercred_service.given_socket()
    if listener is None:
        print("this is started by gpuadmin-web-link.socket; people run gpuadmin-me web", file=sys.stderr)
        return 2
    with listener:
        raw = read_bytes(settings)
        try:
            known = json.loads(raw or b"")
            node, address = str(known["node"]), str(known["address"])
        except (ValueError, KeyError, TypeError):
            raise NodeError(f"{settings} is not what gpuadmin provision writes") from None

        def act(uid: int) -> tuple[int, str]:
            return link(uid, host, node, address, clock())

        # guard: nobody keeps others from their links by subordinate ids -> lambda: lambda _uid: None
        refusals = partial(subordinate, host.path(host.state), "stranger")
        peercred_service.serve(
            listener, refusals, act, FAILED, idle=peercred_service.IDLE, life=peercred_service.LIFE, busy=BUSY
        )
    return 0
