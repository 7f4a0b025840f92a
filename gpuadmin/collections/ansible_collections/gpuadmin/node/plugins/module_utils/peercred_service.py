"""A systemd service for whoever connects to a unix socket: it learns from the kernel who asks, and reads
nothing, or one line of theirs.

One process for all: one connection per person counts at a time, and a flood costs microseconds each (decision 5).
"""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress

FIRST_DESCRIPTOR = 3  # sd_listen_fds(3)
ROUND = 4096  # connections to look at together; only a person's first one counts
PAUSE = 0.05  # seconds between two rounds, in which others get the lock and the processor
IDLE = 20.0  # seconds without a question after which the service ends
LIFE = 600.0  # seconds after which it ends in any case, and systemd starts it again
LONGEST = 4096  # bytes of an answer
LINE = 200  # bytes of a request
READ = 0.3  # seconds for all who ask in a round to send theirs, together
BUSY = "You have asked already; wait for the answer."

#: Why somebody is refused at once, by uid; None for whoever is not.
Refusal = Callable[[int], "str | None"]
#: What is done for a uid: an exit status, and what to say.
Act = Callable[[int], "tuple[int, str]"]
#: The same, with the line that they sent.
ActOnRequest = Callable[[int, str], "tuple[int, str]"]


def peer_uid(connection: socket.socket) -> int:
    """Who is at the other end, as the kernel recorded at connect time (unix(7)); nothing is read from them."""
    return _peer(connection)[1]


def _peer(connection: socket.socket) -> tuple[int, int]:
    """The process at the other end, and its uid."""
    pid, uid, _gid = struct.unpack(
        "=iII",
        # guard: the kernel says who asks -> struct.pack('=iII', 0, 20002, 0)
        connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12),
    )
    return int(pid), int(uid)


def answer(connection: socket.socket, status: int, text: str) -> None:
    """Send what was found, without waiting for somebody who does not read, and hang up. No lock is held here."""
    with connection, suppress(OSError):
        connection.setblocking(False)
        connection.send(f"{status} {text}\n".encode()[:LONGEST])


def waiting(listener: socket.socket, refusal: Refusal, busy: str = BUSY) -> dict[int, socket.socket]:
    """Whoever has connected, one connection for each person; strangers and further ones are answered at once."""
    found: dict[int, socket.socket] = {}
    for _ in range(ROUND):
        try:
            connection, _address = listener.accept()
        except OSError:  # nobody (more), or no longer
            break
        uid = peer_uid(connection)
        why = (
            busy
            if uid in found  # guard: of one person only one connection at a time counts
            else refusal(uid)
        )
        if why:
            answer(connection, 1, why)
        else:
            found[uid] = connection
    return found


def lines(found: Mapping[int, socket.socket], seconds: float = READ) -> dict[int, str]:
    """What each person has sent in that time, up to the end of a line; what is no such line is an empty text."""
    end = time.monotonic() + seconds
    sent, waits = dict.fromkeys(found, b""), dict(found)
    for connection in found.values():
        connection.setblocking(False)
    while waits:
        left = end - time.monotonic()
        if left <= 0:  # guard: who sends nothing holds nobody else up
            break
        ready = select.select(list(waits.values()), [], [], max(left, 0))[0]
        for uid, connection in list(waits.items()):
            if connection not in ready:
                continue
            try:
                part = connection.recv(LINE)
            except OSError:
                part = b""
            sent[uid] += part
            if not part or b"\n" in part or len(sent[uid]) > LINE:
                del waits[uid]
    return {
        uid: text[:-1].decode("ascii", "replace") if text.endswith(b"\n") and text.count(b"\n") == 1 else ""
        for uid, text in sent.items()
    }


def lines_with_process(found: Mapping[int, socket.socket]) -> dict[int, str]:
    """The same, each behind the number of the process that asks."""
    pids = {uid: _peer(connection)[0] for uid, connection in found.items()}
    return {uid: f"{pids[uid]} {text}" for uid, text in lines(found).items()}


def serve_requests(
    listener: socket.socket,
    refusals: Callable[[], Refusal],
    act: ActOnRequest,
    failed: str,
    *,
    busy: str = BUSY,
    read: Callable[[Mapping[int, socket.socket]], Mapping[int, str]] = lines,
) -> None:
    """As `serve`, for people who send a line."""
    _serve(listener, refusals, act, failed, idle=IDLE, life=LIFE, busy=busy, read=read)


def serve(
    listener: socket.socket,
    refusals: Callable[[], Refusal],
    act: Act,
    failed: str,
    *,
    idle: float,
    life: float,
    busy: str = BUSY,
) -> None:
    """Answer until nobody asked for ``idle`` seconds, or ``life`` seconds are over, or SIGTERM comes.

    ``refusals`` is asked once a round. ``failed``: what somebody is told whose request met something unexpected;
    ``busy``: who has asked already.
    """
    _serve(
        listener, refusals, lambda uid, _text: act(uid), failed, idle=idle, life=life, busy=busy,
        read=lambda found: dict.fromkeys(found, ""),
    )  # fmt: skip


def _serve(
    listener: socket.socket,
    refusals: Callable[[], Refusal],
    act: ActOnRequest,
    failed: str,
    *,
    idle: float,
    life: float,
    busy: str,
    read: Callable[[Mapping[int, socket.socket]], Mapping[int, str]],
) -> None:
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
        found = waiting(listener, refusals(), busy)
        said = read(found)
        for uid, connection in found.items():
            try:
                status, text = act(uid, said[uid])
            # guard: one whose request breaks does not end it for the others -> MemoryError
            except Exception as error:  # whatever happens to one person's request, the others' go on
                status, text = 1, failed
                print(f"uid {uid}: {type(error).__name__}: {error}", file=sys.stderr, flush=True)
            answer(connection, status, text)
        time.sleep(PAUSE)  # people who ask again and again wait; the node does not
        last = time.monotonic()


def given_socket() -> socket.socket | None:
    """The socket that systemd gives to a unit that has one (sd_listen_fds(3)); None if it gave none."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()) or os.environ.get("LISTEN_FDS") != "1":
        return None
    listener = socket.socket(fileno=FIRST_DESCRIPTOR)
    listener.set_inheritable(False)
    return listener


def ask(path: str, seconds: float, request: str | None = None) -> tuple[int, str] | None:
    """Connect as whoever runs this, and return (status, text); None if there is no answer in time. ``request``: a line
    to send."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        # The kernel's own timeouts: with Python's, connecting would not wait where many others do.
        left = struct.pack("@ll", max(1, int(seconds)), 0)
        for option in (socket.SO_SNDTIMEO, socket.SO_RCVTIMEO):
            channel.setsockopt(socket.SOL_SOCKET, option, left)
        output = b""
        try:
            channel.connect(path)
            if request is not None:
                channel.sendall(f"{request}\n".encode("ascii"))
            while not output.endswith(b"\n") and len(output) <= LONGEST:
                part = channel.recv(LONGEST)
                if not part:
                    return None
                output += part
        except OSError:
            return None
    status, _, text = output.decode("utf-8", "replace").strip().partition(" ")
    return (int(status), text) if status in ("0", "1") else None
