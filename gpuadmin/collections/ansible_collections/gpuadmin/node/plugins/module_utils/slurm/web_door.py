"""The door for the dashboard's buttons, on the queue's host: one request, done as the person whom it names.

systemd starts a process for each connection. It talks to whoever shows the certificate of the dashboard's buttons, and
runs the program `gpu`: what Slurm and the site's policy refuse in a shell, they refuse here.
"""

from __future__ import annotations

import os
import pwd
import socket
import ssl
import sys
import time
from collections.abc import Callable
from typing import Any

from gpuadmin.common.pressed import ASKER, LARGEST, LONGEST, SECONDS, Pressed, parse_line

from ..accounts.converge import Host
from ..errors import NodeError, in_words
from ..paths import STATE
from ..run import LateError, run_command
from ..web_links import Refused, who

PROGRAM = "/usr/local/bin/gpu"  # as nodes have it
AUTHORITY, OWN = "/etc/gpuadmin/metrics/authority.pem", os.path.join(STATE, "metrics_tls", "exporter")
CONNECTED = 0  # the descriptor that systemd gives (StandardInput=socket)
TALK = 10.0  # seconds for TLS and for the request
#: Statuses besides those of `gpu`: nobody of that name may ask; it is not known whether it was done.
NOT_LET_IN, LATE = 8, 9


def tls(authority: str = AUTHORITY, own: str = OWN) -> ssl.SSLContext:
    """Who may talk: those with a certificate that the site has signed for asking. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.verify_mode = ssl.CERT_REQUIRED  # guard: the door asks for a certificate
    context.load_verify_locations(authority)
    context.load_cert_chain(f"{own}.pem", f"{own}.key")
    return context


def find_person(name: str, host: Host, now: float) -> pwd.struct_passwd:
    """The account in which a button is pressed. Raises Refused, NodeError."""
    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise Refused("stranger") from None
    # guard: a button is pressed for people who may come in -> name
    if who(found.pw_uid, host, int(now // 86400), nodes=False) != name:
        raise Refused("not-ours")
    return found


def act(pressed: Pressed, person: pwd.struct_passwd) -> tuple[int, str]:
    """Do it as that person: the exit status of `gpu`, and what it says."""
    become = (
        "setpriv", f"--reuid={person.pw_uid}", f"--regid={person.pw_gid}", "--clear-groups", "--no-new-privs"
    )  # fmt: skip
    command = (
        *become,  # guard: a button does what its person may do
        PROGRAM,
        *pressed.command(),
    )
    try:
        done = run_command(command, seconds=SECONDS)
    except LateError:
        return LATE, ""
    return done.returncode, (done.stdout + done.stderr).strip()


def answer(line: str, host: Host, now: float) -> str:
    """Given a request, do it and return what is sent back: a status, and on further lines what `gpu` says."""
    pressed = parse_line(line)
    if pressed is None:
        return f"{NOT_LET_IN}\n"
    try:
        person = find_person(pressed.user, host, now)
        status, text = act(pressed, person)
    except (NodeError, OSError) as error:
        print(f"{line}: {in_words(error)}", file=sys.stderr, flush=True)
        return f"{NOT_LET_IN}\n"
    print(f"{line}: {status}", file=sys.stderr, flush=True)  # the journal says who was given what
    return f"{status}\n{text}\n"


def serve(connection: socket.socket, context: ssl.SSLContext, host: Host, now: float) -> int:
    """One request of one connection. Exit 0; 1 for somebody whom nobody lets in."""
    connection.settimeout(TALK)
    try:
        with context.wrap_socket(connection, server_side=True) as channel:
            shown: Any = (channel.getpeercert() or {}).get("subject", ())
            # guard: only the dashboard's certificate opens the door -> ASKER
            asker = dict(part for parts in shown for part in parts).get("commonName")
            if asker != ASKER:
                print(f"{asker!r} may not ask here", file=sys.stderr)
                return 1
            line = _read_line(channel)
            channel.settimeout(SECONDS)
            channel.sendall(answer(line, host, now).encode("utf-8", "replace")[:LARGEST])
    except OSError as error:  # ssl's errors and a silent end are such
        print(f"nobody was let in: {in_words(error)}", file=sys.stderr)
        return 1
    return 0


def _read_line(channel: ssl.SSLSocket) -> str:
    text = b""
    while not text.endswith(b"\n") and len(text) <= LONGEST:
        part = channel.recv(LONGEST)
        if not part:
            break
        text += part
    return text[:-1].decode("ascii", "replace") if text.endswith(b"\n") and len(text) <= LONGEST else ""


def main(clock: Callable[[], float] = time.time) -> int:
    """What the unit runs, for one connection. Raises NodeError."""
    try:
        connection, context = socket.socket(fileno=os.dup(CONNECTED)), tls()
    except OSError as error:
        raise NodeError(f"the door cannot be opened: {in_words(error)}; systemd starts it, for a connection") from None
    return serve(connection, context, Host(), clock())
