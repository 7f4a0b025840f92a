"""Docker for whoever asks for it: a service of systemd's that knows who asks from the kernel and reads nothing.

It runs outside of the caller's session, terminal and cgroup: a person can ask, and can neither stop nor slow what is
done then. Decision 0005 says why it is one service for all and not one process for each connection.
"""

from __future__ import annotations

import grp
import os
import pwd
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from ..errors import NodeError
from .converge import Host, converge
from .desired import DesiredState, Settings, load
from .plan import Request

FIRST_DESCRIPTOR = 3  # sd_listen_fds(3)
ROUND = 4096  # connections that are looked at together; of one person's only the first counts
PAUSE = 0.05  # seconds between two rounds, in which others get the lock and the processor
IDLE = 20.0  # seconds without a question after which the service ends
LIFE = 600.0  # seconds after which it ends in any case, and systemd starts it again
PATIENCE = 20.0  # seconds that another one may hold the accounts; the next in the row waits for it too
BUSY = "You have asked already; wait for the answer."


class Refused(NodeError):
    """Somebody does not get Docker; ``str(error)`` tells them why."""


def stranger(settings: Settings | None, uid: int) -> str | None:
    """Why ``uid`` is nobody who could get Docker on this host, or None. Subordinate ids are nobody, too."""
    if settings is None or settings.docker_data is None or not settings.login:
        return "Docker is not set up on this host. Ask the admins."
    last = settings.uid_last if settings.source == "registry" else settings.subid_base - 1
    if not settings.uid_first <= uid <= last:
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

    The lock is taken only when something is to be done, so whoever asks again and again holds nobody up.
    """
    name = None
    settings = load(host.path(host.state)).settings
    if settings is not None and settings.source == "directory":
        name = member_name(uid, settings.group)
    asked = request_for(uid, name)
    try:
        for check in (True, False):
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


def peer_uid(connection: socket.socket) -> int:
    """Who is at the other end, as the kernel noted when they connected (unix(7)); nothing is read from them."""
    _pid, uid, _gid = struct.unpack("=iII", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return int(uid)


def answer(connection: socket.socket, status: int, text: str) -> None:
    """Send what was found, without waiting for somebody who does not read, and hang up. No lock is held here."""
    with connection, suppress(OSError):
        connection.setblocking(False)
        connection.send(f"{status} {text}\n".encode()[:4096])


def _refusals(host: Host) -> Callable[[int], str | None]:
    """Why somebody is refused at once, by uid."""
    try:
        settings = load(host.path(host.state)).settings
    except NodeError as error:
        print(error, file=sys.stderr, flush=True)
        return lambda _uid: "The accounts of this host cannot be read. Ask the admins."
    return lambda uid: stranger(settings, uid)


def _waiting(listener: socket.socket, refusal: Callable[[int], str | None]) -> dict[int, socket.socket]:
    """Whoever has connected, one connection for each person; strangers and further ones are answered at once."""
    found: dict[int, socket.socket] = {}
    for _ in range(ROUND):
        try:
            connection, _address = listener.accept()
        except OSError:  # nobody (more), or no longer
            break
        uid = peer_uid(connection)
        why = BUSY if uid in found else refusal(uid)
        if why:
            answer(connection, 1, why)
        else:
            found[uid] = connection
    return found


def serve(listener: socket.socket, host: Host, *, idle: float = IDLE, life: float = LIFE) -> None:
    """Answer until nobody asked for ``idle`` seconds, or ``life`` seconds are over, or SIGTERM comes."""
    stopped = False

    def stop(_number: int, _frame: object) -> None:
        nonlocal stopped
        stopped = True  # what is being done is completed

    signal.signal(signal.SIGTERM, stop)
    listener.setblocking(False)
    begun = last = time.monotonic()
    while not stopped and time.monotonic() < begun + life:
        if not select.select([listener], [], [], min(idle, 1.0))[0]:  # a signal does not end it
            if time.monotonic() > last + idle:
                return
            continue
        for uid, connection in _waiting(listener, _refusals(host)).items():
            try:
                status, text = docker_self(host, uid)
            except NodeError as error:
                status, text = 1, f"Docker could not be set up: {error}. Ask the admins."
                print(f"uid {uid}: {error}", file=sys.stderr, flush=True)
            except Exception as error:  # whatever one person's request meets, the others' go on
                status, text = 1, "Docker could not be set up. Ask the admins."
                print(f"uid {uid}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            answer(connection, status, text)
        time.sleep(PAUSE)  # people who ask again and again wait, and the node does not
        last = time.monotonic()


def main(host: Host) -> int:
    """What the unit runs: its socket is given by systemd (sd_listen_fds(3))."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        print("this is started by gpuadmin-docker-self.socket; people run add-me-to-docker-user", file=sys.stderr)
        return 2
    with socket.socket(fileno=FIRST_DESCRIPTOR) as listener:
        listener.set_inheritable(False)
        serve(listener, host)
    return 0
