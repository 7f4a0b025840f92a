"""What is new since the last import: for whoever imports the same form every evening. Pure.

Only what is shown depends on it. What to do follows from users.yml and the ledger of mails, every time, so nobody is
overlooked for ever. The one exception is somebody whose account was removed since: the form that they once sent does
not give it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from gpuadmin.applications.matching import Entry, Lists
from gpuadmin.config.schema import Registry

_NAMES = ("ready", "incomplete", "unknown")


@dataclass(frozen=True)
class Last:
    """The last import that came to an end: its run, its day, and its lists as the run's record has them."""

    run: str
    day: date
    lists: Mapping[str, list[Mapping[str, Any]]]

    @classmethod
    def of(cls, run: Mapping[str, Any], document: Mapping[str, Any] | None) -> Last | None:
        """Given a recorded run and its document, return what it imported; None if it is not a complete import."""
        result = (document or {}).get("result")
        if run.get("verb") != "import-applications" or run.get("check") or not isinstance(result, Mapping):
            return None
        lists = {name: result.get(name) for name in _NAMES}
        if not all(
            isinstance(found, list) and all(isinstance(one, Mapping) for one in found) for found in lists.values()
        ):
            return None
        try:
            day = date.fromisoformat(str(run["started"])[:10])
        except (KeyError, ValueError):
            return None
        return cls(str(run.get("id")), day, {name: found or [] for name, found in lists.items()})

    def knows(self, name: str, entry: Entry) -> bool:
        """Whether it had the same about the same form in its list of that name."""
        mine = _facts(entry.document())
        return any(_facts(other) == mine for other in self.lists[name])

    def had_ready(self, entry: Entry) -> bool:
        """Whether somebody was ready then, by the same form."""
        mine = _form(entry.document())
        return any(_form(other) == mine for other in self.lists["ready"])


def new_since(lists: Lists, last: Last | None) -> Lists:
    """Given today's lists, return what of them the last import did not have. Without one everything is new."""
    if last is None:
        return lists
    ready = tuple(entry for entry in lists.ready if not entry.present and not last.knows("ready", entry))
    incomplete = tuple(entry for entry in lists.incomplete if not last.knows("incomplete", entry))
    unknown = tuple(entry for entry in lists.unknown if not last.knows("unknown", entry))
    return Lists(ready, incomplete, unknown, lists.notes)


def without_removed(lists: Lists, last: Last | None, registry: Registry) -> Lists:
    """Given today's lists, return them without those whose account was removed since the last import, who had it by
    the same form. A note names them.
    """
    if last is None:
        return lists
    removed = {
        one.email.casefold() for one in registry.retired if one.email is not None and one.removed >= last.day
    }  # fmt: skip
    gone = [
        entry
        for entry in lists.ready
        if
        # guard: a removed account is not given back by an old form -> False
        not entry.present and (entry.email or "").casefold() in removed and last.had_ready(entry)
    ]
    notes = tuple(
        f"{entry.email}: the account was removed since; a new form, or an import without --since-last, gives it again"
        for entry in gone
    )
    return replace(lists, ready=tuple(entry for entry in lists.ready if entry not in gone), notes=lists.notes + notes)


def _form(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """Which form it is: by address and time; by its line where it has no time."""
    time = document.get("time")
    return document.get("email"), time or document.get("line")


def _facts(document: Mapping[str, Any]) -> tuple[Any, ...]:
    """Everything that an admin would see, except who has the account now."""
    facts = {key: value for key, value in document.items() if key not in ("line", "time", "present", "account")}
    return (*_form(document), *sorted((key, str(value)) for key, value in facts.items()))
