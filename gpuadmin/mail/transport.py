"""A transport that puts messages into files."""

from __future__ import annotations

import hashlib
from email.message import EmailMessage
from pathlib import Path
from typing import Self

from gpuadmin.common.mail.ledger import State
from gpuadmin.common.mail.transport import Answer
from gpuadmin.config.yamlfile import write_atomically
from gpuadmin.errors import GpuadminError


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
