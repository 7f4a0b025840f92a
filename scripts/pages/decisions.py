"""The index of docs/decisions/, from the heads of its pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from . import ROOT

HEAD = re.compile(
    r"# (?P<number>\d+)\. (?P<title>.+)\n\nDate: (?P<date>\d{4}-\d\d-\d\d) · "
    r"Status: (?P<status>(?:proposed|accepted|rejected|replaced by \[).*)\n"
)


@dataclass(frozen=True)
class Decision:
    """The head of one page; ``file`` is its name in docs/decisions/."""

    file: str
    number: int
    title: str
    date: str
    status: str


def decisions() -> Iterator[Decision]:
    """Yield every decision by number. Raises ValueError for a page without the head."""
    for path in sorted((ROOT / "docs/decisions").glob("[0-9]*.md")):
        found = HEAD.match(path.read_text(encoding="utf-8"))
        if found is None or int(found["number"]) != int(path.name[:4]):
            raise ValueError(f"{path.name} begins with '# N. Title' and 'Date: YYYY-MM-DD · Status: accepted'")
        yield Decision(path.name, int(found["number"]), found["title"], found["date"], found["status"])


def index() -> str:
    """The index, as Markdown."""
    lines = [
        "# Decisions", "",
        "Why things are the way they are: a page for each choice that somebody will ask about. Made by `make docs`.",
        "", "| | decision | date | status |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    lines += [f"| {one.number} | [{one.title}]({one.file}) | {one.date} | {one.status} |" for one in decisions()]
    return "\n".join(lines) + "\n"
