"""Spans of time on the terminal, as people read them."""

import pytest

from gpuadmin.actions.shared.now import age


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(-5, "0 s"), (59.4, "59 s"), (59.6, "1 min"), (7169, "119 min"), (7199, "2 h"), (86400 * 1.5, "36 h"),
     (86400 * 2 - 9, "2 d")],
)  # fmt: skip
def test_age(seconds: float, words: str) -> None:
    assert age(seconds) == words
