"""A cause that was found, and the row that says all of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..records import diagnosis

#: Part of a diagnosis → the facts that it found on a host; see module_utils/diagnosis/collect.py.
Facts = Mapping[str, Any]
#: Severities of a cause. `stops`: the thing does not work at all. `hinders`: it works badly, or will not for long.
STOPS, HINDERS, UNKNOWN, NOTE = "stops", "hinders", "unknown", "note"
SEVERITIES = (STOPS, HINDERS, UNKNOWN, NOTE)


class Thing(NamedTuple):
    """A thing that a diagnosis looks at. ``part``: the part of a host's facts that has it; None: the site has it.

    ``step``: the step of a tried session that shows it.
    """

    words: str
    part: str | None
    step: str | None = None


class Text(NamedTuple):
    """A text for the person: what to do and why, in English and in Korean. It names nobody else."""

    do: str
    why: str
    do_ko: str
    why_ko: str

    def fill(self, language: str, values: Mapping[str, object]) -> tuple[str, str]:
        """Return what to do and why. A value that the cause lacks becomes `?`."""
        known: Mapping[str, object] = defaultdict(lambda: "?", values)
        do, why = (self.do_ko, self.why_ko) if language == "ko" else (self.do, self.why)
        return do.format_map(known), why.format_map(known)


def tell_admins(why: str, why_ko: str) -> Text:
    """Given the reason, return the text of a cause that only admins can mend."""
    return Text("Tell your admins", why, "관리자에게 알려 주세요", why_ko)


def type_command(command: str, why: str, why_ko: str) -> Text:
    """Given a command and the reason, return the text of a cause that the person mends by typing the command."""
    return Text(command, why, command, why_ko)


@dataclass(frozen=True)
class Row:
    """A row of the table of causes. A new cause has one, beside its rule, and nothing else lists it.

    ``words``: a sentence for admins. ``remedy``: what an admin does; HOSTS, STORAGE and EXPORT in it are the
    controller's to fill in. ``person``: what `gpuadmin-me` says; None: only root or users.yml can show the cause.
    ``others``: name → other words and remedy of the same cause. ``before``: the code in front of which this row is
    named, where the order of the files says otherwise.
    """

    code: str
    severity: str
    thing: Thing | None
    words: str
    remedy: str
    person: Text | None
    others: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    before: str = ""


@dataclass(frozen=True)
class Cause(diagnosis.Cause):
    """A cause that was found, without its host in the sentence.

    ``hosts``: the hosts that have it; none where the site has it. ``values``: what the row's texts were filled with.
    """

    hosts: tuple[str, ...] = ()
    values: Mapping[str, object] = field(default_factory=dict, compare=False)

    @property
    def line(self) -> str:
        """The cause in one line: `node1, node2: the account is locked`."""
        return f"{', '.join(self.hosts)}: {self.cause}" if self.hosts else self.cause

    @property
    def todo(self) -> str:
        """The remedy, with the hosts that it is for."""
        return self.remedy.replace("HOSTS", ",".join(self.hosts))

    def document(self) -> dict[str, Any]:
        """The cause as a host reports it."""
        return {"code": self.code, "cause": self.cause, "remedy": self.remedy, "evidence": list(self.evidence)}


class Table(dict[str, Row]):
    """Rows by their codes."""

    def __init__(self, *rows: Row) -> None:
        super().__init__({row.code: row for row in rows})

    def find(self, which: str, /, *evidence: str, **values: object) -> Cause:
        """Given a code or `code/other`, return the cause with its texts filled in."""
        code, _, other = which.partition("/")
        row = self[code]
        words, remedy = row.others[other] if other else (row.words, row.remedy)
        return Cause(code, words.format_map(values), remedy.format_map(values), evidence, values=values)
