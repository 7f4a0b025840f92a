"""The figures in benchmarks/README.md: what each benchmark printed when `make benchmarks` ran it last."""

from __future__ import annotations

import ast
import json
from typing import Any

from . import ROOT

FOLDER = ROOT / "benchmarks"
BEGIN, END = "<!-- made from benchmarks/figures.json: make docs -->\n", "<!-- end -->"


def page(text: str) -> str:
    """Given the page, return it with the figures of the last runs."""
    figures = json.loads((FOLDER / "figures.json").read_text(encoding="utf-8"))
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + BEGIN + "\n".join(_section(name, found) for name, found in figures.items()) + END + after


def _section(name: str, found: dict[str, Any]) -> str:
    shows = ast.get_docstring(ast.parse((FOLDER / f"{name}.py").read_text(encoding="utf-8"))) or ""
    first = " ".join(shows.partition("\n\n")[0].split())
    facts = f"{found['in_use']} of {found['processors']} cores in use before, {found['minutes']} minutes"
    busy = " **The machine was busy.**" if found["in_use"] > found["processors"] / 4 else ""
    missed = " **A promise was missed.**" if found["missed"] else ""
    printed = found["output"] if "| ---" in found["output"] else f"```\n{found['output']}\n```"
    return f"""## {name}
{first}

`{found["command"]}`, {found["commit"]}, {found["date"]}: {facts}.{busy}{missed}

{printed}

"""
