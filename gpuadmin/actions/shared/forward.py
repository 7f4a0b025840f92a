"""A way to the dashboard for a browser on this machine: ssh's own forward, to the monitor host's loopback interface.

Unlike Prometheus, the dashboard asks everybody who they are, so a port on this machine gives nobody anything.
"""

from __future__ import annotations

import hashlib
import http.client
import socket
import ssl
import subprocess
import tempfile
import time
from types import TracebackType
from typing import IO, Self

from gpuadmin.actions.shared.prometheus import find_monitor
from gpuadmin.ansible.connections import command_line, require_ssh
from gpuadmin.config.load import Site
from gpuadmin.errors import ConfigError, GpuadminError, HostFailedError, UnreachableError
from gpuadmin.monitoring.certificates import web_authority
from gpuadmin.reading import expanded, read_text
from gpuadmin.text import one_line

_PATIENCE = 40.0  # seconds for ssh, which itself gives up a connection after 20
_TIMEOUT = 20.0


class Forward:
    """An open way. Within a `with` block; `url` is where it begins. Raises UnreachableError, ConfigError."""

    def __init__(self, site: Site, secret: bytes, port: int | None = None) -> None:
        self._site, self._secret = site, secret
        self._host = find_monitor(site)
        self._remote = site.settings.metrics.dashboard.port
        self._port = self._remote if self._host.local else free_port(self._remote) if port is None else port
        self._ssh: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the ssh

    @property
    def url(self) -> str:
        """Where a browser on this machine finds the dashboard."""
        return f"https://localhost:{self._port}"

    def __enter__(self) -> Self:
        if not self._host.local:
            forward = f"127.0.0.1:{self._port}:127.0.0.1:{self._remote}"
            options = ("-N", "-T", "-o", "ExitOnForwardFailure=yes", "-o", "BatchMode=yes", "-L", forward)
            line = command_line(self._site, self._host.name, ())
            line = [require_ssh(), *options, *line[1:]]
            self._ssh = subprocess.Popen(
                line, stdin=subprocess.DEVNULL, stdout=self._output, stderr=self._output, start_new_session=True
            )
            try:
                self._until_open()
            except BaseException:
                self._close()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    def look(self) -> str:
        """Ask the dashboard for its first page, and return the SHA-256 of the certificate that it showed, in the form
        that browsers have. Raises UnreachableError, HostFailedError.
        """
        connection = http.client.HTTPSConnection("localhost", self._port, timeout=_TIMEOUT, context=self._context())
        # not by name: where localhost means ::1 first, something else may answer there
        connection._create_connection = lambda _at, *rest: socket.create_connection(  # type: ignore[attr-defined]
            ("127.0.0.1", self._port), *rest
        )
        try:
            connection.request("GET", "/enter")
            certificate = connection.sock.getpeercert(binary_form=True) or b""
            answer = connection.getresponse()
            answer.read(1 << 20)
        except ssl.SSLCertVerificationError as error:
            raise HostFailedError(
                f"{self._host.name}: what answers on port {self._remote} shows another certificate: "
                f"{error.verify_message}",
                hint="gpuadmin provision writes the site's own; is something else on metrics.dashboard.port?",
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(getattr(error, "strerror", None) or str(error) or type(error).__name__) from None
        finally:
            connection.close()
        if answer.status != 200:
            raise HostFailedError(
                f"{self._host.name}: the dashboard answers {answer.status} {one_line(answer.reason)[:60]}",
                hint="journalctl -u gpuadmin-dashboard on that host",
            )
        return ":".join(f"{byte:02X}" for byte in hashlib.sha256(certificate).digest())

    def wait(self) -> None:
        """Stay until the way is gone. Raises UnreachableError then; KeyboardInterrupt ends it before."""
        if self._ssh is None:
            while True:
                time.sleep(3600)  # until Ctrl-C: there is no ssh that could end
        self._ssh.wait()
        raise self._unreachable("the connection was lost")

    def _context(self) -> ssl.SSLContext:
        own = self._site.settings.metrics.dashboard.certificate
        if own is None:
            # guard: no link is signed for what shows another certificate -> ssl._create_unverified_context()
            return ssl.create_default_context(cadata=web_authority(self._secret))
        text = read_text(expanded(own))
        if not text:
            raise ConfigError(f"metrics.dashboard.certificate: {own} is missing or empty", hint="correct gpuadmin.yml")
        context = ssl.create_default_context(cadata=text)
        context.check_hostname = False  # it is for the site's own names, and this end is localhost
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # this very one, whoever has signed it
        return context

    def _until_open(self) -> None:
        end = time.monotonic() + _PATIENCE
        while self._ssh is not None and time.monotonic() < end:
            if self._ssh.poll() is not None:
                raise self._unreachable("ssh has ended")
            try:
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            except OSError:
                time.sleep(0.05)  # ssh says nothing when it has opened it
        raise self._unreachable("ssh does not forward the port")

    def _unreachable(self, reason: str) -> GpuadminError:
        output = self._last_line()
        return UnreachableError(
            f"{self._host.name}: the dashboard does not answer: {one_line(output or reason)}",
            hint=f"gpuadmin status --limit {self._host.name}; on it, systemctl status gpuadmin-dashboard; "
            "not set up yet: gpuadmin provision",
        )

    def _last_line(self) -> str:
        """The last line that ssh wrote, if there was one."""
        if self._output.closed:
            return ""
        self._output.seek(0)
        lines = self._output.read(10000).decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _close(self) -> None:
        if self._ssh is not None:
            self._ssh.terminate()
            self._ssh.wait()
            self._ssh = None
        self._output.close()


def free_port(wanted: int) -> int:
    """That port of this machine's loopback interface, if it is free; otherwise another one."""
    for port in (wanted, 0):
        try:
            with socket.create_server(("127.0.0.1", port)) as found:
                return int(found.getsockname()[1])
        except OSError:
            continue
    raise ConfigError("this machine has no free port")
