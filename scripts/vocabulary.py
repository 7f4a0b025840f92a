"""Find the words that docs/vocabulary.md advises against. More than scripts/words.toml allows is an error.

Usage: vocabulary.py            say where there are too many
       vocabulary.py WORD       say where WORD is
       vocabulary.py --lower    write smaller numbers into scripts/words.toml where there are fewer now
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIST = ROOT / "scripts/words.toml"
KINDS = ("identifier", "phrase")
# History, the list itself, what is made from code, other languages, and what nobody writes by hand.
LEFT_OUT = re.compile(
    r"CHANGELOG\.md|LICENSE|docs/(vocabulary|reference-\w+|mails|user-guide\.ko)\.md|docs/decisions/README\.md|docs/gpuadmin\.1"
    r"|roles/\w+/README\.md|scripts/(words\.toml|vocabulary\.py)|tests/.*|requirements\.lock|.*\.svg|.*\.png|.*\.ko\.\w+"
)
PARTS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


@dataclass(frozen=True)
class Word:
    """An entry of the list; ``allowed``: how many may still be in code. In pages there may be none."""

    kind: str
    word: str
    instead: str
    find: re.Pattern[str]
    allowed: int


@dataclass(frozen=True)
class Hit:
    """One use: where (``place`` is code or docs) and the line."""

    place: str
    file: str
    number: int
    line: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.line}"


def words(text: str) -> list[Word]:
    """Given the text of words.toml, return its entries."""
    data: dict[str, list[dict[str, Any]]] = tomllib.loads(text)
    return [
        Word(
            kind,
            one["word"],
            one["instead"],
            re.compile(one.get("find", one["word"]), re.IGNORECASE),
            one.get("code", 0),
        )
        for kind in KINDS
        for one in data[kind]
    ]


def files() -> Iterator[tuple[str, Path]]:
    """Yield ``(place, path)`` of every file that somebody wrote, as git knows them."""
    done = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    for name in sorted(set(filter(None, done.stdout.decode().split("\0")))):
        path = ROOT / name
        if path.is_file() and not path.is_symlink() and not LEFT_OUT.fullmatch(name):
            yield "docs" if path.suffix == ".md" else "code", path


def names(source: str) -> Iterator[tuple[int, str]]:
    """Given Python source, yield ``(line, part)`` for each part of each name that it binds or reads."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            yield from ((token.start[0], part.lower()) for part in PARTS.findall(token.string))


def hits_in(found: list[Word], place: str, file: str, text: str) -> Iterator[tuple[Word, Hit]]:
    """Given one file's text, yield each use of a word."""
    lines = text.splitlines()
    phrases = [word for word in found if word.kind == "phrase"]
    for number, line in enumerate(lines, start=1):
        for word in phrases:
            for _ in word.find.finditer(line):
                yield word, Hit(place, file, number, line.strip())
    if file.endswith(".py"):
        parts = {word.word: word for word in found if word.kind == "identifier"}
        for number, part in names(text):
            if part in parts:
                yield parts[part], Hit(place, file, number, lines[number - 1].strip())


def all_hits(found: list[Word]) -> dict[tuple[str, str], list[Hit]]:
    """Every use, by kind and word."""
    result: dict[tuple[str, str], list[Hit]] = {(word.kind, word.word): [] for word in found}
    for place, path in files():
        for word, hit in hits_in(found, place, str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")):
            result[word.kind, word.word].append(hit)
    return result


def too_many(found: list[Word], used: Mapping[tuple[str, str], list[Hit]]) -> Iterator[str]:
    """Yield a line for each word that is used more often than it may be, and where, if that is short."""
    for word in found:
        for place, allowed in (("code", word.allowed), ("docs", 0)):
            hits = [hit for hit in used[word.kind, word.word] if hit.place == place]
            if len(hits) > allowed:
                yield f"{word.kind} '{word.word}' in {place}: {len(hits)}, allowed {allowed}. Write: {word.instead}"
                yield from (f"    {hit}" for hit in hits[:10] if not allowed)


def lowered(text: str, counts: Mapping[tuple[str, str], int]) -> str:
    """Given words.toml and how many there are in code now, return it with smaller numbers, never with greater ones."""
    lines, kind, word = [], "", ""
    for line in text.splitlines():
        if head := re.fullmatch(r"\[\[(\w+)\]\]", line):
            kind = head[1]
        elif name := re.fullmatch(r'word = "(.*)"', line):
            word = name[1]
        elif number := re.fullmatch(r"code = (\d+)", line):
            now = min(int(number[1]), counts[kind, word])
            if now:
                lines.append(f"code = {now}")
            continue
        lines.append(line)
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    text = LIST.read_text(encoding="utf-8")
    found = words(text)
    used = all_hits(found)
    if arguments == ["--lower"]:
        counts = {key: sum(hit.place == "code" for hit in hits) for key, hits in used.items()}
        LIST.write_text(lowered(text, counts), encoding="utf-8")
        return 0
    if arguments:
        for (_, name), hits in used.items():
            if arguments[0].lower() in name:
                print("\n".join(map(str, hits)))
        return 0
    bad = list(too_many(found, used))
    print("\n".join(bad), end="\n" if bad else "")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
