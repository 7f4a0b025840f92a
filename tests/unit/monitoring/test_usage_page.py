"""`gpuadmin usage --html`: what is on the page, from numbers."""

import re

import pytest

from gpuadmin.actions.shared.usage_page import usage_page
from gpuadmin.common.usage import Bought, Usage


def test_a_page_escapes_names_and_holds_the_sums() -> None:
    rows = [Usage(f"<b>{number}\u202e", 10.0 - number / 10, 8.0, 5.0, None) for number in range(40)]
    page = usage_page("c & d", "user", rows, Usage("all", 400, 320, 200, 1000.0), Bought(1000, 400, 200, 80), "D")
    assert "<b>" not in page
    assert "\u202e" not in page
    assert "c &amp; d" in page
    assert "10 more are in the table" in page
    assert page.count("<tr><th") == 1 + 40 + 1
    (whole,) = re.findall(r'aria-label="Of 1,000.*?</svg>', page, re.DOTALL)
    wide = [
        float(one) for one in re.findall(r'class="(?:used|idle|unknown)" x="[0-9.]+" y="2" width="([0-9.]+)"', whole)
    ]
    assert wide == pytest.approx([104, 62.4, 41.6])


def test_a_page_of_nothing() -> None:
    page = usage_page("c", "node", [], Usage("all", 0, 0, 0, None), Bought(0, 0, 0, 0), "The last 30 days")
    assert "Nothing was measured." in page
    assert "<p>The last 30 days, as of " in page
    assert "Nothing is known of how many GPUs there were." in page
