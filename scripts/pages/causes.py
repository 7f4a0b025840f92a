"""The things that a diagnosis looks at, in docs/diagnose.md, from the table of causes."""

from __future__ import annotations

from gpuadmin.common.causes.cause import HINDERS, NOTE, STOPS
from gpuadmin.common.causes.judge import CAUSES
from gpuadmin.diagnosis.looked import THINGS

BEGIN, END = "<!-- made from gpuadmin/common/causes: make docs -->\n", "<!-- end of causes -->"


def page(text: str) -> str:
    """Given the page, return it with the things and causes as the table has them."""
    before, _, rest = text.partition(BEGIN)
    lines = ["| looked at | stops | hinders | notes |", "| --- | --- | --- | --- |"]
    for thing, its_codes in THINGS.items():
        columns = (
            ", ".join(f"`{code}`" for code, row in CAUSES.items() if code in its_codes and row.severity == severity)
            for severity in (STOPS, HINDERS, NOTE)
        )
        lines.append(f"| {' | '.join((thing.words, *columns))} |")
    return before + BEGIN + "\n".join(lines) + "\n" + END + rest.partition(END)[2]
