"""The questions of the survey: one list, for the call that asks them and for the titles that the import looks for.

A site's own titles (`applications.columns`) come first, in both. What a form adds by itself (the time) is not a
question.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gpuadmin.config.schema import Settings

#: Key → language → how the survey asks for it, in its order. columns.py recognises each.
TITLES: dict[str, dict[str, str]] = {
    "email": {"ko": "이메일 주소", "en": "E-mail address"},
    "name": {"ko": "이름", "en": "Name"},
    "student_id": {"ko": "학번", "en": "Student id"},
    "user_name": {"ko": "희망 계정 이름", "en": "Login name"},
    "key": {"ko": "SSH 공개키", "en": "SSH public key"},
    "docker": {"ko": "Docker 사용 여부", "en": "Do you need Docker?"},
    "terms": {"ko": "이용 수칙 동의", "en": "I agree to the terms of use"},
}
_KINDS = {"key": "paragraph", "docker": "choice", "terms": "choice"}
_YES_NO = {"ko": ("예", "아니요"), "en": ("yes", "no")}
_AGREE = {"ko": "동의합니다", "en": "I agree"}


@dataclass(frozen=True)
class Question:
    """A question. `kind`: `short` or `paragraph` (an answer in words) or `choice` (one of `answers`)."""

    key: str
    title: str
    kind: str
    required: bool
    answers: tuple[str, ...] = ()
    pattern: str | None = None


def questions(settings: Settings, language: str) -> list[Question]:
    """Given a site's settings and a language, return what its survey has to ask, in its order."""
    rules = settings.applications
    own: Mapping[str, object] = rules.columns.model_dump()
    agreed = [str(title) for title in rules.columns.terms or ()]
    asked = []
    for key, titles in TITLES.items():
        if key == "docker" and not settings.docker.enabled:
            continue
        if key == "terms":
            ours = [titles[language]] if rules.columns.terms is None else agreed
            asked += [Question(key, title, "choice", True, (_word(settings, language),)) for title in ours]
            continue
        given = own.get(key)
        asked.append(
            Question(
                key,
                given if isinstance(given, str) else titles[language],
                _KINDS.get(key, "short"),
                key in ("email", "docker", *rules.required),
                _YES_NO[language] if key == "docker" else (),
                rules.student_id if key == "student_id" else None,
            )
        )
    return asked


def _word(settings: Settings, language: str) -> str:
    """The answer that means agreement, as the site reads it."""
    known = settings.applications.agree
    wanted = _AGREE[language]
    return wanted if wanted.casefold() in {word.casefold() for word in known} else known[0]
