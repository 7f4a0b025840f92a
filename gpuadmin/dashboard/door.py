"""The way to the queue's host for a button that somebody has pressed: one line, over TLS, and what `gpu` said there."""

from __future__ import annotations

import asyncio
import socket
import ssl

from ..common.pressed import LARGEST, PORT, SECONDS, Pressed
from .files import DashboardError, in_words

AT_ONCE = 4  # requests, of all people together
TALK = 10.0  # seconds to be let in


class Door:
    """The door of a host. ``certificate``: a file with the dashboard's certificate and key."""

    def __init__(self, host: str, authority: str, certificate: str, port: int = PORT) -> None:
        self._at = host, port
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_3
        self._context.load_verify_locations(authority)
        self._context.load_cert_chain(certificate)
        self._turns: asyncio.Semaphore | None = None

    async def ask(self, pressed: Pressed) -> tuple[int, str]:
        """Have it done: an exit status (web_door.py), and what `gpu` says. Raises DashboardError: nobody answers."""
        self._turns = self._turns or asyncio.Semaphore(AT_ONCE)  # of the loop that runs
        async with self._turns:  # guard: buttons that are pressed at once wait for each other
            return await asyncio.to_thread(self._talk, pressed)

    def _talk(self, pressed: Pressed) -> tuple[int, str]:
        answer = b""
        try:
            plain = socket.create_connection(self._at, TALK)
            with plain, self._context.wrap_socket(plain, server_hostname=self._at[0]) as channel:
                channel.sendall(f"{pressed.line()}\n".encode("ascii"))
                channel.settimeout(SECONDS + TALK)
                while len(answer) <= LARGEST and (part := channel.recv(LARGEST)):
                    answer += part
        except OSError as error:  # ssl's errors are such
            raise DashboardError(f"the queue's host does not answer: {in_words(error)}") from None
        status, _, text = answer.decode("utf-8", "replace").partition("\n")
        if not (status.isascii() and status.isdecimal()):
            raise DashboardError("the queue's host answered nothing that is understood")
        return int(status), text.strip()
