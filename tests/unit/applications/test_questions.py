"""The survey that the call asks for is the one that the import reads."""

import csv
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.applications.questions import questions
from gpuadmin.applications.read import read_form
from gpuadmin.config.schema import Settings
from tests.support.sites import public_key

ANSWERS = {
    "email": "minji@example.org", "name": "김민지", "student_id": "2026-0001", "user_name": "minji",
    "key": public_key("minji"),
}  # fmt: skip
RULES: dict[str, dict[str, Any]] = {
    "as it is": {},
    "its own titles": {"columns": {"email": "Mail (university)", "key": "공개 키 (한 줄)", "name": "Who are you?"}},
    "two terms": {"columns": {"terms": ["Rules", "Privacy"]}},
    "no terms": {"columns": {"terms": []}},
    "its own word of agreement": {"agree": ["그렇습니다"]},
    "only an address": {"required": []},
}


@pytest.mark.parametrize("language", ["ko", "en"])
@pytest.mark.parametrize("docker", [True, False])
@pytest.mark.parametrize("rules", RULES.values(), ids=RULES.keys())
def test_what_is_answered_as_it_is_asked_is_read(
    tmp_path: Path, rules: dict[str, Any], docker: bool, language: str
) -> None:
    settings = Settings.model_validate({"name": "x", "applications": rules, "docker": {"enabled": docker}})
    asked = questions(settings, language)
    row = [question.answers[0] if question.answers else ANSWERS[question.key] for question in asked]
    with (tmp_path / "form.csv").open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(
            [["타임스탬프", *(question.title for question in asked)], ["2026-11-20 15:04", *row]]
        )
    (application,) = read_form(tmp_path / "form.csv", settings.applications)
    assert application.missing == ()
    assert application.time is not None
    found = (application.email, application.name, application.student_id, application.user_name, application.keys)
    assert found == ("minji@example.org", "김민지", "20260001", "minji", (public_key("minji"),))
    assert application.docker is True


@pytest.mark.parametrize("language", ["ko", "en"])
def test_what_is_required_is_what_nobody_gets_an_account_without(language: str) -> None:
    settings = Settings.model_validate({"name": "x", "applications": {"required": ["key"]}})
    required = {question.key for question in questions(settings, language) if question.required}
    assert required == {"email", "key", "docker", "terms"}


def test_both_languages_ask_the_same() -> None:
    settings = Settings.model_validate({"name": "x"})
    korean, english = (
        [(one.key, one.kind, one.required, one.pattern) for one in questions(settings, language)]
        for language in ("ko", "en")
    )
    assert korean == english
