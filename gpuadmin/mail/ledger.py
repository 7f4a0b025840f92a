"""A site's ledger of mails, in the site's directory; and the errors of mail as those of gpuadmin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuadmin.common.mail import ledger
from gpuadmin.common.mail.ledger import MailError, State
from gpuadmin.common.mail.letter import Letter
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.reading import is_absent, read_record

LEDGER_FILE = "mails.jsonl"


@contextmanager
def as_ours(prefix: str = "") -> Iterator[None]:
    """Raise what is wrong with mail as an error that gpuadmin shows. `prefix`: before its message."""
    try:
        yield
    except MailError as error:
        kind = ConfigError if error.settings else GpuadminError
        raise kind(f"{prefix}{error}", hint=error.hint) from None


class Ledger(ledger.Ledger):
    """The ledger of a site. Raises ConfigError, and GpuadminError where nothing can be written."""

    def __init__(self, path: Path) -> None:
        try:
            raw = b"" if is_absent(path) else read_record(path)
        except OSError as error:  # a link that leads nowhere, too: its place is known, its content is not
            raise ConfigError(f"{path}: {error.strerror}", hint="without it nobody knows who was mailed") from None
        with as_ours():
            super().__init__(path, raw)

    @classmethod
    def of(cls, site: Path) -> Ledger:
        """The ledger of a site's directory."""
        return cls(site / LEDGER_FILE)

    def _append(self, letter: Letter, state: State, attempt: str, detail: str) -> None:
        with as_ours():
            super()._append(letter, state, attempt, detail)
