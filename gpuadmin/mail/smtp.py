"""SMTP: one connection for many mails, and an answer for each that says whether it was taken."""

from __future__ import annotations

import os
import smtplib
import ssl
from email.message import EmailMessage
from types import TracebackType
from typing import Any, Self

from gpuadmin.config.schema import Mail
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.mail.ledger import State
from gpuadmin.mail.render import one_line
from gpuadmin.mail.transport import Answer, TransportDown
from gpuadmin.reading import expanded, read_limited

PASSWORD_VARIABLE = "GPUADMIN_SMTP_PASSWORD"
TIMEOUT = 30  # seconds for an answer: a server that scans mail takes a while, and an admin waits here


def read_password(mail: Mail) -> str | None:
    """The password to log in with: from the environment, else from the file. None if the site names no user.

    Raises ConfigError if there is none, or where others can read its file.
    """
    if mail.user is None:
        return None
    given = os.environ.get(PASSWORD_VARIABLE)
    if given:
        return _usable(given, PASSWORD_VARIABLE)
    if mail.password_file is None:
        raise ConfigError(
            f"no password for {mail.user} on {mail.host}",
            hint=f"set mail.password_file in gpuadmin.yml, or {PASSWORD_VARIABLE}",
        )
    path = expanded(mail.password_file)
    try:
        if path.stat().st_mode & 0o077:
            raise ConfigError(f"{path}: others can read the password", hint=f"chmod 600 {path}")
        lines = read_limited(path).decode("utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"mail.password_file: {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ConfigError(f"mail.password_file: {path}: is not UTF-8") from None
    if len(lines) != 1 or not lines[0]:
        raise ConfigError(f"mail.password_file: {path}: must hold one line, the password")
    return _usable(lines[0], f"mail.password_file: {path}")


def _usable(password: str, source: str) -> str:
    if not (password.isascii() and password.isprintable()):
        raise ConfigError(f"{source}: the password holds a character that SMTP cannot carry; it must be ASCII")
    return password


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

    def __init__(self, mail: Mail) -> None:
        self._mail = mail
        self._password = read_password(mail)
        self._connection: _Plain | _Tls | None = None
        host, port = mail.server
        self.name = f"{host}:{port}"

    def __enter__(self) -> Self:
        try:
            self._connect()
        except TransportDown as error:
            raise GpuadminError(
                f"{self.name}: {error}", hint="no mail was sent; mail in gpuadmin.yml says where and how"
            ) from None
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
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
        mail, (host, port) = self._mail, self._mail.server
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
            if mail.user is not None and self._password is not None:
                connection.login(mail.user, self._password)
        except smtplib.SMTPNotSupportedError as error:
            self._close()
            raise ConfigError(f"{self.name}: {error}", hint="mail.security and mail.user in gpuadmin.yml") from None
        except smtplib.SMTPAuthenticationError as error:
            self._close()
            raise ConfigError(
                f"{self.name}: does not let {mail.user} in: {_line(error.smtp_code, error.smtp_error)}",
                hint=f"mail.user, mail.password_file, {PASSWORD_VARIABLE}",
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


def _context(mail: Mail) -> ssl.SSLContext:
    path = None if mail.ca_file is None else expanded(mail.ca_file)
    try:
        return ssl.create_default_context(cafile=path)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"mail.ca_file: {path}: {error.strerror or error}") from None


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
