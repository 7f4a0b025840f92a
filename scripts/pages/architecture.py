"""The picture and the tables of docs/architecture.md, from the rules that import-linter checks (scripts/rooms.toml)."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from . import ROOT

BEGIN, END = "<!-- made from scripts/rooms.toml: make docs -->\n", "<!-- end -->"
WIDTH, HEIGHT, GAP, MARGIN, LETTER = 1000, 34, 8, 16, 8.2  # pixels; a letter of the picture's font is LETTER wide
COLOURS = ("#eef3fb", "#f7f4ea")

Layers = list[list[str]]
BASES = {
    "controller": ROOT / "gpuadmin",
    "node": ROOT / "gpuadmin/collections/ansible_collections/gpuadmin/node/plugins/module_utils",
    "takeover": ROOT / "gpuadmin/takeover",
    "takeover-node": ROOT / "gpuadmin/takeover/node",
}


def rules() -> dict[str, Any]:
    """scripts/rooms.toml."""
    return tomllib.loads((ROOT / "scripts/rooms.toml").read_text(encoding="utf-8"))


def contract(name: str) -> dict[str, Any]:
    found: list[dict[str, Any]] = rules()["tool"]["importlinter"]["contracts"]
    return next(one for one in found if one["id"] == name)


def place(name: str, room: str) -> Path | None:
    """Given a contract's id and a room, return the file that says what the room is for; None where it is not there."""
    base = BASES[name]
    found = base / room / "__init__.py", base / f"{room}.py"
    return next((path for path in found if path.exists()), None)


def layers(name: str) -> Layers:
    """Given a contract's id, return its rooms by layer, highest first; what may be missing only where it is there."""
    found = []
    for line in contract(name)["layers"]:
        rooms = [room.strip().strip("()") for room in re.split(r"[:|]", line)]
        here = [room for room in rooms if place(name, room)]
        if here:
            found.append(here)
    return found


def meaning(name: str, room: str) -> str:
    """The first line of a room's docstring."""
    path = place(name, room)
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) if path else None
    return (text or "").partition("\n")[0].replace("``", "`").replace("|", "\\|")


def rows_of(rooms: Sequence[str], width: float) -> Iterator[list[tuple[str, float]]]:
    """Break one layer's rooms into rows of ``(room, its box's width)`` that fit ``width``."""
    row: list[tuple[str, float]] = []
    for room in rooms:
        box = len(room) * LETTER + 20
        if row and sum(size + GAP for _, size in row) + box > width:
            yield row
            row = []
        row.append((room, box))
    yield row


def band(rooms: Sequence[str], left: float, top: float, width: float, colour: str) -> tuple[list[str], float]:
    """One layer as SVG, and its height."""
    rows = list(rows_of(rooms, width - 2 * GAP))
    height = len(rows) * (HEIGHT + GAP) + GAP
    lines = [f'<rect x="{left:g}" y="{top:g}" width="{width:g}" height="{height:g}" rx="6" fill="{colour}"/>']
    for number, row in enumerate(rows):
        x, y = left + GAP, top + GAP + number * (HEIGHT + GAP)
        for room, box in row:
            lines.append(
                f'<rect x="{x:.1f}" y="{y:g}" width="{box:.1f}" height="{HEIGHT}" rx="4" fill="#fff" stroke="#678"/>'
                f'<text x="{x + box / 2:.1f}" y="{y + 22:g}" text-anchor="middle">{escape(room)}</text>'
            )
            x += box + GAP
    return lines, height


def column(title: str, found: Layers, left: float, width: float) -> tuple[list[str], float]:
    """All layers of one side, with an arrow from each to the one below, and where they end."""
    lines, top = [f'<text x="{left:g}" y="24" font-weight="bold">{escape(title)}</text>'], 38.0
    for number, rooms in enumerate(found):
        if number:
            middle = left + width / 2
            lines.append(
                f'<path d="M{middle:g} {top - 18:g} v10" stroke="#345" stroke-width="2"/>'
                f'<path d="M{middle - 5:g} {top - 9:g} h10 l-5 7 z" fill="#345"/>'
            )
        made, height = band(rooms, left, top, width, COLOURS[number % 2])
        lines += made
        top += height + 20
    return lines, top


def picture() -> str:
    """Both sides beside each other, as SVG: what is higher may import what is lower."""
    half = (WIDTH - 3 * MARGIN) / 2
    left, one = column("the controller: gpuadmin/", layers("controller"), MARGIN, half)
    right, other = column("a node: module_utils/", layers("node"), 2 * MARGIN + half, half)
    height = max(one, other)
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" '
        'font-family="ui-monospace, monospace" font-size="13" fill="#123">'
    )
    background = f'<rect width="{WIDTH}" height="{height:g}" fill="#fff"/>'
    return "\n".join([head, background, *left, *right, "</svg>"]) + "\n"


def table(name: str) -> Iterator[str]:
    """The rooms of one side and what each is for, as Markdown."""
    yield from ["| layer | room | what it is |", "| --- | --- | --- |"]
    for number, rooms in enumerate(layers(name), start=1):
        yield from (f"| {number} | `{room}` | {meaning(name, room)} |" for room in rooms)


def tables() -> str:
    """The rooms of both sides, and the rules in words, as Markdown."""
    found: list[dict[str, Any]] = rules()["tool"]["importlinter"]["contracts"]
    lines = ["### The controller: `gpuadmin/`", "", *table("controller")]
    lines += ["", "### A node: `module_utils/`", "", *table("node")]
    lines += ["", "### The take-over: `gpuadmin/takeover/`", "", *table("takeover")]
    lines += ["", "### The take-over on a node: `gpuadmin/takeover/node/`", "", *table("takeover-node")]
    lines += ["", "### The rules that `make lint` checks", ""]
    for one in found:
        debts = len(one.get("ignore_imports", []))
        lines.append(
            f"- {one['name']}" + (f" (exceptions, each with its reason in the file: {debts})" if debts else "")
        )
    return "\n".join(lines) + "\n"


def page(text: str) -> str:
    """Given docs/architecture.md, return it with the made part as it should be."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables()}\n{END}{after}"
