"""docs/releases.md: which verb was run on which release, from docs/releases.toml."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from gpuadmin.lab.releases import RELEASES

ROOT = Path(__file__).resolve().parents[2]
#: What a cell may say, and how the page shows it.
WORDS = {"worked": "worked", "refused": "refused, in words", "failed": "**failed**", "": "not run"}


def page(text: str | None = None) -> str:
    """Return the page, of this data or of the file. Raises ValueError for a cell that says something else."""
    data: dict[str, Any] = tomllib.loads(text or (ROOT / "docs" / "releases.toml").read_text(encoding="utf-8"))
    numbers = data["releases"]
    lines = [
        "# Which releases were tried",
        "",
        "[//]: # (Made from docs/releases.toml by `make docs`.)",
        "",
        *data["introduction"].strip().splitlines(),
        "",
        "## What each has",
        *_table("", numbers, {name: dict(zip(numbers, row, strict=True)) for name, row in data["versions"].items()}),
        "## What was run",
        *_table("verb", numbers, {name: _cells(name, run, numbers) for name, run in data["verbs"].items()}),
        "## What to know",
        "",
        *data["notes"].strip().splitlines(),
    ]
    return "\n".join(lines) + "\n"


def _cells(name: str, run: dict[str, str], numbers: list[str]) -> dict[str, str]:
    cells = {number: run.get(number, "") for number in numbers}
    if strangers := (set(run) - set(numbers) - {"what"}) | (set(cells.values()) - set(WORDS)):
        raise ValueError(f"{name}: {', '.join(sorted(strangers))}")
    return {**{number: WORDS[word] for number, word in cells.items()}, "what": run["what"]}


def _table(head: str, numbers: list[str], rows: dict[str, dict[str, str]]) -> list[str]:
    more = ["what was run"] if any("what" in row for row in rows.values()) else []
    columns = [head, *(RELEASES[number].title for number in numbers), *more]
    keys = [*numbers, *(["what"] if more else [])]
    body = [
        f"| {' | '.join([f'`{name}`' if head else name, *(row[key] for key in keys)])} |" for name, row in rows.items()
    ]
    return ["", f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}", *body, ""]
