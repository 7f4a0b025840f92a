"""A client of QEMU's machine protocol, just large enough for stop, cont, savevm and loadvm."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path
from types import TracebackType
from typing import Any

from gpuadmin.errors import GpuadminError


def connect(directory: Path, name: str, limit: float) -> socket.socket:
    """Connect to a Unix socket in a directory. Raises OSError.

    By way of a file descriptor: a socket's path has 107 bytes at most, a state directory's may have more.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(limit)
    folder = os.open(directory, os.O_PATH | os.O_DIRECTORY)
    try:
        connection.connect(f"/proc/self/fd/{folder}/{name}")
    except OSError:
        connection.close()
        raise
    finally:
        os.close(folder)
    return connection


class Qmp:
    """A connection to one QEMU. Use it as a context manager."""

    def __init__(self, directory: Path, limit: float = 120.0) -> None:
        """Connect to qmp.sock in a host's directory. `limit`: seconds that a command may take."""
        try:
            self._socket = connect(directory, "qmp.sock", limit)
        except OSError as error:
            why = error.strerror or error
            raise GpuadminError(f"QEMU does not answer at {directory / 'qmp.sock'}: {why}") from error
        self._reader = self._socket.makefile("r", encoding="utf-8")
        self._read_message()
        self.command("qmp_capabilities")

    def __enter__(self) -> Qmp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._reader.close()
        self._socket.close()

    def command(self, name: str, **arguments: object) -> Any:
        """Run a command and return its result; events that arrive meanwhile are dropped."""
        request: dict[str, object] = {"execute": name}
        if arguments:
            request["arguments"] = {key.replace("_", "-"): value for key, value in arguments.items()}
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        while True:
            answer = self._read_message()
            if "error" in answer:
                raise GpuadminError(f"QEMU refused {name}: {answer['error'].get('desc', answer['error'])}")
            if "return" in answer:
                return answer["return"]

    def monitor(self, line: str) -> str:
        """Run a line of the human monitor. Raises if it says anything: savevm and loadvm are silent when they work."""
        output: str = self.command("human-monitor-command", command_line=line)
        if output.strip():
            raise GpuadminError(f"QEMU could not do {line!r}: {output.strip()}")
        return output

    def _read_message(self) -> dict[str, Any]:
        try:
            line = self._reader.readline()
        except TimeoutError as error:
            raise GpuadminError("QEMU took too long to answer") from error
        if not line:
            raise GpuadminError("QEMU ended while it was asked something")
        answer: dict[str, Any] = json.loads(line)
        return answer
