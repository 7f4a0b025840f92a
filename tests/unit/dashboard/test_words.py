"""Numbers, times and names as the pages show them."""

import pytest

from gpuadmin.dashboard import words

GIB = 1024**3


@pytest.mark.parametrize(
    ("seconds", "en", "ko"),
    [(0, "0 s", "0초"), (-5, "0 s", "0초"), (59.4, "59 s", "59초"), (59.6, "1 min", "1분"), (60, "1 min", "1분"),
     (7169, "119 min", "119분"), (7199, "2 h", "2시간"), (86400 * 1.5, "36 h", "36시간"), (86400 * 2 - 9, "2 d", "2일"),
     (7200, "2 h", "2시간"), (86400 * 2, "2 d", "2일")],
)  # fmt: skip
def test_ages(seconds: float, en: str, ko: str) -> None:
    assert (words.age(seconds, "en"), words.age(seconds, "ko")) == (en, ko)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("train-llm", "train-llm"), ("민지", "민지"), ("a b", "a b"), ("a\nb", "aU+000Ab"), ("a\u202eb", "aU+202Eb"),
        ("a\u200bb", "aU+200Bb"), ("\u3000", "U+3000"), ("<b>", "<b>"), ("x" * 201, "x" * 199 + "…"), ("", ""),
    ],
)  # fmt: skip
def test_a_name_hides_nothing(text: str, shown: str) -> None:
    assert words.name(text) == shown


def test_what_is_not_known_is_a_dash() -> None:
    assert [words.percent(None), words.number(None), words.gib(None), words.moment(None)] == ["–"] * 4
    assert [words.percent(0.734), words.percent(1.2), words.percent(-1)] == ["73 %", "100 %", "0 %"]
    assert [words.gib(80 * GIB), words.gib(3.04 * GIB), words.gib(0), words.number(2.04, 1)] == [
        "80",
        "3.0",
        "0",
        "2.0",
    ]
    assert words.iso(0) == "1970-01-01T00:00:00Z"


@pytest.mark.parametrize("when", [-1e12, -1.0, 1e300, 253_402_300_800.0])
def test_a_time_that_can_be_none(when: float) -> None:
    """A node says when it booted: no page ends because of it."""
    assert words.moment(when) == "–"
    assert words.iso(when) == "1970-01-01T00:00:00Z"
