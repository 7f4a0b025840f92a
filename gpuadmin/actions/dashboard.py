"""Open the dashboard as an admin: a way there through ssh, and a link that the site's secret signs."""

from __future__ import annotations

import html
import re
import sys
import tempfile
import time
import webbrowser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gpuadmin.actions.shared.forward import Forward
from gpuadmin.actions.shared.metrics import SECRET, read_metrics_secret
from gpuadmin.actions.shared.prometheus import find_monitor
from gpuadmin.common import tokens
from gpuadmin.config.load import Site
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.outcome import finish
from gpuadmin.session import Session, opened
from gpuadmin.who import who


def dashboard(options: Options, *, browser: bool, port: int | None) -> int:
    """Open a way, print a link, and stay until Ctrl-C. In a check only look. Returns the exit code."""
    with opened("dashboard", options, changes=False) as session:
        secret = _secret(session.site)
        with Forward(session.site, secret, port) as forward:
            fingerprint = forward.look()
            if options.check:
                session.console.print(f"The dashboard answers. SHA-256 of its certificate: {fingerprint}")
                return finish(session, 0, {"fingerprint": fingerprint})
            url = f"{forward.url}/enter?link={sign(secret, who(), time.time())}"
            return _stay(session, forward, url, fingerprint, browser=browser)


def sign(secret: bytes, name: str, now: float) -> str:
    """Given the site's secret and who is at the keyboard, return an admin's link, which works once."""
    named = re.sub(r"[^A-Za-z0-9._@-]", "-", name)[:200]
    key = tokens.signing_key(tokens.dashboard_secret(secret), tokens.ADMIN_LINK, tokens.CONTROLLER)
    return tokens.sign(key, tokens.ADMIN_LINK, tokens.CONTROLLER, named, int(now))


def _stay(session: Session, forward: Forward, url: str, fingerprint: str, *, browser: bool) -> int:
    minutes = tokens.LINK_SECONDS // 60
    console = session.console
    console.print(f"The dashboard, by a link that works once, within {minutes} minutes:")
    console.print(f"  {url}", soft_wrap=True)
    console.print("SHA-256 of the certificate that your browser must be shown:")
    console.print(f"  {fingerprint}", soft_wrap=True)
    with ExitStack() as stack:
        if browser and not webbrowser.open(stack.enter_context(page(url)).as_uri()):
            console.print("This machine has no browser to open.")
        console.print("Ctrl-C closes the connection.")
        code = finish(session, 0, {"url": url, "fingerprint": fingerprint, "minutes": minutes})
        sys.stdout.flush()  # a program that started this reads it now
        try:
            forward.wait()
        except KeyboardInterrupt:
            console.print("Closed.")
    return code


@contextmanager
def page(url: str) -> Iterator[Path]:
    """A page that leads to an address, which only its owner can read: a browser's command line is for all to see."""
    with tempfile.TemporaryDirectory(prefix="gpuadmin-") as directory:
        path = Path(directory) / "dashboard.html"
        path.write_text(
            f'<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
            f'<meta http-equiv="refresh" content="0; url={html.escape(url)}">\n',
            encoding="utf-8",
        )
        yield path


def _secret(site: Site) -> bytes:
    find_monitor(site)
    if not site.settings.metrics.dashboard.enabled:
        raise ConfigError(
            "this site has no dashboard",
            hint="metrics.dashboard.enabled: true in gpuadmin.yml, then gpuadmin provision",
        )
    if not (site.directory / SECRET).exists():
        raise ConfigError(
            f"{site.directory / SECRET} is missing: no dashboard was set up from here",
            hint="gpuadmin provision; another admin's copy of the site may have the file",
        )
    return read_metrics_secret(site)
