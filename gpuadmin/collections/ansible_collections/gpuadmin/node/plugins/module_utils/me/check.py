"""The checks of a diagnosis for the person who runs them: the same rules, without privileges, in plain words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuadmin.common.causes.cause import HINDERS, STOPS, Cause
from gpuadmin.common.causes.judge import CAUSES, judge
from gpuadmin.common.records.diagnosis import RegisteredPerson as Person

from ..diagnosis.collect import collect
from ..diagnosis.sessions import CGROUP, count_slice
from ..diagnosis.subject import Subject
from ..errors import NodeError
from . import queue_place

#: The sentence for when no cause was found, and how much that means.
RIGHT = {
    "en": "{0} things were checked, and none of them keeps you from working. "
    "Not checked: your keys, log-ins from outside, your programs.",
    "ko": "{0}가지를 확인했고 그중에 작업을 막는 문제는 없습니다. "
    "확인하지 않은 것: 키, 외부에서의 로그인, 사용하는 프로그램.",
}
#: The way to a GPU, as `way` in a text: on a node without `gpu get`, and on one with it.
TO_ASK: Mapping[str, tuple[str, str]] = {
    "en": ("ask your admins, and say for how long and why", "`gpu get`"),
    "ko": ("관리자에게 사용 기간과 용도를 알려", "gpu get으로"),
}
#: What shows which GPUs are free, as `look` in a text: likewise.
TO_LOOK = ("nvidia-smi", "gpu list")
LANGUAGES = ("en", "ko")
NO_GRANT = "gpu-grant"
_ORDER = [code for code, row in CAUSES.items() if row.person is not None]
SECONDS = 6.0  # for each part; nobody else waits for it, and processes start slowly where memory is short


def find_causes(subject: Subject) -> tuple[list[Cause], int]:
    """Return the causes that a person who asks may know, the most decisive first, and how many parts were looked at.

    What users.yml says of a person is not on a node: who has no Docker may not have wanted any.
    """
    person = Person(str(subject.name), subject.uid, docker=False)
    try:
        facts = collect(replace(subject, trial=True), seconds=SECONDS)
    except BlockingIOError:  # fork(2): there is no process left for them
        counted = count_slice(subject.uid or 0, subject.path(CGROUP))
        count, most = counted.get("tasks", "?"), counted.get("tasks_max", "?")
        return [CAUSES.find("tasks", name=person.name, uid=person.uid, count=count, most=most)], 0
    found = [one for one in judge(facts, person) if one.code in _ORDER]
    looked = [one for one in facts if one not in ("node", "unknown", "late") and facts[one] is not None]
    return sorted(found, key=lambda one: _ORDER.index(one.code)), len(looked)


def is_serious(cause: Cause) -> bool:
    """Whether a cause keeps its person from working, or soon will."""
    return CAUSES[cause.code].severity in (STOPS, HINDERS)


def find_queued_jobs(subject: Subject, found: Sequence[Cause]) -> list[Mapping[str, Any]] | None:
    """The jobs of a person who has no GPU here in the queue. Nothing where that is not known;
    None where `gpu get` gives none on this node."""
    if not queue_place.has_queue(subject):
        return [] if queue_place.has_self_service(subject) else None
    if not any(one.code == NO_GRANT for one in found):
        return []
    try:
        queue = queue_place.find_place(subject)
    except (NodeError, OSError):
        return []
    return [] if queue is None else list(queue["mine"])


def lines(
    found: Sequence[Cause], looked: int, host: str, language: str, queued: Sequence[Mapping[str, Any]] | None = None
) -> list[str]:
    """The lines to print: for each cause what to do, then why. If there is none, that ``looked`` parts are fine.

    ``queued``: whoever has asked the queue for a GPU already is told where it is, or their place. None: there is none.
    """
    korean = language == "ko"
    serious = [one for one in found if is_serious(one)]
    output = []
    if not serious:
        output.append(f"{host}: {RIGHT[language].format(looked)}")
    for pair in dict.fromkeys(_fill_text(one, language, queued) for one in serious):
        output += _indent("* ", pair, korean)
    for pair in dict.fromkeys(_fill_text(one, language, queued) for one in found if not is_serious(one)):
        output += _indent("- ", pair, korean)
    return output


def _fill_text(one: Cause, language: str, queued: Sequence[Mapping[str, Any]] | None) -> tuple[str, str]:
    way = TO_ASK[language][queued is not None]
    text = CAUSES[one.code].person
    assert text is not None, "a cause without one is for admins"
    remedy, why = text.fill(language, {**one.values, "way": way, "look": TO_LOOK[queued is not None]})
    if queued and one.code == NO_GRANT:
        remedy = " ".join(queue_place.lines({"mine": queued}, language))
    return remedy, why


def _indent(mark: str, pair: tuple[str, str], korean: bool) -> list[str]:
    remedy, why = pair
    return [f"{mark}{remedy}", f"  {'이유' if korean else 'because'}: {why}"]
