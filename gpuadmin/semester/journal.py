"""How far a reset got: a line before and after each phase, on disk before anything else happens.

`runs/term-<term>/journal.jsonl`. A line that a power cut tore off does not count. machine.py says what the lines add up
to.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuadmin.common.appending import append_synced
from gpuadmin.errors import ConfigError
from gpuadmin.reading import is_absent, read_record
from gpuadmin.semester.machine import EVENTS, PHASES, State
from gpuadmin.semester.planner import Decision, slug
from gpuadmin.who import who


class Journal:
    """The journal of one term's reset."""

    def __init__(self, runs: Path, term: str) -> None:
        self.directory = runs / f"term-{slug(term)}"
        self.path = self.directory / "journal.jsonl"

    def entries(self) -> list[dict[str, Any]]:
        """All whole lines. Raises ConfigError if one in the middle cannot be read."""
        try:
            lines = [b""] if is_absent(self.path) else read_record(self.path).split(b"\n")
        except OSError as error:
            raise ConfigError(
                f"{self.path}: {error.strerror}", hint="without it nobody knows how far the reset got"
            ) from None
        found = []
        for number, line in enumerate(
            lines[:-1],  # guard: a torn line is not a line -> filter(None, lines)
            start=1,
        ):  # what follows the last line feed was torn off
            try:
                entry = _entry(line)
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                # guard: a damaged journal decides nothing
                raise ConfigError(
                    f"{self.path}:{number}: is damaged; nothing is done", hint="restore the file, or move it away"
                ) from None
            found.append(entry)
        return found

    def write(self, event: str, **more: Any) -> None:
        """Append an entry; it is on disk when this returns."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        entry = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "who": who(), "event": event, **more}
        append_synced(self.path, json.dumps(entry, ensure_ascii=True, default=str) + "\n")

    def state(self) -> State:
        """What the entries come to."""
        state = State()
        for entry in self.entries():
            state = state.after(entry, Decision.read(entry["decision"]) if "decision" in entry else None)
        return state


def _entry(line: bytes) -> dict[str, Any]:
    """Given a line, return its entry. Raises ValueError, KeyError or TypeError if it is not one.

    Nor is one with an unknown event: that may be the one that says that homes are being wiped.
    """
    entry = json.loads(line.decode())
    # guard: an event of the journal that nobody knows is not left out -> EVENTS.get(entry['event'], {}).items()
    for field_, kind in EVENTS[entry["event"]].items():
        if not isinstance(entry[field_], kind):  # guard: a damaged entry of the journal stops
            raise TypeError(field_)
    if entry.get("phase", PHASES[0]) not in PHASES:  # guard: a phase of the journal that nobody knows is not left out
        raise ValueError("phase")
    if "decision" in entry:
        Decision.read(entry["decision"])
    return dict(entry)
