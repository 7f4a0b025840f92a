"""The values of the options that verbs share. Only what the user typed: what a verb makes of it is its session's."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The values of the shared options."""

    site: str | None = None
    limit: str | None = None
    check: bool = False
    yes: bool = False
    json: bool = False
    verbose: int = 0
    ask_pass: bool = False
    ask_become_pass: bool = False


@dataclass(frozen=True)
class MailOptions:
    """The values of the shared options about mail."""

    directory: str | None = None
    preview: bool = False
    again: tuple[str, ...] = ()
