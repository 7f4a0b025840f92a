"""What the dashboard's buttons may ask of the queue: a closed list, which the page and the door both hold to."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .names import LOGIN

#: TCP port of the queue's host at which the dashboard alone may ask.
PORT = 9446
#: The common name of the dashboard's certificate for it.
ASKER = "gpuadmin buttons"
#: Bytes of a request, and of an answer.
LONGEST, LARGEST = 300, 4096
SECONDS = 30.0  # for what `gpu` does
LANGUAGES = ("en", "ko")

_NUMBER, _JOB = "[1-9][0-9]{0,3}", "[1-9][0-9]{0,9}(?:_[0-9]{1,7})?"
_AT, _TYPE = "20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]", "(?:[a-z0-9][a-z0-9-]{0,39})?"


@dataclass(frozen=True)
class Verb:
    """A button: its fields, in their order, each with what it may be; and what `gpu` is called with."""

    fields: Mapping[str, str]
    command: Sequence[str]


#: By the button's name. What an empty field is a part of is left out.
VERBS: Mapping[str, Verb] = {
    "get": Verb(
        {"gpus": _NUMBER, "hours": _NUMBER, "type": _TYPE},
        ("get", "{gpus}", "--hours={hours}", "--no-wait", "--type={type}"),
    ),
    "release": Verb({"job": _JOB}, ("release", "{job}")),
    "extend": Verb({"job": _JOB, "hours": _NUMBER}, ("extend", "{job}", "--hours={hours}")),
    "book": Verb(
        {"gpus": _NUMBER, "hours": _NUMBER, "at": _AT}, ("book", "{gpus}", "--hours={hours}", "--at={at}")
    ),
    "cancel": Verb({"number": _NUMBER}, ("book", "--cancel={number}")),
    "jobs": Verb({}, ("jobs",)),  # looks: its page has no button
}  # fmt: skip


@dataclass(frozen=True)
class Pressed:
    """A button that a person has pressed, with the values of its fields."""

    user: str
    language: str
    verb: str
    values: Mapping[str, str]

    def line(self) -> str:
        """What is sent to the door: `minji ko get 2 8 h100`, without the end of the line."""
        return " ".join([self.user, self.language, self.verb, *self.values.values()])

    def command(self) -> list[str]:
        """What `gpu` is called with: `get 2 --hours=8 --no-wait --type=h100 --language=ko`."""
        parts = [part.format(**self.values) for part in VERBS[self.verb].command]
        return [part for part in (*parts, f"--language={self.language}") if not part.endswith("=")]


def press(user: str, language: str, verb: str, given: Mapping[str, str]) -> Pressed | None:
    """Given who presses which button and the form's fields, return it; None for what no button of ours asks."""
    if (
        not re.fullmatch(LOGIN, user)  # guard: a button is pressed for one person's name
        or language not in LANGUAGES
        or verb not in VERBS  # guard: only buttons of the list are pressed
    ):
        return None
    wanted = VERBS[verb].fields
    values = {name: given.get(name, "") for name in wanted}
    # guard: a button's fields are what they may be -> False
    if any(not re.fullmatch(wanted[name], value) for name, value in values.items()):
        return None
    return Pressed(user, language, verb, values)


def parse_line(line: str) -> Pressed | None:
    """Given what the door was sent, return the button; None for anything else."""
    user, language, verb, *values = [*line.split(" "), "", "", ""][: max(3, line.count(" ") + 1)]
    fields = VERBS[verb].fields if verb in VERBS else {}
    # guard: a request has its button's fields and no more
    if len(values) != len(fields):
        return None
    return press(user, language, verb, dict(zip(fields, values)))
