"""Where messages go: into files. smtp.py is the other one."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from email.message import EmailMessage
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.errors import GpuadminError
from gpuadmin.mail.ledger import State


@dataclass(frozen=True)
class Answer:
    """What became of one message."""

    state: State
    detail: str = ""


class TransportDown(Exception):
    """The server is gone; this message was surely not handed over, and the next ones cannot be."""


class Transport(Protocol):
    """Takes messages, one at a time, within a `with` block."""

    name: str

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None: ...

    def send(self, message: EmailMessage) -> Answer: ...


class Folder:
    """--mail-dir: a file per mail, named after its Message-ID, so that the same mail is the same file."""

    def __init__(self, directory: Path) -> None:
        self.name = str(directory)
        self._directory = directory

    def __enter__(self) -> Self:
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise GpuadminError(f"{self._directory}: {error.strerror}", hint="name another --mail-dir") from None
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def send(self, message: EmailMessage) -> Answer:
        name = hashlib.sha256(str(message["Message-ID"]).encode()).hexdigest()[:16]
        path = self._directory / f"{name}.eml"
        try:
            write_atomically(path, message.as_bytes().decode("utf-8"), mode=0o600)
        except OSError as error:
            return Answer(State.FAILED, f"{path}: {error.strerror}")
        return Answer(State.SENT, str(path))
