"""The errors that a person can do something about.

Everything that is expected to go wrong is a `GpuadminError`: it is shown once as `Error: …` with `Hint: …`, and
it carries the exit code that docs/exit-codes.md lists. Any other exception is a defect of gpuadmin.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import IO, Any, ClassVar

import click

from gpuadmin.console import echo


class ExitCode(IntEnum):
    """The exit codes. Zero also means that there was nothing to do."""

    DONE = 0
    ERROR = 1
    USAGE = 2
    HOST_FAILED = 3
    HOST_UNREACHABLE = 4
    REFUSED = 5
    DIFFERS = 6
    INTERRUPTED = 130

    @property
    def words(self) -> str:
        """Its name in docs/exit-codes.md: `host unreachable`."""
        return self.name.lower().replace("_", " ")


class GpuadminError(click.ClickException):
    """An expected error: a sentence that says what is wrong, and a hint that says what to do."""

    exit_code: ClassVar[int] = ExitCode.ERROR

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the message, and the hint below it, on standard error, or on `file`."""
        text = f"Error: {self.format_message()}\n" + (f"Hint: {self.hint}\n" if self.hint else "")
        if file is None:
            echo(text, err=True, end=False)
        else:
            file.write(text)


class ConfigError(GpuadminError):
    """The site is invalid, or there is none. The message names the file and the path in it."""

    exit_code = ExitCode.USAGE


class RefusedError(GpuadminError):
    """Not confirmed, locked by somebody else, or stopped by a safety check. Nothing was changed."""

    exit_code = ExitCode.REFUSED


class HostFailedError(GpuadminError):
    """At least one host failed."""

    exit_code = ExitCode.HOST_FAILED


class UnreachableError(GpuadminError):
    """At least one host did not answer, and none failed."""

    exit_code = ExitCode.HOST_UNREACHABLE


class InterruptedRun(GpuadminError):
    """The run was ended by Ctrl-C or a signal; it can be run again."""

    exit_code = ExitCode.INTERRUPTED


def together(mistakes: Sequence[ConfigError]) -> ConfigError:
    """Several errors as one, with what to do about each."""
    hints = dict.fromkeys(error.hint for error in mistakes if error.hint)
    return ConfigError("\n  ".join(error.message for error in mistakes), hint="\n      ".join(hints) or None)


def find_hint(error: click.ClickException) -> str | None:
    """What to do about an error: what it says itself; for click's own about the command line, where it is explained."""
    if isinstance(error, click.UsageError):
        return f"{error.ctx.command_path} --help" if error.ctx is not None else None
    hint: str | None = getattr(error, "hint", None)
    return hint
