"""Asking the site's Prometheus, which listens on the monitor host's loopback interface alone (docs/decisions/0106).

The way there is an ssh whose standard input and output are the connection (`ssh -W`): no port is opened on this
machine that somebody else could use, and host keys are checked as always.
"""

from __future__ import annotations

import contextlib
import http.client
import socket
import subprocess
import tempfile
from collections.abc import Callable
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from gpuadmin.ansible.connections import command_line, require_ssh
from gpuadmin.common.prometheus import Client, Series
from gpuadmin.common.samples import Sample
from gpuadmin.config.inventory import Host
from gpuadmin.config.load import Site
from gpuadmin.errors import ConfigError, GpuadminError, HostFailedError, UnreachableError
from gpuadmin.text import one_line

T = TypeVar("T")
_TIMEOUT, _QUERY = 60.0, 30.0  # seconds: until nobody answers, and until Prometheus itself ends a query
_LARGEST = 256 * 1024 * 1024  # bytes of an answer


class Prometheus:
    """An open way to a site's Prometheus. Within a `with` block; one question at a time."""

    def __init__(self, site: Site) -> None:
        self._host = find_monitor(site)
        self._site = site
        self._ssh: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None
        self._connection: http.client.HTTPConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close(patience=0)

    def ask(self, query: str, at: float | None = None) -> list[Sample]:
        """Given a query of common/queries.py, return what holds now, or held at a moment (seconds since 1970). Raises
        UnreachableError, HostFailedError.
        """
        return self._answer(Client.ask, query, at)

    def over_time(self, query: str, begin: float, end: float, step: int) -> list[Series]:
        """What held from one moment to another (seconds since 1970), every `step` seconds. Raises as `ask`."""
        return self._answer(Client.over_time, query, begin, end, step)

    def _answer(self, question: Callable[..., list[T]], *arguments: Any) -> list[T]:
        try:
            return question(Client(self._connected(), _QUERY, _LARGEST), *arguments)
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from None
        except ValueError as error:
            raise HostFailedError(
                f"{self._host.name}: Prometheus: {one_line(str(error))}",
                hint="is something else on the port metrics.port? systemctl status prometheus on that host",
            ) from None

    def _connected(self) -> http.client.HTTPConnection:
        if self._connection is None:
            port = self._site.settings.metrics.port
            self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)
            if not self._host.local:
                self._connection.sock = self._through_ssh(port)
        return self._connection

    def _through_ssh(self, port: int) -> socket.socket:
        line = command_line(self._site, self._host.name, ("-T", "-W", f"127.0.0.1:{port}"))
        ours, theirs = socket.socketpair()
        self._output = tempfile.TemporaryFile()  # noqa: SIM115  it lives as long as the ssh
        with theirs:
            end = theirs.fileno()
            self._ssh = subprocess.Popen([require_ssh(), *line[1:]], stdin=end, stdout=end, stderr=self._output)
        ours.settimeout(_TIMEOUT)
        return ours

    def _unreachable(self, error: Exception) -> GpuadminError:
        name, output = self._host.name, self._close()
        reason = output or (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
        return UnreachableError(
            f"{name}: Prometheus does not answer: {one_line(reason)}",
            hint=f"gpuadmin status --limit {name}; on it, systemctl status prometheus; "
            "not set up yet: gpuadmin provision; gpuadmin top --local asks the nodes themselves",
        )

    def _close(self, patience: float = 2) -> str:
        """End the connection; return the last line that ssh wrote, if there was one. `patience`: seconds that an ssh
        which is about to say why it failed is given.
        """
        output = ""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if self._ssh is not None:
            try:
                self._ssh.wait(patience)
            except subprocess.TimeoutExpired:
                self._ssh.terminate()
                self._ssh.wait()
            self._ssh = None
        if self._output is not None:
            with contextlib.closing(self._output):
                self._output.seek(0)
                lines = self._output.read(10000).decode("utf-8", "replace").strip().splitlines()
                output = lines[-1] if lines else ""
            self._output = None
        return output


def find_monitor(site: Site, instead: str | None = "gpuadmin list-gpus asks the nodes themselves") -> Host:
    """The host that watches all others. Raises ConfigError if there is none; `instead`: what works without one."""
    hosts = site.inventory.group("monitor")
    if not hosts:
        raise ConfigError(
            "this site has no monitor host, which measures and keeps logs",
            hint="put a host (it may be the storage host) into the group monitor in inventory/hosts.yml, "
            "then gpuadmin provision" + (f"; {instead}" if instead else ""),
        )
    return hosts[0]
