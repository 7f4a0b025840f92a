"""The sections, which the page lists."""

from pathlib import Path

from gpuadmin.common.sections import SECTIONS

PAGE = Path(__file__).parents[3] / "docs/compare.md"


def test_the_page_has_all_of_them_in_their_order() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    assert rows == [f"| `{name}` | {words} |" for name, words in SECTIONS.items()]
