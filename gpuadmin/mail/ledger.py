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
from gpuadmin.who import is_timer

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

    def __init__(self, path: Path, committed: Path | None = None) -> None:
        """``committed``: another one, whose mails count as sent."""
        with as_ours():
            before = {} if committed is None else ledger.fold(_read(committed), committed)
            super().__init__(path, _read(path), before)

    @classmethod
    def of(cls, site: Path) -> Ledger:
        """The ledger of a site's directory. That of its clone on the monitor host is where git has nothing, so that
        what admins commit can be pulled."""
        return cls(site / "runs" / LEDGER_FILE, site / LEDGER_FILE) if is_timer() else cls(site / LEDGER_FILE)

    def _append(self, letter: Letter, state: State, attempt: str, detail: str) -> None:
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        with as_ours():
            super()._append(letter, state, attempt, detail)


def _read(path: Path) -> bytes:
    try:
        return b"" if is_absent(path) else read_record(path)
    except OSError as error:  # a link that leads nowhere, too: its place is known, its content is not
        raise ConfigError(f"{path}: {error.strerror}", hint="without it nobody knows who was mailed") from None
