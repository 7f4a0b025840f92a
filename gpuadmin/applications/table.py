"""Reading an exported table: whatever spreadsheet wrote it, and whatever somebody typed into it."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuadmin.errors import ConfigError
from gpuadmin.reading import decode_table, read_limited, separator


@dataclass(frozen=True)
class Row:
    """One row: the line on which it begins, and as many cells as there are columns, without blanks around them."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """A table with a header."""

    name: str
    header: tuple[str, ...]
    rows: tuple[Row, ...]


def read_table(path: Path, encodings: Sequence[str]) -> Table:
    """Given a CSV file, return its table. Raises ConfigError naming the file and the line."""
    try:
        raw = read_limited(path)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    return parse_table(path.name, decode_table(path.name, raw, encodings))


def parse_table(name: str, text: str) -> Table:
    """Given CSV text, return its table: rows of blanks are left out, missing cells at a row's end are empty."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=separator(text))
    header: tuple[str, ...] | None = None
    rows = []
    try:
        while True:
            line = reader.line_num + 1
            try:
                cells = tuple(cell.strip() for cell in next(reader))
            except StopIteration:
                break
            if not any(cells):
                continue
            if header is None:
                header = cells
            elif any(cells[len(header) :]):
                raise ConfigError(f"{name}:{line}: has more cells than line 1 has titles")
            else:
                rows.append(Row(line, (cells + ("",) * len(header))[: len(header)]))
    except csv.Error as error:
        raise ConfigError(f"{name}:{reader.line_num}: is not valid CSV: {error}") from None
    if header is None:
        raise ConfigError(f"{name}: is empty")
    return Table(name, header, tuple(rows))
