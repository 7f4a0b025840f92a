"""What a person sees of a verb: plan and tables. Colour on a terminal, plain lines elsewhere.

Whatever is printed on its console is data: see `gpuadmin.terminal`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING

from rich import box
from rich.console import ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from gpuadmin.plan import Plan
from gpuadmin.report import alike, shortened
from gpuadmin.results import HostResult
from gpuadmin.terminal import SafeConsole
from gpuadmin.text import one_line

if TYPE_CHECKING:
    from rich.console import Console

_UNBOUND = 10_000  # columns: a table is as wide as its cells


def make_console(*, json: bool) -> SafeConsole:
    """The console for people: standard output, or standard error when the output is a JSON document.

    Whatever is printed on it is data: see `gpuadmin.terminal`. rich itself honours NO_COLOR and TERM=dumb.
    """
    stream = sys.stderr if json else sys.stdout
    # In a pipe a line of output stays a line, whatever its length, so that grep works and no name is cut.
    return SafeConsole(file=stream, highlight=False, emoji=False, markup=False, width=None if stream.isatty() else 4000)


_WIDEST = 60  # columns of a cell where there is no terminal
_RULE = 100  # columns of the line below a head there
_MANY_ROWS = 200  # above them a table is laid out line by line


def styled(*parts: str | tuple[str, str]) -> Text:
    """Given texts, or pairs of a text and its style, return one line of text: data in it stays data."""
    return Text.assemble(
        *(
            # guard: styled text is one line of output -> visible(part)
            one_line(part) if isinstance(part, str) else (one_line(part[0]), part[1])
            for part in parts
        )
    )


def join_lines(lines: Iterable[str]) -> Text:
    """Given lines, return them as one text in which each stays a line, whatever is in it."""
    return Text(
        "\n".join
        # guard: lines of a table are as many as there are -> (visible(line) for line in lines)
        (one_line(line) for line in lines)
    )


class PlainTable(Table):
    """On a terminal, rich's table. In a file or a pipe a line is as wide as its content: the last column is neither
    padded nor wrapped, so that grep finds a sentence; the others wrap at blanks.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if options.is_terminal:
            yield from super().__rich_console__(console, options)
        elif self.columns:
            yield Text("\n", no_wrap=True, overflow="ignore", end="\n").join(_laid_out(console, self, _WIDEST))


def make_table(*titles: str, right: Sequence[str] = (), fold: bool = False) -> Table:
    """An empty table. `right`: titles of columns of numbers. `fold`: long cells are folded rather than cut."""
    table = PlainTable(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="right" if title in right else "left", overflow="fold" if fold else "ellipsis")
    return table


def has_room(console: SafeConsole, table: Table) -> bool:
    """Whether a table has no line that the terminal is too narrow for."""
    return Measurement.get(console, console.options.update(width=_UNBOUND), table).maximum <= console.width


def show_table(console: SafeConsole, table: Table) -> None:
    """Print a table. One of many rows is laid out here, line by line: rich takes a second for a thousand of them."""
    if table.row_count <= _MANY_ROWS:
        console.print(table)
        return
    lines = _laid_out(console, table, _UNBOUND if console.is_terminal else _WIDEST)
    if console.is_terminal:
        for line in lines:
            line.truncate(console.width, overflow="ellipsis")
    console.print(Text("\n").join(lines), no_wrap=True, overflow="ignore", crop=False)


def _laid_out(console: Console, table: Table, widest: int) -> list[Text]:
    """The lines of a table with a blank one before and after. `widest`: columns of a cell, but in the last."""
    last = len(table.columns) - 1
    columns = [
        [
            [part for line in _text(cell) for part in (_fold(console, line, widest) if fold else [line])]
            for cell in (column.header, *column.cells)
        ]
        for number, column in enumerate(table.columns)
        for fold in [number != last and not column.no_wrap]
    ]
    widths = [max(line.cell_len for cell in column for line in cell) for column in columns]
    right = [column.justify == "right" for column in table.columns]
    rows = [[*zip_longest(*cells, fillvalue=Text())] for cells in zip(*columns, strict=True)]
    lines = [_row(row, widths, right) for one in rows for row in one]
    head = len(rows[0])
    for line in lines[:head]:
        line.stylize("bold")
    ruled = sum(widths) + 3 * len(widths) - 3
    lines.insert(head, Text(" " + "─" * (ruled if widest == _UNBOUND else min(ruled, _RULE))))
    return [Text(), *lines, Text()]


def _text(cell: RenderableType) -> list[Text]:
    """The lines of a cell."""
    assert isinstance(cell, str | Text)
    if isinstance(cell, str):
        return [Text(one_line(cell))]
    return list(cell.split("\n", allow_blank=True)) if "\n" in cell.plain else [cell]


def _fold(console: Console, line: Text, widest: int) -> list[Text]:
    """The parts of a line of a cell. Most lines are short enough, which rich is slow to find."""
    return [*line.wrap(console, widest)] if line.cell_len > widest else [line]


def _row(cells: Sequence[Text], widths: Sequence[int], right: Sequence[bool]) -> Text:
    row = Text(" ")
    for number, (cell, width, left_blank) in enumerate(zip(cells, widths, right, strict=True)):
        blanks = " " * (width - cell.cell_len)
        row.append("   " if number else "").append(blanks if left_blank else "").append_text(cell)
        row.append("" if left_blank else blanks)
    row.rstrip()
    return row


def show_plan(console: SafeConsole, plan: Plan, *, check: bool) -> None:
    """Print a plan, one block per group of hosts that get the same."""
    console.print(styled((plan.title, "bold"), *([(" (check: nothing will be changed)", "dim")] if check else [])))
    for hosts, actions in plan.grouped():
        console.print(styled("  ", (hosts, "cyan")))
        first = actions if len(actions) <= 40 else actions[:38]
        for action in first:
            console.print(f"    {action}")
        if len(first) < len(actions):
            console.print(f"    … and {len(actions) - len(first)} more (all of them with --json, and in runs/)")
    for warning in plan.warnings:
        console.print(styled("  ", ("Note:", "yellow"), f" {warning}"))


_STYLES = {
    "ok": "green",
    "changed": "yellow",
    "failed": "bold red",
    "interrupted": "bold red",
    "unreachable": "bold red",
    "not run": "bold red",
    "skipped": "dim",
}


def show_hosts(
    console: SafeConsole,
    hosts: Mapping[str, HostResult],
    *,
    check: bool,
    whole: bool = False,
    run: str | None = None,
) -> None:
    """Print a table with a row per host: what happened there, and why not. `whole`: all of it, however long.

    `run`: the id of the run whose record has the rest.
    """
    if not hosts:
        return
    table = PlainTable(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("Host", style="cyan", max_width=32 if console.is_terminal else None)
    table.add_column("Result", no_wrap=True)
    table.add_column("Would change" if check else "What")
    for names, host in alike(hosts):
        lines = list(host.changed) if whole else shortened(host.changed, run=run)
        if host.obstacles:
            lines += host.obstacles
            lines += ["nothing was changed there"] if host.untouched and not check else []
        elif host.message:
            lines.append(host.message)
        word = "would change" if check and host.status == "changed" else host.status
        table.add_row(", ".join(names), Text(word, style=_STYLES.get(host.status, "")), join_lines(lines))
    console.print(table)
