"""Reading an exported table: whatever spreadsheet wrote it, and whatever somebody typed into it."""

from __future__ import annotations

import csv
import io
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuadmin.errors import ConfigError
from gpuadmin.reading import read_limited

_UTF16 = (b"\xff\xfe", b"\xfe\xff")


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
    return parse_table(path.name, decode(path.name, raw, encodings))


def decode(name: str, raw: bytes, encodings: Sequence[str]) -> str:
    """Given a file's bytes, return its text by the first encoding that fits. A byte order mark decides."""
    if raw.startswith(_UTF16) or b"\0" in raw:
        raise ConfigError(f"{name}: is not CSV text", hint="export it as CSV (UTF-8), not as Unicode text or .xlsx")
    if raw.startswith(b"PK\x03\x04"):
        raise ConfigError(f"{name}: is a spreadsheet or an archive", hint="export the sheet as CSV (UTF-8)")
    for encoding in encodings:
        try:
            # some systems write Hangul in its parts; it shall read as what people type
            return unicodedata.normalize("NFC", raw.decode("utf-8-sig" if encoding == "utf-8" else encoding))
        except UnicodeDecodeError:
            continue
    raise ConfigError(f"{name}: is neither of {', '.join(encodings)}", hint="export it as CSV (UTF-8)")


def parse_table(name: str, text: str) -> Table:
    """Given CSV text, return its table: rows of blanks are left out, missing cells at a row's end are empty."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
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
