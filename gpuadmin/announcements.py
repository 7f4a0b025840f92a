"""Announcements: what people read, where and until when; and a site's record of them, which only grows.

Its name is made from what it says, so the same command again is the same announcement: it goes on where it was cut off.
"""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, time, timedelta
from pathlib import Path
from typing import Any

from gpuadmin import records
from gpuadmin.common.appending import append_synced
from gpuadmin.config import fields
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.jsontext import json_text
from gpuadmin.reading import is_absent, read_record

FILE = "announcements.jsonl"
_LINES, _LONGEST = 40, 200  # lines of a text, characters of a line


@dataclass(frozen=True)
class Window:
    """When nodes are maintained: seconds since 1970. `verb`: what runs then, as it is typed after `gpuadmin`."""

    begin: int
    until: int
    reason: str
    verb: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """What runs then, as it is typed in a shell; empty: nothing does by itself."""
        return shlex.join(("gpuadmin", *self.verb)) if self.verb else ""


@dataclass(frozen=True)
class Announcement:
    """What is announced. `texts`: by language a text, whose first line is its subject; `until`: its last day. `window`:
    of the maintenance that it is about."""

    id: str
    texts: Mapping[str, str]
    begin: date
    until: date
    hosts: tuple[str, ...]
    window: Window | None = None

    @property
    def subject(self) -> str:
        """Its first line, as admins read it: in English, where there is that."""
        return (self.texts.get("en") or next(iter(self.texts.values()))).split("\n")[0]

    @property
    def mail(self) -> str:
        """What its mail is called in the ledger: whoever got these texts does not get them again for other nodes."""
        # guard: the same texts are mailed once, for whichever nodes -> self.id
        return _name([dict(self.texts), str(self.until)])

    @property
    def beginning(self) -> str:
        """What the plan of the run is called that begins this window."""
        return f"Window {self.id}: {self.subject}"

    @property
    def calling_off(self) -> str:
        """The same of the run that takes it back."""
        return f"Take back: {self.subject}"

    def over(self, today: date) -> bool:
        """Whether its last day is past."""
        return self.until < today

    def entry(self, cluster: str) -> dict[str, Any]:
        """What a node is given: moments in seconds since the epoch, by this machine's calendar, and the text."""
        parts = [f"*** {cluster}: {text}" for text in self.texts.values()]
        return {
            "id": self.id,
            "begin": int(datetime.combine(self.begin, time.min).timestamp()),
            "end": int(datetime.combine(self.until + timedelta(days=1), time.min).timestamp()),
            "text": "\n\n".join(parts),
            **({"closed_from": self.window.begin, "closed_until": self.window.until} if self.window else {}),
        }

    def values(self) -> dict[str, Any]:
        """What the mail's templates are given."""
        parts = {language: text.split("\n") for language, text in self.texts.items()}
        texts = {language: {"subject": lines[0], "lines": lines[1:]} for language, lines in parts.items()}
        return {"texts": texts, "until": self.until, "login": bool(self.hosts)}


def compose(
    texts: Mapping[str, str],
    languages: Sequence[str],
    begin: date | None,
    until: date,
    hosts: Sequence[str],
    today: date,
) -> Announcement:
    """Given texts by language, days and hosts, return the announcement. Raises ConfigError for what cannot be one.

    `begin`: None begins today. It is the same announcement on the day after, when somebody goes on with it.
    """
    missing = [language for language in languages if not texts.get(language, "").strip()]
    if missing:
        raise ConfigError(
            f"--{missing[0]}: the text is missing", hint=f"people read it in {' and '.join(languages)} (mail.languages)"
        )
    first = begin or today
    if (
        until < first
        # guard: an announcement that is over is refused
        or until < today
    ):
        wrong = "is in the past: name today or a later day" if until < today else f"is before --from {first}"
        raise ConfigError(f"--until {until}: {wrong}")
    clean = {language: _clean(language, texts[language]) for language in languages}
    name = _name(
        [
            clean,
            # guard: an announcement is the same one after midnight -> str(first)
            None if begin is None else str(begin),
            str(until),
            sorted(hosts),
        ]
    )
    return Announcement(name, clean, first, until, tuple(hosts))


