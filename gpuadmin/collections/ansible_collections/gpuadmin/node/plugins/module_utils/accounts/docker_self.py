"""Docker for whoever asks for it: a systemd service that learns from the kernel who asks, and reads nothing.

It runs outside of the caller's session, terminal and cgroup: a person can ask, but can neither stop nor slow down what
follows. Decision 0005 says why it is one service for all and not one process for each connection.
"""

from __future__ import annotations

import grp
import os
import pwd
import socket
import sys
from collections.abc import Callable
from functools import partial

from .. import peercred_service
from ..errors import NodeError
from .converge import Host, converge
from .desired import DesiredState, Settings, load
from .plan import Request

PATIENCE = 20.0  # seconds that somebody else may hold the accounts; the next in the queue waits for it too


class Refused(NodeError):
    """Somebody does not get Docker; ``str(error)`` tells them why."""


def stranger(settings: Settings | None, uid: int) -> str | None:
    """Why ``uid`` is nobody who could get Docker on this host, or None. Subordinate ids are nobody, too."""
    if settings is None or settings.docker_data is None or not settings.login:
        return "Docker is not set up on this host. Ask the admins."
    # guard: whoever is not a person of the site is refused before anything is read for them
    if uid not in settings.people:
        return f"uid {uid} is not an account that gpuadmin gives Docker to."
    return None


def request_for(uid: int, name: str | None) -> Callable[[DesiredState], Request]:
    """What ``uid`` asks for, as a difference: it is decided from the desired state under the lock, never before.

    ``name``: what NSS calls a member of the people's group; needed where accounts come from a directory.
    """

    def decide(desired: DesiredState) -> Request:
        settings, why = desired.settings, stranger(desired.settings, uid)
        if settings is None or why:
            raise Refused(why)
        if settings.source == "directory":
            if name is None:
                raise Refused(f"uid {uid} is not in the group {settings.group}. Ask the admins.")
            return Request(settings, docker=[(name, uid)])
        found = [one.user.name for one in desired.records.values() if one.user.uid == uid]
        if len(found) != 1:
            raise Refused("Your account was not made by gpuadmin. Ask the admins.")
        return Request(settings, docker=[(found[0], uid)])

    return decide


def member_name(uid: int, group: str) -> str | None:
    """What NSS calls ``uid``, if it has them in ``group``. Asked before the lock: a directory may be slow."""
    try:
        entry = pwd.getpwuid(uid)
        member = grp.getgrnam(group).gr_gid in os.getgrouplist(entry.pw_name, entry.pw_gid)
    except KeyError:
        return None
    return entry.pw_name if member else None


def docker_self(host: Host, uid: int) -> tuple[int, str]:
    """Give the account ``uid`` subids and a place for Docker's data; return (exit status, what to tell).

    The lock is taken only if there is something to do, so whoever asks again and again delays nobody.
    """
    name = None
    settings = load(host.path(host.state)).settings
    if settings is not None and settings.source == "directory":
        name = member_name(uid, settings.group)
    asked = request_for(uid, name)
    try:
        for check in (
            True,  # guard: the lock is taken only when something is to be done
            False,
        ):
            outcome = converge(asked, host, check=check, seconds=PATIENCE)
            assert outcome.request is not None
            ((who, _uid),) = outcome.request.docker
            entry = outcome.plan.users[who]
            if entry.status in ("conflict", "unknown"):
                return 1, f"Docker could not be set up for {who}: {entry.problem}. Ask the admins."
            if not outcome.changed:
                return 0, f"{who}: Docker is set up already."
    except Refused as refused:
        return 1, str(refused)
    return 0, f"{who}: Docker is set up now. Log in again, then: docker run ..."


def _refusals(host: Host) -> Callable[[int], str | None]:
    """Why somebody is refused at once, by uid."""
    try:
        settings = load(host.path(host.state)).settings
    except NodeError as error:
        print(error, file=sys.stderr, flush=True)
        return lambda _uid: "The accounts of this host cannot be read. Ask the admins."
    return lambda uid: stranger(settings, uid)


def _act(host: Host, uid: int) -> tuple[int, str]:
    try:
        return docker_self(host, uid)
    except NodeError as error:
        print(f"uid {uid}: {error}", file=sys.stderr, flush=True)
        return 1, f"Docker could not be set up: {error}. Ask the admins."


def serve(
    listener: socket.socket, host: Host, *, idle: float = peercred_service.IDLE, life: float = peercred_service.LIFE
) -> None:
    """Answer until nobody asked for ``idle`` seconds, or ``life`` seconds are over, or SIGTERM comes."""
    failed = "Docker could not be set up. Ask the admins."
    peercred_service.serve(listener, partial(_refusals, host), partial(_act, host), failed, idle=idle, life=life)


def main(host: Host) -> int:
    """What the unit runs: its socket is given by systemd (sd_listen_fds(3))."""
    listener = peercred_service.given_socket()
    if listener is None:
        print("this is started by gpuadmin-docker-self.socket; people run add-me-to-docker-user", file=sys.stderr)
        return 2
    with listener:
        serve(listener, host)
    return 0
