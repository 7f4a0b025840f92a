"""The ledger: which mails were sent. JSON lines, appended and synced, so that no crash makes a second mail.

Before a mail is handed over, its intent is on the disk; its outcome follows. An intent without an outcome is a crash
in between: whether that mail went out is unknown, so it is reported and never sent again by itself. The last line may
be torn, by a crash while it was written: an intent that was not yet on the disk was not yet sent, and an outcome that
is lost leaves its intent. The next line that is written replaces it. Any other line that cannot be read is an error.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import Any

from ..appending import append_synced
from .letter import Letter


class MailError(Exception):
    """Why no mail is sent, and what to do about it (`hint`). `settings`: what the site says is the reason."""

    def __init__(self, message: str, hint: str, *, settings: bool = False) -> None:
        super().__init__(message)
        self.hint, self.settings = hint, settings


class State(str, Enum):
    """What is known of a mail."""

    OWED = "owed"  # decided, and must not be forgotten: nothing was handed over yet
    INTENT = "intent"  # about to be handed over; without a later line: unknown
    SENT = "sent"
    REFUSED = "refused"  # the server will not take it for this address
    FAILED = "failed"  # surely not sent; the next run tries again
    UNKNOWN = "unknown"  # handed over, and no answer


@dataclass(frozen=True)
class Entry:
    """The latest that is known of one key."""

    key: str
    state: State
    address: str
    names: tuple[str, ...]
    time: str
    detail: str = ""

    @property
    def uncertain(self) -> bool:
        """Whether the mail may have been sent, or not."""
        return self.state in (State.INTENT, State.UNKNOWN)

    @property
    def summary(self) -> str:
        """For an admin: why a mail that is uncertain, or was refused, is not sent, and what to do."""
        again = " ".join(f"--again {name}" for name in self.names)
        who = f"{', '.join(self.names)} <{self.address}>"
        if self.uncertain:
            return f"{who}: a mail of {self.time} may have been sent or not: that run was cut off; to send it: {again}"
        return f"{who}: the address was refused ({self.detail}); correct it, or {again}"

    def document(self) -> dict[str, Any]:
        """As a run's record has it."""
        return {"names": list(self.names), "address": self.address, "time": self.time, "detail": self.detail}


def fold(raw: bytes, path: Path, before: Mapping[str, Entry] | None = None) -> dict[str, Entry]:
    """Given a ledger's content and its path, return the latest entry of every key. ``before``: those of another one.

    A last line without its end was torn by a crash and counts for nothing. Raises MailError, naming the line, if any
    other line cannot be read, because that person would be mailed again.
    """
    entries = dict(before or {})
    *lines, torn = raw.split(b"\n")
    for number, line in enumerate([*lines, torn], start=1):
        if not line.strip():
            continue
        found = _parse(line)
        if (
            found is None
            # guard: a damaged line of the mails' ledger stops
            and number > len(lines)
        ):
            continue
        if found is None:
            raise MailError(
                f"{path}:{number}: is damaged, so who was mailed is not known; nobody is mailed",
                "restore the file from version control or a copy; or see whom that line is about, and delete it",
                settings=True,
            )
        for entry in found:
            known = entries.get(entry.key)
            # guard: sent stays sent, whatever the order of the lines
            if known is not None and known.state is State.SENT and entry.state is not State.SENT:
                continue  # two merged branches of a site: sent stays sent, whatever the order of the lines
            entries[entry.key] = entry
    return entries


def _parse(line: bytes) -> list[Entry] | None:
    try:
        value = json.loads(line.decode())
        state = State(value["state"])
        keys = [str(key) for key in value["keys"]]
        names = tuple(str(name) for name in value["names"])
        address, time, detail = str(value["address"]), str(value["time"]), str(value.get("detail", ""))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
    return [Entry(key, state, address, names, time, detail) for key in keys]


class Ledger:
    """A ledger of mails, as it is on the disk: `raw` is what it holds, `before` what another one has. All that is
    written raises MailError."""

    def __init__(self, path: Path, raw: bytes, before: Mapping[str, Entry] | None = None) -> None:
        self.path = path
        self._entries = fold(raw, path, before)

    def entry(self, key: str) -> Entry | None:
        """What is known of a key, if anything."""
        return self._entries.get(key)

    def open_keys(self, keys: Iterable[str], address: str, again: bool = False) -> tuple[str, ...]:
        """Given keys and today's address, return those that are still to be sent.

        What was sent is not. What is uncertain is only with `again`. What was refused is only at another address.
        """
        return tuple(key for key in keys if self._is_open(key, address, again))

    def _is_open(self, key: str, address: str, again: bool) -> bool:
        entry = self._entries.get(key)
        if entry is None or entry.state in (State.OWED, State.FAILED):
            return True
        if entry.state is State.REFUSED:
            # guard: what was refused is not sent there again -> True
            return again or entry.address.casefold() != address.casefold()
        return (
            again and entry.uncertain  # guard: what is uncertain is not sent again by itself
        )

    def owe(self, letters: Sequence[Letter]) -> None:
        """Remember that these have to be sent later, unless something is known of them."""
        for letter in letters:
            if all(key in self._entries for key in letter.keys):
                continue
            self._append(letter, State.OWED, secrets.token_hex(4), "")

    def begin(self, letter: Letter, by: str) -> str:
        """Write, and sync, that a letter is about to be handed over. Returns the attempt's id."""
        attempt = secrets.token_hex(4)
        self._append(letter, State.INTENT, attempt, by)
        return attempt

    def finish(self, letter: Letter, attempt: str, state: State, detail: str = "") -> None:
        """Write, and sync, what became of it."""
        self._append(letter, state, attempt, detail)

    def _append(self, letter: Letter, state: State, attempt: str, detail: str) -> None:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        line: dict[str, Any] = {
            "time": now, "state": state.value, "id": attempt, "keys": list(letter.keys), "names": list(letter.names),
            "address": letter.address, "detail": detail[:500],
        }  # fmt: skip
        try:
            append_synced(self.path, json.dumps(line) + "\n", whole=lambda one: _parse(one) is not None)
        except OSError as error:
            # guard: no mail without its record
            raise MailError(
                f"{self.path}: {error.strerror}", "no mail is sent that cannot be recorded; make room there"
            ) from None
        for key in letter.keys:
            self._entries[key] = Entry(key, state, letter.address, letter.names, now, detail)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())
