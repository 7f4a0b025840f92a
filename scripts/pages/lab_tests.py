"""Where each test on the lab runs, and why, from the tests' marks."""

from __future__ import annotations

import sys

from . import ROOT


def page() -> str:
    """The page, as Markdown."""
    sys.path.insert(0, str(ROOT))  # the tests are not installed: they are in the repository
    from tests.support import where

    places = {where.LIGHT: "light hosts", where.VIRTUAL: "virtual machines", where.BOTH: "both"}
    lines = [
        "# Where the tests on the lab run",
        "",
        "Made from the tests' marks: `make docs`. Where one is root, on [light hosts](lab.md#light-hosts), unless they",
        "need more; otherwise, and with `GPUADMIN_TEST_VIRTUAL=1`, on virtual machines. A story of verbs runs on both:",
        "on virtual machines in `make test-all`. What is in `make test` has a dot.",
        "",
        "| test | runs on | why | `make test` |",
        "| --- | --- | --- | :---: |",
    ]
    for entry in where.everything():
        quick = "" if entry.slow else "•"
        lines.append(f"| {entry.name} | {places[entry.where]} | {entry.why} | {quick} |")
    return "\n".join(line.rstrip() for line in lines) + "\n"
