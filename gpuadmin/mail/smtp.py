"""The site's mail server, and the password for it."""

from __future__ import annotations

import os

from gpuadmin.common.mail import smtp
from gpuadmin.common.records.mail import MailServer
from gpuadmin.config.schema import Mail
from gpuadmin.errors import ConfigError
from gpuadmin.mail.ledger import as_ours
from gpuadmin.reading import expanded, read_limited

PASSWORD_VARIABLE = "GPUADMIN_SMTP_PASSWORD"


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


def find_server(mail: Mail) -> MailServer:
    """Given a site's settings, return its mail server, with the password. Raises ConfigError."""
    path, (host, port) = None if mail.ca_file is None else expanded(mail.ca_file), mail.server
    try:
        ca = "" if path is None else read_limited(path).decode("ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"mail.ca_file: {path}: {getattr(error, 'strerror', None) or error}") from None
    return MailServer(host, port, mail.security, ca, mail.user, read_password(mail))


class Smtp(smtp.Smtp):
    """The same as a transport. What is wrong with the server is an error of gpuadmin's before the first mail."""

    def __init__(self, mail: Mail) -> None:
        super().__init__(find_server(mail))

    def __enter__(self) -> Smtp:
        with as_ours():
            super().__enter__()
        return self
