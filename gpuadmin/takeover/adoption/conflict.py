"""Something that does not fit gpuadmin yet: where, whose, and what to do about it."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from gpuadmin.text import one_line

#: `stops`: provision refuses the host or the person until it is done. `decide`: an admin has to choose. `note`: nothing
#: has to be done, but people may ask.
Level = Literal["stops", "decide", "note"]
#: The kind of conflict that bootstrap settles.
NO_ADMIN = "no admin account"
#: The kind of somebody who is a person, and cannot be in users.yml.
LEFT_OUT = "person left out"
#: The kind of a key that not all hosts have.
KEY = "key to be decided"
LEVELS: Mapping[Level, str] = {
    "stops": "In the way of `gpuadmin provision`",
    "decide": "To be decided",
    "note": "Good to know",
}


@dataclass(frozen=True)
class Conflict:
    """`kind`: a name that stays the same; `hosts`, `people`: of whom it is so; `remedies`: commands, a line each.

    A remedy that begins with `#` says where the next ones are to be run. `looked`: the day of an earlier look that it
    is from; empty: this one.
    """

    kind: str
    words: str
    level: Level
    hosts: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
    looked: str = ""

    @property
    def key(self) -> tuple[str, str]:
        """What makes it another conflict than one that was reported before."""
        return self.kind, self.words

    def document(self) -> dict[str, Any]:
        return {**asdict(self), "hosts": list(self.hosts), "people": list(self.people), "remedies": [*self.remedies]}


def word(text: str) -> str:
    """Foreign text as one word of a command that somebody will paste."""
    return shlex.quote(one_line(text))


def on(hosts: Iterable[str]) -> str:
    """The line before commands: where they are to be run."""
    return f"# as root on {', '.join(hosts)}"


def copy_command(name: str, old: str, new: str) -> str:
    """The command that copies somebody's directory to where nothing is, while nothing of theirs runs. The old one
    stays."""
    return f'test -z "$(pgrep -u {word(name)})" && test ! -e {word(new)} && cp -aT {word(old)} {word(new)}'


def several(people: Iterable[str], command: str) -> list[str]:
    """A command for each person; `{}` in it is their name."""
    return [command.replace("{}", word(name)) for name in people]
