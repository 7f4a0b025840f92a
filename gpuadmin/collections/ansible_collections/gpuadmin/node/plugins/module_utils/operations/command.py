"""gpuadmin.node.command: an admin's own command, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass

from ..answer import Answer
from ..answering import answer


@dataclass(frozen=True)
class Document:
    """Run an admin's own command.

    Runs a line of shell as root, from ``/`` and with nothing on its input, and reports its exit status and its
    output.
    Of long output the beginning and the end are reported.
    """

    #: The line, as ``/bin/sh -c`` takes it.
    line: str


def operate(document: Document, check: bool) -> Answer:
    operations = [f"run: {document.line}"]
    if check:  # guard: a check runs no command
        return Answer(operations)
    answered = answer(document.line)
    report = {"command": answered}
    if answered["status"] != 0:  # guard: a command that failed has failed
        return Answer(operations, report, problem=f"ended with {answered['status']}")
    return Answer(operations, report)
