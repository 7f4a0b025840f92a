"""The call for applications: what of a site is in it, and for which term."""

import json
import re
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.applications.questions import questions
from gpuadmin.config.schema import Settings
from gpuadmin.errors import ConfigError
from gpuadmin.pages.call import call, make_call
from gpuadmin.pages.guide import Gpus, Node
from gpuadmin.pages.render import page
from tests.support.fake_ansible import Ansible, Cli

TODAY = date(2027, 3, 1)
TERM = {"name": "2027-1", "deadline": "2027-06-30", "next": {"name": "2027-2", "deadline": "2027-12-31"}}
NODES = (Node("gpu1", "gpu1"), Node("gpu2", "gpu2"))


def settings(**more: Any) -> Settings:
    return Settings.model_validate({"name": "GPU 클러스터", "term": TERM, **more})


def write(language: str, given: Settings, *, gpus: tuple[Gpus, ...] = (), survey: bool = False) -> str:
    wanted = make_call(given, TODAY, coming=False, until=date(2027, 3, 5), members="https://example.org/group")
    return call(language, given, NODES, wanted, gpus=gpus, survey=survey)


@pytest.mark.parametrize("language", ["ko", "en"])
def test_what_of_a_site_is_in_it(language: str) -> None:
    given = settings(
        mail={"host": "localhost", "sender": "gpu@example.org", "guide": "https://example.org/gpu"},
        applications={"form": "https://example.org/form", "domains": ["example.ac.kr"]},
    )
    text = write(language, given, gpus=(Gpus("gpu1", "8 × A100", "550.54"),))
    for part in ("2027-1", "**2027-06-30**", "**2027-03-05**", "8 × A100", "https://example.org/group",
                 "example.org/form", "example.ac.kr", "gpu@example.org", "https://example.org/gpu"):  # fmt: skip
        assert part in text, part
    for question in questions(given, language):
        assert f"*{question.title}*" in text
    assert "2 GPU" not in text
    assert "gpu1, gpu2" in write(language, given)
    assert "<h2" in page(text, language)


@pytest.mark.parametrize("language", ["ko", "en"])
def test_the_survey_has_the_titles_in_their_order(language: str) -> None:
    given = settings(applications={"columns": {"name": "Who | you"}, "student_id": "[0-9]{8}|[A-Z][0-9]{6}"})
    text = write(language, given, survey=True)
    titles = re.search(r"(?s)```\n(.*?)\n```", text)
    assert titles is not None
    assert titles[1].splitlines() == [question.title for question in questions(given, language)]
    cells = re.findall(r"<tr>(.*?)</tr>", page(text, language), re.DOTALL)
    assert {row.count("<td>") for row in cells[1:]} == {5}
    assert "[0-9]{8}|[A-Z][0-9]{6}" in page(text, language)


def test_both_languages_have_the_same_terms_of_use() -> None:
    korean, english = (write(language, settings()) for language in ("ko", "en"))
    assert korean.count("\n- ") == english.count("\n- ") == 7
    assert korean.count("\n## ") == english.count("\n## ")


def test_which_term() -> None:
    now = make_call(settings(), TODAY, coming=False, until=None, members=None)
    assert (now.term, now.deadline) == ("2027-1", date(2027, 6, 30))
    coming = make_call(settings(), TODAY, coming=True, until=None, members=None)
    assert (coming.term, coming.deadline) == ("2027-2", date(2027, 12, 31))
    expires = settings(applications={"expires": "2027-05-31"})
    assert make_call(expires, TODAY, coming=False, until=None, members=None).deadline == date(2027, 5, 31)
    without = Settings.model_validate({"name": "x"})
    assert make_call(without, TODAY, coming=False, until=None, members=None).deadline is None
    for given, more, words in (
        (without, {"coming": True}, "term.next: is missing"),
        (settings(), {"today": date(2027, 7, 1)}, "which is past"),
        (settings(), {"until": date(2027, 2, 28)}, "--until 2027-02-28: is in the past"),
        (settings(), {"until": date(2027, 7, 1)}, "--until 2027-07-01: is after the day"),
    ):
        arguments: dict[str, Any] = {"today": TODAY, "coming": False, "until": None, "members": None, **more}
        with pytest.raises(ConfigError, match=re.escape(words)):
            make_call(given, **arguments)


@pytest.mark.parametrize("language", ["ko", "en"])
@pytest.mark.parametrize("survey", [True, False])
def test_a_site_that_says_little(language: str, survey: bool) -> None:
    given = Settings.model_validate(
        {"name": "x", "docker": {"enabled": False}, "applications": {"columns": {"terms": []}}}
    )
    text = call(language, given, NODES, make_call(given, TODAY, coming=False, until=None, members=None), survey=survey)
    assert "None" not in text
    assert "Docker" not in text


def test_printed_and_written(ansible: Ansible, cli: Cli, tmp_path: Path) -> None:
    assert ansible.site is not None
    deadline = date.today() + timedelta(days=100)
    term = {"name": "2027-1", "deadline": str(deadline)}
    (ansible.site / "gpuadmin.yml").write_text(json.dumps({"name": "test", "term": term}))
    code, out, err = cli("call-for-applications", "--language", "ko", "--until", str(date.today()))
    assert code == 0, err
    assert str(deadline) in out
    assert "does not say where the survey is: applications.form" in err
    assert "where the survey is" not in cli("call-for-applications", "--survey")[2]
    own = ansible.site / "templates/call/terms.en.md.j2"
    own.parent.mkdir(parents=True)
    own.write_text("## Our rules\n")
    assert "## Our rules" in cli("call-for-applications", "--language", "en")[1]
    for arguments in ([], ["--survey"]):
        assert cli("call-for-applications", *arguments, "--output", str(tmp_path / "out"))[0] == 0
    assert len(list((tmp_path / "out").iterdir())) == 8
    assert "이메일 주소" in (tmp_path / "out/survey.ko.html").read_text()
    site = {"name": "test", "term": term, "applications": {"form": "https://example.org/form"}}
    (ansible.site / "gpuadmin.yml").write_text(json.dumps(site))
    assert "where the survey is" not in cli("call-for-applications")[2]
    assert ansible.asked == []


@pytest.mark.parametrize(
    ("following", "coming", "words"),
    [
        (True, False, "or --next: the call is for "),
        (False, False, "or --next, once gpuadmin.yml says which term comes after this one"),
        (True, True, "a later term.next.deadline"),
    ],
)
def test_a_day_after_the_term_is_refused_with_the_way_out(following: bool, coming: bool, words: str) -> None:
    """As in the guide: a call that is published before the break is for the term after this one."""
    term: dict[str, Any] = {"name": "2026-2", "deadline": "2026-12-31"}
    if following:
        term["next"] = {"name": "2027-1", "deadline": "2027-06-30"}
    given = Settings.model_validate({"name": "ai", "term": term})
    with pytest.raises(ConfigError) as caught:
        make_call(given, date(2026, 12, 1), coming=coming, until=date(2027, 7, 5), members=None)
    assert words in str(caught.value.hint)
