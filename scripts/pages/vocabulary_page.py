"""The table of words not to use, in docs/vocabulary.md."""

from __future__ import annotations

import vocabulary

BEGIN, END = "<!-- made from scripts/words.toml: make docs -->\n", "<!-- end -->"


def page(text: str) -> str:
    """Given docs/vocabulary.md, return it with the table as it should be."""
    lines = ["| not | where | instead |", "| --- | --- | --- |"]
    for word in vocabulary.words(vocabulary.LIST.read_text(encoding="utf-8")):
        where = "name" if word.kind == "identifier" else "text"
        lines.append(f"| {word.word} | {where} | {word.instead} |")
    table = "\n".join(lines)
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table}\n\n{END}{after}"