def _name(content: object) -> str:
    return hashlib.sha256(json_text(content, indent=None).encode()).hexdigest()[:8]


def _names(value: object) -> list[str]:
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(value)
    return value


def _clean(language: str, text: str) -> str:
    lines = [line.rstrip() for line in text.strip().expandtabs(4).splitlines()]
    if len(lines) > _LINES:
        raise ConfigError(f"--{language}: has {len(lines)} lines; at most {_LINES} are read at login")
    for number, line in enumerate(lines, start=1):
        try:
            fields.plain_text(line, longest=_LONGEST)  # guard: an announcement is a template of nobody
        except ValueError as error:
            raise ConfigError(f"--{language}: line {number}: {error}") from None
    return "\n".join(lines)


class Announcements:
    """A site's announcements, as its file has them; and what became of windows, as records of all machines have it.

    A record can end a window and say that it was begun. It makes none: what a window runs is root on its hosts.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._all: dict[str, Announcement] = {}
        self._back: set[str] = set()
        self._reached: dict[str, set[str]] = {}
        self._at: dict[str, str] = {}
        self._begun: dict[str, dict[str, Any]] = {}
        try:
            raw = b"" if is_absent(path) else read_record(path)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}", hint="without it nobody knows what is announced") from None
        *lines, _torn = raw.split(b"\n")  # a crash tore off a last line without its end; it counts for nothing
        for number, line in enumerate(lines, start=1):
            self._fold(line, number)

    @classmethod
    def of(cls, site: Path) -> Announcements:
        """Those of a site's directory. Raises ConfigError if its file is damaged."""
        found = cls(site / FILE)
        if windows := [one for one in found if one.window and found.holds(one.id)]:
            for run, result in records.history(site / "runs", ("announce", "maintain")):
                found._note(windows, run, (result or {}).get("result"))
        return found

    def _note(self, windows: Sequence[Announcement], run: Mapping[str, Any], result: object) -> None:
        over = result.get("over") if isinstance(result, dict) else None
        # guard: what became of a window that was announced again counts for that one no more -> windows
        for one in [one for one in windows if self._at[one.id] <= run["started"] and not run["check"]]:
            if ended := isinstance(over, list) and one.id in over:
                self._back.add(one.id)  # guard: a window that another machine ended or called off is over
            title = str(run["plan"].get("title"))  # by the id: an earlier gpuadmin had the other language there
            if title.startswith(f"Window {one.id}: ") and (ended or one.id not in self._begun):
                self._begun[one.id] = dict(run)
            # guard: a window that somebody was calling off when their run was cut is not begun by itself
            if title == one.calling_off and run["status"] == "unfinished":
                self._begun.setdefault(one.id, dict(run))

    def begun(self, one: Announcement) -> dict[str, Any] | None:
        """The last run that began a window, or that was cut when it called it off: `who`, `started`, `status`."""
        return self._begun.get(one.id)

    def _fold(self, line: bytes, number: int) -> None:
        try:
            value = json.loads(line)
            name = str(value["id"])
            if value["event"] == "taken back":
                self._back.add(name)
                return
            if value["event"] == "reached":
                self._reached.setdefault(name, set()).update(_names(value["hosts"]))
                return
            begin, until = (date.fromisoformat(value[key]) for key in ("begin", "until"))
            texts = {str(language): str(text) for language, text in value["texts"].items()}
            hosts = tuple(str(host) for host in value["hosts"])
            given = value.get("window")
            window = None if given is None else Window(
                int(given["begin"]), int(given["until"]), str(given["reason"]), tuple(_names(given["verb"]))
            )  # fmt: skip
            if not texts:
                raise ValueError(name)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigError(
                f"{self.path}:{number}: is damaged, so what is announced is not known",
                hint="restore the file from version control, or delete the line",
            ) from None
        self._back.discard(name)
        if "reached" in value:  # not in what earlier versions wrote
            self._reached[name] = set()
        self._at[name] = str(value.get("at", ""))
        self._all[name] = Announcement(name, texts, begin, until, hosts, window)

    def __iter__(self) -> Any:
        return iter(self._all.values())

    def holds(self, name: str) -> bool:
        """Whether it is announced, and was not taken back."""
        return name in self._all and name not in self._back

    def find(self, name: str) -> Announcement:
        """The announcement of that id, or the only one that begins or ends so, as ids of runs are given.

        Raises ConfigError if there is none, or it was taken back.
        """
        if self.holds(name):
            return self._all[name]
        known = [one.id for one in self if self.holds(one.id)]
        matching = [one for one in known if name and (one.startswith(name) or one.endswith(f"-{name}"))]
        if len(matching) != 1:  # guard: of two announcements that begin so none is taken back
            why = (
                f"more than one announcement begins with {name!r}" if matching else f"there is no announcement {name!r}"
            )
            raise ConfigError(why, hint=f"announced: {', '.join(matching or known) or 'none'}")
        return self._all[matching[0]]

    def reached(self, one: Announcement) -> list[str] | None:
        """The hosts that have had it, in the order of its own; None if its record is from a version that did not
        keep them."""
        found = self._reached.get(one.id)
        return None if found is None else [host for host in one.hosts if host in found]

    def kept(self, one: Announcement) -> Announcement:
        """The announcement as it was recorded, if it is announced already: it began when it began."""
        return self._all[one.id] if self.holds(one.id) else one

    def entries(
        self,
        hosts: Sequence[str],
        cluster: str,
        today: date,
        *,
        more: Sequence[Announcement] = (),
        but: str | None = None,
        everything: Sequence[str] = (),
    ) -> dict[str, list[dict[str, Any]]]:
        """By host everything that it is to have. `more`: also these; `but`: not this one. What is over is left out.
        `everything`: hosts that have what is announced on any node, for the dashboard.

        The same texts are there once, though they were announced for some nodes and then for others.
        """
        wanted = {one.id: one for one in self if self.holds(one.id)} | {one.id: one for one in more}
        found: dict[str, list[dict[str, Any]]] = {}
        for host in dict.fromkeys([*hosts, *everything]):
            here = [
                one
                for one in wanted.values()
                if (host in one.hosts or host in everything) and one.id != but and not one.over(today)
            ]
            once: dict[str, Announcement] = {}
            for one in sorted(here, key=lambda one: one.begin):
                once.setdefault(one.mail, one)
            found[host] = [one.entry(cluster) for one in once.values()]
        return found

    def add(self, one: Announcement, who: str) -> None:
        """Record that something is announced; what is recorded already is not again."""
        if not self.holds(one.id):
            facts = {**asdict(one), "begin": str(one.begin), "until": str(one.until)}
            self._append("announced", {**facts, "hosts": list(one.hosts), "reached": []}, who)
            self._reached[one.id] = set()
            self._all[one.id] = one
            self._back.discard(one.id)

    def add_reached(self, hosts: Sequence[str], who: str) -> None:
        """Record that these hosts have all that is announced on them."""
        for one in self:
            known = self._reached.get(one.id)
            if known is not None and self.holds(one.id) and (new := set(hosts) & set(one.hosts) - known):
                self._append("reached", {"id": one.id, "hosts": sorted(new)}, who)
                known |= new

    def take_back(self, name: str, who: str) -> None:
        """Record that it is taken back."""
        self._append("taken back", {"id": name}, who)
        self._back.add(name)

    def _append(self, event: str, facts: Mapping[str, Any], who: str) -> None:
        line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "event": event, "who": who, **facts}
        try:
            append_synced(self.path, json_text(line, indent=None) + "\n")
        except OSError as error:
            raise GpuadminError(f"{self.path}: {error.strerror}", hint="make room there, then run it again") from None
