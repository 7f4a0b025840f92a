"""The table of docs/diagnose.md."""

from __future__ import annotations

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/diagnose.md"
BEGIN, END = "<!-- made by tests/unit/diagnosis/test_faults.py -->", "<!-- end -->"


def row(words: str) -> list[str]:
    """The first line that the page has for a fault, and what to do; nothing where it does not have the fault."""
    text = PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.partition(BEGIN)[2].partition(END)[0].splitlines() if line.startswith(f"| {words} |")]
    return [part.removesuffix(" |").strip("` ") for part in rows[0].split(" | ")[1:]] if rows else []
