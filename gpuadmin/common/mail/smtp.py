"""SMTP: one connection for many mails, and an answer for each that says whether it was taken."""

from __future__ import annotations

import smtplib
import ssl
from email.message import EmailMessage
from typing import Any

from ..records.mail import MailServer
from .ledger import MailError, State
from .message import one_line
from .transport import Answer, TransportDown

TIMEOUT = 30  # seconds for an answer: a server that scans mail takes a while, and an admin waits here


class _Handing:
    """Mixed into smtplib's classes: remembers whether a message's text went out, so that silence can be judged."""

    handed = False

    def data(self, msg: Any) -> tuple[int, bytes]:
        self.handed = True
        return super().data(msg)  # type: ignore[misc, no-any-return]  # smtplib's class, which it is mixed into, has it


class _Plain(_Handing, smtplib.SMTP):
    pass


class _Tls(_Handing, smtplib.SMTP_SSL):
    pass


class Smtp:
    """A mail server. Connects on entering, and once again after a connection that broke."""

    def __init__(self, server: MailServer) -> None:
        self._server = server
        self._connection: _Plain | _Tls | None = None
        self.name = f"{server.host}:{server.port}"

    def __enter__(self) -> Smtp:
        try:
            self._connect()
        except TransportDown as error:
            raise MailError(
                f"{self.name}: {error}", "no mail was sent; mail in gpuadmin.yml says where and how"
            ) from None
        return self

    def __exit__(self, *_: Any) -> None:
        self._close()

    def send(self, message: EmailMessage) -> Answer:
        """Hand a message over. Raises TransportDown where the server is gone before it got the message."""
        try:
            return self._send(message)
        except TransportDown:
            # servers close connections after a number of mails, or after a while
            self._close()
        return self._send(message)

    def _send(self, message: EmailMessage) -> Answer:
        connection = self._connection or self._connect()
        connection.handed = False
        try:
            connection.send_message(message)
        except smtplib.SMTPRecipientsRefused as error:
            ((code, text),) = error.recipients.values()
            return _refusal(code, text)
        except smtplib.SMTPSenderRefused as error:
            return self._about_everybody(error.smtp_code, error.smtp_error)
        except smtplib.SMTPDataError as error:
            return _refusal(error.smtp_code, error.smtp_error)
        except smtplib.SMTPNotSupportedError as error:
            return Answer(State.REFUSED, str(error))
        except (smtplib.SMTPException, OSError) as error:
            handed = connection.handed
            self._close()
            if handed:
                return Answer(State.UNKNOWN, f"no answer after the message was handed over: {_summary(error)}")
            raise TransportDown(_summary(error)) from None
        return Answer(State.SENT)

    def _about_everybody(self, code: int, text: bytes | str) -> Answer:
        """The server will not take mail from us at all: the recipient is not the reason."""
        self._close()
        raise TransportDown(_line(code, text))

    def _connect(self) -> _Plain | _Tls:
        mail, host, port = self._server, self._server.host, self._server.port
        try:
            context = None if mail.security == "none" else _context(mail)
            connection: _Plain | _Tls
            if mail.security == "tls":
                connection = _Tls(host, port, timeout=TIMEOUT, context=context)
            else:
                connection = _Plain(host, port, timeout=TIMEOUT)
            self._connection = connection
            if mail.security == "starttls":
                connection.starttls(context=context)
            connection.ehlo_or_helo_if_needed()
            if mail.user is not None and mail.password is not None:
                connection.login(mail.user, mail.password)
        except smtplib.SMTPNotSupportedError as error:
            self._close()
            raise MailError(
                f"{self.name}: {error}", "mail.security and mail.user in gpuadmin.yml", settings=True
            ) from None
        except smtplib.SMTPAuthenticationError as error:
            self._close()
            raise MailError(
                f"{self.name}: does not let {mail.user} in: {_line(error.smtp_code, error.smtp_error)}",
                "mail.user, mail.password_file, GPUADMIN_SMTP_PASSWORD",
                settings=True,
            ) from None
        except (smtplib.SMTPException, OSError) as error:
            self._close()
            raise TransportDown(_summary(error)) from None
        return connection

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is None:
            return
        try:
            connection.quit()
        except (smtplib.SMTPException, OSError):
            connection.close()


def _context(server: MailServer) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cadata=server.ca or None)
    except (OSError, ValueError) as error:  # OpenSSL's own are OSErrors
        raise MailError(
            f"mail.ca_file: no certificates: {error}", "correct it in gpuadmin.yml", settings=True
        ) from None


def _refusal(code: int, text: bytes | str) -> Answer:
    """RFC 5321, 4.2.1: 4xx may be tried again, 5xx not."""
    return Answer(State.REFUSED if code >= 500 else State.FAILED, _line(code, text))


def _line(code: int, text: bytes | str) -> str:
    reply = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
    return one_line(f"{code} {reply}", 300)


def _summary(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        return _line(error.smtp_code, error.smtp_error)
    return one_line(str(error) or type(error).__name__, 300)
