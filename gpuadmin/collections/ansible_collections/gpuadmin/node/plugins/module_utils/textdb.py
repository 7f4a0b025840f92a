"""passwd, shadow, group and gshadow as lines: what is not understood is kept byte for byte.

Formats: passwd(5) 7 fields, shadow(5) 9, group(5) 4, gshadow(5) 4. Comments, blank lines, NIS lines (``+``, ``-``) and
malformed lines are never changed, moved or removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

FIELD_COUNTS = {"passwd": 7, "shadow": 9, "group": 4, "gshadow": 4}


def decode(data: bytes) -> str:
    """Bytes of a database as text that ``encode`` turns back into exactly the same bytes."""
    return data.decode("utf-8", "surrogateescape")


def encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def split_lines(text: str) -> list[tuple[str, str]]:
    """Given a file's text, return (body, ending) pairs; the ending is LF, CRLF or nothing.

    Not ``str.splitlines``: it also splits at form feeds and Unicode separators, which are ordinary bytes here.
    """
    pairs = []
    for piece in text.split("\n"):
        pairs.append((piece[:-1], "\r\n") if piece.endswith("\r") else (piece, "\n"))
    body, ending = pairs.pop()
    if body or ending == "\r\n":  # the file does not end with a line feed
        pairs.append((body, "\r" if ending == "\r\n" else ""))
    return pairs


@dataclass
class Line:
    body: str
    ending: str
    fields: list[str] | None  # None: kept verbatim


@dataclass
class Table:
    """One database. ``index`` maps a name to its lines, in file order."""

    kind: str
    lines: list[Line] = field(default_factory=list)
    index: dict[str, list[Line]] = field(default_factory=dict)

    @classmethod
    def parse(cls, kind: str, text: str) -> Table:
        table = cls(kind)
        for body, ending in split_lines(text):
            fields: list[str] | None = body.split(":")
            if (
                fields is None
                or len(fields) != FIELD_COUNTS[kind]
                or not fields[0]
                or body[0] in "#+-"
                or body[0].isspace()
            ):
                fields = None
            line = Line(body, ending, fields)
            table.lines.append(line)
            if fields is not None:
                table.index.setdefault(fields[0], []).append(line)
        return table

    def text(self) -> str:
        return "".join(line.body + line.ending for line in self.lines)

    def get(self, name: str) -> list[str] | None:
        """The fields of the first line called ``name`` (the one that the C library uses)."""
        lines = self.index.get(name)
        return lines[0].fields if lines else None

    def count(self, name: str) -> int:
        return len(self.index.get(name, ()))

    def entries(self) -> list[list[str]]:
        return [line.fields for line in self.lines if line.fields is not None]

    def set(self, name: str, fields: list[str]) -> None:
        """Replace the first line called ``name``, or append one (before trailing NIS lines, as shadow-utils does)."""
        body = ":".join(fields)
        if len(fields) != FIELD_COUNTS[self.kind] or body.count(":") != len(fields) - 1 or "\n" in body:
            raise ValueError(f"not a {self.kind} entry: {fields!r}")
        lines = self.index.get(name)
        if lines:
            lines[0].body, lines[0].fields = body, list(fields)
            return
        line = Line(body, "\n", list(fields))
        place = len(self.lines)
        while place and self.lines[place - 1].body.startswith(("+", "-")):
            place -= 1
        if place and not self.lines[place - 1].ending.endswith("\n"):
            self.lines[place - 1].ending = "\n"
        self.lines.insert(place, line)
        self.index.setdefault(name, []).append(line)

    def remove(self, name: str) -> bool:
        gone = self.index.pop(name, None)
        if not gone:
            return False
        ids = {id(line) for line in gone}
        self.lines = [line for line in self.lines if id(line) not in ids]
        return True


def members(value: str) -> list[str]:
    """Given a member field, return its names: order kept, empty ones dropped."""
    return [name for name in value.strip().split(",") if name]


def number(value: str) -> int | None:
    """A decimal id field as shadow-utils would accept it, or None."""
    return int(value) if value.isascii() and value.isdigit() and len(value) <= 10 else None
