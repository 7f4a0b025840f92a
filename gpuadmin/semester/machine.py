"""The state machine of a reset: its phases in their order, what a journal comes to, and what may follow. Pure.

Command line, journal, report, playbook and docs have the phases from here. The names of phases and events are in the
journals of resets that were begun: whoever changes one has to go on reading the old one. A phase that was begun and is
not done is done again: every phase finds done what is done.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import TYPE_CHECKING, Any

from gpuadmin.errors import RefusedError

if TYPE_CHECKING:  # the command line imports this file, and has no time for what these need
    from gpuadmin.config.schema import Term
    from gpuadmin.semester.planner import Decision

ANNOUNCE = "announce"
LOCK = "lock"
END_SESSIONS = "end-sessions"  # guard: a reset that was begun before goes on where it was -> 'sessions'
BACKUP = "backup"
WIPE = "wipe"
PRUNE = "prune"
REOPEN = "reopen"

PHASES = (ANNOUNCE, LOCK, END_SESSIONS, BACKUP, WIPE, PRUNE, REOPEN)

#: The events of a journal, and what each has to say, as what.
EVENTS: Mapping[str, Mapping[str, type]] = {
    "decided": {"decision": dict},
    "narrowed": {"decision": dict},
    "unlocked-before": {"names": list},
    "released": {"names": list, "pending": dict},
    "begin": {"phase": str},
    "done": {"phase": str, "result": dict, "pending": dict},
    "failed": {"phase": str, "result": dict},
    "aborted": {},
}


@dataclass(frozen=True)
class State:
    """What a journal comes to, of its last reset; nothing is done of one that was taken back.

    `done`: phase → its last result; `pending`: phase → hosts where it is not done. `deleted`: host → what the wipe
    deleted of scratch there. `since` and `last`: when the reset was begun, and when the journal was last written.
    `closed_before`: in how many resets of this term, taken back since, people were mailed that they are locked out.
    `early`: whether the admin has begun to do what waits for the term's last day before it, and so goes on.
    """

    decision: Decision | None = None
    begun: frozenset[str] = frozenset()
    done: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    pending: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    deleted: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    aborted: bool = False
    unlocked_before: tuple[str, ...] = ()
    closed_before: int = 0
    early: bool = False
    since: str = ""
    last: str = ""
    who: tuple[str, ...] = ()

    def after(self, entry: Mapping[str, Any], decision: Decision | None = None) -> State:
        """The state after one more entry of the journal. `decision`: the entry's, where it has one."""
        at, phase = str(entry.get("at", "")), entry.get("phase", "")
        # a new reset, or one after an abort
        new = State(closed_before=self.closed_before, since=at) if entry["event"] == "decided" else self
        who = [str(entry["who"])] if "who" in entry else []
        new = replace(new, last=at, who=tuple(dict.fromkeys([*new.who, *who])))
        if phase == WIPE and "result" in entry:
            new = replace(new, deleted={**new.deleted, **entry["result"].get("scratch", {})})
        match entry["event"]:
            case "decided" | "narrowed":
                return replace(new, decision=decision)
            case "unlocked-before":
                return replace(new, unlocked_before=tuple(entry["names"]))
            case "begin":
                return replace(new, begun=new.begun | {phase}, early=new.early or entry.get("early") is True)
            case "done":
                done, pending = {**new.done, phase: entry["result"]}, {**new.pending, phase: entry["pending"]}
                return replace(new, done=done, pending=pending)
            case "aborted":
                # guard: what was taken back is not done in the next reset -> new
                back = State(decision=new.decision, since=new.since, last=new.last, who=new.who)
                # guard: who is locked out again after an abort is told again -> new.closed_before
                mailed = new.closed_before + bool(entry.get("mailed"))
                return replace(back, aborted=True, closed_before=mailed)
        return new

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do."""
        return self.next_phase() is None

    @property
    def open(self) -> bool:
        """Whether a reset is under way: it can be resumed, and be taken back until a wipe was begun."""
        return self.decision is not None and not self.aborted and not self.finished

    @property
    def wiped(self) -> frozenset[str]:
        """Whose homes may be gone: a wipe was begun for them."""
        return frozenset(self.decision.names) if self.decision is not None and WIPE in self.begun else frozenset()

    @property
    def kept(self) -> Mapping[str, str]:
        """What the wipe left in the home root, and why."""
        kept: Mapping[str, str] = self.done.get(WIPE, {}).get("kept", {})
        return kept

    def word(self, phase: str) -> str:
        """How far a phase came, for the report."""
        if phase in self.done:
            return "pending" if self.pending.get(phase) else "done"
        return "begun" if phase in self.begun else "not begun"

    def next_phase(self) -> str | None:
        """The first phase that is not done everywhere."""
        return next((phase for phase in PHASES if self.word(phase) != "done"), None)

    def phases(self, only: str | None, *, check: bool) -> Sequence[str]:
        """The phases of a run. Raises RefusedError if `only` one is asked for that another has to come before."""
        if only is None:
            first = self.next_phase() if self.open else None
            return PHASES[PHASES.index(first or PHASES[0]) :]
        missing = [phase for phase in PHASES[: PHASES.index(only)] if phase not in self.done]
        if missing and not check:  # guard: a phase needs those before it
            rest = "--resume" if self.open else "all of them, without --phase"
            raise RefusedError(
                f"{only}: {missing[0]} comes before it and is not done", hint=f"--phase {missing[0]}, or {rest}"
            )
        return (only,)

    def refuse_second(self, term: str) -> None:
        """A reset that was begun is not begun again."""
        if self.open:  # guard: a reset that was begun is not begun again
            raise RefusedError(
                f"the reset of {term} was begun; next is {self.next_phase()}",
                hint="gpuadmin semester-reset --resume goes on, --abort takes it back (before wipe)",
            )

    def refuse_nothing_open(self, term: str) -> None:
        """Only a reset that was begun can be resumed or taken back."""
        if not self.open:
            raise RefusedError(
                f"no reset of {term} is under way here",
                hint=f"if another machine began one: copy its runs/term-{term}; if not: gpuadmin semester-reset",
            )

    def refuse_early(self, phase: str, term: Term, today: date) -> None:
        """Nobody is locked out before the term's last day."""
        # guard: nobody is locked out before the last day
        if phase != ANNOUNCE and today < term.deadline and not self.early:
            raise RefusedError(
                f"{term.name} ends on {term.deadline}; {phase} waits for that day",
                hint=f"on that day: gpuadmin semester-reset{' --resume' if self.open else ''}; before it only with "
                "--early. Reminders alone: gpuadmin notify",
            )

    def refuse_pending(self, phase: str) -> None:
        """A phase that is pending on a host holds up the next ones."""
        for before in PHASES[: PHASES.index(phase)]:
            hosts = self.pending.get(before)
            if hosts:  # guard: a phase that is pending somewhere holds up the next
                reasons = "; ".join(f"{host}: {reason}" for host, reason in hosts.items())
                raise RefusedError(
                    f"{phase}: {before} is not done everywhere: {reasons}",
                    hint="--resume tries again; --leave-pending goes on without these hosts, which stay pending",
                )

    def refuse_abort(self) -> None:
        """What was wiped cannot be taken back."""
        if WIPE in self.begun:  # guard: a wipe that was begun is not taken back
            raise RefusedError(
                "homes are being wiped; this cannot be taken back",
                hint="--resume goes on; gpuadmin restore-home brings single homes back",
            )
