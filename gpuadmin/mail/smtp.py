"""The site's mail server, and the password for it."""

from __future__ import annotations

from gpuadmin.common.mail import smtp
from gpuadmin.common.records.mail import MailServer
from gpuadmin.config.schema import Mail
from gpuadmin.config.schema.term import MAIL_PASSWORD
from gpuadmin.errors import ConfigError
from gpuadmin.mail.ledger import as_ours
from gpuadmin.reading import expanded, read_limited, read_secret


def read_password(mail: Mail) -> str | None:
    """The password to log in with: from the environment, else from the file. None if the site names no user.

    Raises ConfigError if there is none, or where others can read its file.
    """
    if mail.user is None:
        return None
    found = read_secret(MAIL_PASSWORD, mail.password_file, "mail.password_file")
    if found is None:
        raise ConfigError(
            f"no password for {mail.user} on {mail.host}",
            hint=f"set mail.password_file in gpuadmin.yml, or {MAIL_PASSWORD}",
        )
    return found


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
