"""A mail server in a process of its own, with the faults of real ones.

    python smtp_server.py OPTIONS.json

prints its port on standard output and appends what it accepted to a file, a JSON document per line. Options (all
optional but `accepted`): certificate, key (paths), security (tls, starttls, none), user, password, answers (address ->
reply to RCPT), sender_answer (reply to MAIL), die_in_data (address: exit with the message taken in, without a reply),
die_in_mail (exit at the nth MAIL), close_after (say 421 after that many mails of a connection), port (a free one).
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from pathlib import Path
from typing import Any

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session


class Handler:
    """Answers as its options say."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.options = options
        self.mails = 0
        self.connection: dict[int, int] = {}

    async def handle_MAIL(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, mail_options: list[str]
    ) -> str:
        self.mails += 1
        if self.mails == self.options.get("die_in_mail"):
            os._exit(1)
        of_this = self.connection[id(session)] = self.connection.get(id(session), 0) + 1
        if of_this > self.options.get("close_after", 10**6):
            return "421 4.7.0 too many mails on this connection"
        if self.options.get("sender_answer"):
            return str(self.options["sender_answer"])
        envelope.mail_from = address
        envelope.mail_options.extend(mail_options)
        return "250 OK"

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, rcpt_options: list[str]
    ) -> str:
        answer = self.options.get("answers", {}).get(address)
        if answer:
            return str(answer)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        if self.options.get("data_answer"):
            return str(self.options["data_answer"])
        accepted = {
            "from": envelope.mail_from,
            "to": envelope.rcpt_tos,
            "text": envelope.content.decode(),
            "tls": session.ssl is not None or self.options.get("security") == "tls",
            "user": getattr(session.auth_data, "login", b"").decode() or None,
        }
        with Path(self.options["accepted"]).open("a") as stream:
            stream.write(json.dumps(accepted) + "\n")
        if self.options.get("die_in_data") in envelope.rcpt_tos:
            os._exit(1)
        return "250 OK"


async def serve(options: dict[str, Any]) -> None:
    """Serve until killed."""
    security = options.get("security", "none")
    context = None
    if security != "none":
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(options["certificate"], options["key"])
    handler = Handler(options)

    def authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        right = (options["user"].encode(), options["password"].encode())
        return AuthResult(success=(data.login, data.password) == right, handled=False, auth_data=data)

    def connection() -> SMTP:
        return SMTP(
            handler,
            hostname="mail.example.org",
            tls_context=context if security == "starttls" else None,
            require_starttls=security == "starttls",
            authenticator=authenticate if "user" in options else None,
            auth_required="user" in options,
            # aiosmtpd counts only its own STARTTLS as encryption
            auth_require_tls=security == "starttls",
        )

    loop = asyncio.get_running_loop()
    port = options.get("port", 0)
    server = await loop.create_server(connection, "127.0.0.1", port, ssl=context if security == "tls" else None)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(json.loads(Path(sys.argv[1]).read_text())))
