"""Running an operation: its document is parsed, it is done or only looked at, and what it answers becomes a result.

An operation is a file of `operations/`: a dataclass `Document`, and `operate(document, check)` that returns an Answer.
`EACH`, where there is one, names the part of its report with an entry for each person.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from typing import Any

from .answer import Answer
from .documents import parse
from .errors import NodeError, NothingBegun, in_words
from .root.guard import RootError

_NAME = re.compile(r"[a-z][a-z_]{0,40}\Z")
#: Where operations are. A host has those of the take-over only while one of its verbs is at work (docs/decisions/0199).
_PLACES = (f"{__package__}.operations", "gpuadmin.takeover.node.operations")


def run(name: str, given: object, *, check: bool, **more: Any) -> dict[str, object]:
    """Given an operation's name and its document, return the result for Ansible. ``more``: for tests.

    What goes wrong in a way that somebody can do something about is in the result, in words.
    """
    place = _find(name) if _NAME.match(name) else None
    if place is None:
        return Answer(problem=f"{name[:80]!r} is not an operation").result()
    operation = importlib.import_module(place)
    each = getattr(operation, "EACH", None)
    try:
        answer: Answer = operation.operate(parse(operation.Document, given, name), check, **more)
    except (NodeError, RootError, OSError) as error:
        words = in_words(error)
        # guard: only what failed before it began says so -> {"begun": False}
        begun = {"begun": False} if isinstance(error, NothingBegun) else {}
        answer = Answer(report={"problems": [words], **begun}, problem=words)
    return answer.result(each)


def _find(name: str) -> str | None:
    """Given an operation's name, return its module; None where there is none."""
    for place in _PLACES:
        try:
            if importlib.util.find_spec(f"{place}.{name}") is not None:
                return f"{place}.{name}"
        except ModuleNotFoundError:  # the take-over is not here
            pass
    return None
