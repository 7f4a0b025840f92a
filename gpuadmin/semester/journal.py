"""How far a reset came: a line before and after each phase, on disk before anything else happens.

`runs/term-<term>/journal.jsonl`. A line that a power cut tore off is no line. Whatever the journal says was begun and
not done is done again: every phase finds done what is done.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from gpuadmin.appending import append_synced
from gpuadmin.errors import ConfigError
from gpuadmin.reading import is_absent, read_record
from gpuadmin.semester.names import PHASES, WIPE
from gpuadmin.semester.planner import Decision, slug
from gpuadmin.who import who


@dataclass(frozen=True)
class State:
    """What the journal says. `done`: phase → its last result; `pending`: phase → hosts where it is not done.

    `closed_before`: in how many resets of this term, taken back since, people were mailed that they are locked out.
    """

    decision: Decision | None = None
    begun: frozenset[str] = frozenset()
    done: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pending: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    aborted: bool = False
    unlocked_before: tuple[str, ...] = ()
    closed_before: int = 0

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return set(self.done) == set(PHASES) and not any(self.pending.values())

    @property
    def open(self) -> bool:
        """Whether a reset is in the middle."""
        return self.decision is not None and not self.aborted and not self.finished

    def next_phase(self) -> str | None:
        """The first phase that is not done everywhere."""
        return next((phase for phase in PHASES if phase not in self.done or self.pending.get(phase)), None)

    @property
    def wiped(self) -> frozenset[str]:
        """Whose homes may be gone: a wipe was begun for them."""
        return frozenset(self.decision.names) if self.decision is not None and WIPE in self.begun else frozenset()


class Journal:
    """The journal of one term's reset."""

    def __init__(self, runs: Path, term: str) -> None:
        self.directory = runs / f"term-{slug(term)}"
        self.path = self.directory / "journal.jsonl"

    def entries(self) -> list[dict[str, Any]]:
        """All whole lines. Raises ConfigError where one in the middle cannot be read."""
        try:
            lines = [b""] if is_absent(self.path) else read_record(self.path).split(b"\n")
        except OSError as error:
            raise ConfigError(
                f"{self.path}: {error.strerror}", hint="without it nobody knows how far the reset came"
            ) from None
        found = []
        for number, line in enumerate(
            lines[:-1],  # guard: a torn line is no line -> filter(None, lines)
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
        begun: set[str] = set()
        done: dict[str, Mapping[str, Any]] = {}
        pending: dict[str, Mapping[str, str]] = {}
        closed_before = 0
        for entry in self.entries():
            match entry["event"]:
                case "decided":  # a new reset, or one after an abort
                    begun, done, pending = set(), {}, {}
                    state = State(Decision.read(entry["decision"]))
                case "narrowed":
                    state = State(
                        Decision.read(entry["decision"]), aborted=state.aborted, unlocked_before=state.unlocked_before
                    )
                case "unlocked-before":
                    state = State(state.decision, aborted=state.aborted, unlocked_before=tuple(entry["names"]))
                case "begin":
                    begun.add(entry["phase"])
                case "done":
                    done[entry["phase"]] = entry["result"]
                    pending[entry["phase"]] = entry["pending"]
                case "aborted":
                    # guard: who is locked out again after an abort is told again
                    closed_before += bool(entry.get("mailed"))
                    state = State(state.decision, aborted=True, unlocked_before=state.unlocked_before)
        return replace(
            state, begun=frozenset(begun), done=done, pending=pending, closed_before=closed_before
        )  # fmt: skip


#: What each event has to say, and as what, for `state` and the report to be read from it.
_FIELDS: Mapping[str, Mapping[str, type]] = {
    "decided": {"decision": dict},
    "narrowed": {"decision": dict},
    "unlocked-before": {"names": list},
    "released": {"names": list, "pending": dict},
    "begin": {"phase": str},
    "done": {"phase": str, "result": dict, "pending": dict},
    "failed": {"phase": str, "result": dict},
    "aborted": {},
}


def _entry(line: bytes) -> dict[str, Any]:
    """Given a line, return its entry. Raises ValueError, KeyError or TypeError where it is none.

    An event that is not known is none either: it may be the one that says that homes are being wiped.
    """
    entry = json.loads(line.decode())
    # guard: an event of the journal that nobody knows is not left out -> _FIELDS.get(entry['event'], {}).items()
    for field_, kind in _FIELDS[entry["event"]].items():
        if not isinstance(entry[field_], kind):  # guard: a damaged entry of the journal stops
            raise TypeError(field_)
    if entry.get("phase", PHASES[0]) not in PHASES:  # guard: a phase of the journal that nobody knows is not left out
        raise ValueError("phase")
    if "decision" in entry:
        Decision.read(entry["decision"])
    return dict(entry)
