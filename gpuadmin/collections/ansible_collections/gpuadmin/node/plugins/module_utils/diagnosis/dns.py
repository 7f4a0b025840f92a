"""The name servers of a host, and whether they answer at all: each gets one question by UDP, and any answer will do."""

from __future__ import annotations

import os
import secrets
import socket
from typing import Any

from ..bounded import read_small, short
from ..errors import NodeError, in_words
from .subject import Subject

SECONDS = 0.8  # for a server; three are asked at most (resolv.conf(5): MAXNS)
MOST = 3
FILE = "etc/resolv.conf"
#: Servers that systemd-resolved asks, where it is the one that is asked; it answers itself, whatever is behind it.
BEHIND = "run/systemd/resolve/resolv.conf"
STUB = ("127.0.0.53", "127.0.0.54")


def dns(subject: Subject) -> dict[str, Any]:
    """``servers``: those that the host asks. ``problems``: server → why it does not help."""
    servers = _read_servers(subject, FILE)
    if set(servers) & set(STUB):
        servers = _read_servers(subject, BEHIND) or servers
    problems = {server: words for server in servers if (words := find_problem(server)) is not None}
    return {"servers": servers, "problems": problems}


def _read_servers(subject: Subject, name: str) -> list[str]:
    # the file is a link wherever systemd-resolved is; only root writes to /etc and /run
    try:
        text = read_small(os.path.realpath(subject.path(name))).decode("utf-8", "replace")
    except (OSError, NodeError):
        return []
    words = [line.split() for line in text.splitlines()]
    return [short(one[1], 60) for one in words if len(one) > 1 and one[0] == "nameserver"][:MOST]


def find_problem(server: str, port: int = 53) -> str | None:
    """The reason of a silence; None: the server answers, whatever it says (RFC 1035: 12 bytes, one question)."""
    question = secrets.token_bytes(2) + b"\1\0\0\1\0\0\0\0\0\0" + b"\0" + b"\0\2" + b"\0\1"  # NS of the root
    try:
        family = socket.getaddrinfo(server, port, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)[0]
        with socket.socket(family[0], socket.SOCK_DGRAM) as channel:
            channel.settimeout(SECONDS)
            channel.connect(family[4])
            channel.send(question)
            return None if channel.recv(512)[:2] == question[:2] else "says something else"
    except socket.timeout:
        return f"no answer in {SECONDS:g} s"
    except (OSError, UnicodeError) as error:
        return short(in_words(error) if isinstance(error, OSError) else error)
