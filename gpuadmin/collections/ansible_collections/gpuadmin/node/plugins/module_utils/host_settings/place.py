"""Where the settings of a host are, and what every section shares: reading files, asking programs, hiding secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..bounded import read_small, short
from ..errors import NodeError
from ..run import Finished, failure, run_command

SECONDS = 9.0  # one section; all are looked at side by side
LONGEST_KEY = 300  # characters
LONGEST = 8000  # characters of a value
MOST = 20_000  # settings of a section
MOST_FILES = 500
MOST_LINES = 400  # of a file

#: What a section is: its settings, each a text. Several lines are a list, such as a file's.
Settings = dict[str, str]

#: `password=x`, `--token x`, `https://name:password@host`. A colon is none: NOPASSWD: and passwd: are no secrets.
_SECRET = re.compile(
    r"((?:pass(?:word|wd|phrase)?|secret|token|api[-_]?key|credentials?|private[-_]?key)[\w.-]*[\"']?[ \t]*=[ \t]*)"
    r"(?:\"[^\"]*\"|'[^']*'|[^\s,;]+)",
    re.IGNORECASE,
)
_OPTION = re.compile(r"((?<!\S)--?(?:password|passwd|token|secret|api-key)[ \t]+)[^\s-]\S*", re.IGNORECASE)
_LOGIN = re.compile(r"(://[^\s:/@]+:)[^\s@/]+(@)")


def _ask(command: Sequence[str]) -> Finished:
    return run_command(command, seconds=SECONDS)


@dataclass(frozen=True)
class Place:
    """``root``: where the host's files are; tests have another one. ``command``: how a program is asked."""

    root: str = "/"
    command: Callable[[Sequence[str]], Finished] = _ask

    def path(self, name: str) -> str:
        return os.path.join(self.root, name.lstrip("/"))

    def text(self, name: str) -> str:
        """The beginning of a file. Raises OSError; NodeError for what is not a regular file."""
        return read_small(os.path.realpath(self.path(name))).decode("utf-8", "replace")

    def word(self, name: str) -> str:
        """A short file of the kernel's as one line; nothing where it is not there or cannot be read."""
        try:
            with open(self.path(name), "rb") as stream:
                return short(stream.read(4096).decode("utf-8", "replace").replace("\t", " "), LONGEST)
        except OSError:
            return ""

    def names(self, directory: str, most: int = MOST_FILES) -> list[str]:
        """What is in a directory, sorted; nothing without the directory."""
        try:
            return sorted(os.listdir(self.path(directory)))[:most]
        except (FileNotFoundError, NotADirectoryError):
            return []

    def output(self, *command: str, failing: bool = False) -> str | None:
        """What a program prints; None where there is no such program. Raises NodeError if it fails, unless that is
        ``failing``.
        """
        try:
            done = self.command(command)
        except FileNotFoundError:
            return None
        if done.returncode != 0 and not failing:
            raise failure(command, done)  # guard: a program that failed has not said that there is nothing
        return done.stdout


def without_secrets(text: str) -> str:
    """Text of a file or a command line, with what looks like a password or a token left out."""
    text = _SECRET.sub(r"\1(hidden)", text)  # guard: a password in a file is not reported
    text = _OPTION.sub(r"\1(hidden)", text)
    return _LOGIN.sub(r"\1(hidden)\2", text)


def parse_lines(text: str, comment: str = "#") -> list[str]:
    """The lines of a file that say something, each with single blanks."""
    found = (re.sub(r"\s+", " ", line).strip() for line in text.splitlines()[:MOST_LINES])
    return [line for line in found if line and line[0] not in comment]


def files(place: Place, paths: Iterable[str]) -> Iterator[tuple[str, list[str]]]:
    """The files of some paths and of directories among them, each with its lines; not what packages and editors leave
    behind.
    """
    for path in paths:
        whole = place.path(path)
        below = [f"{path}/{name}" for name in place.names(path)] if os.path.isdir(whole) else [path]
        for name in below:
            if name.endswith(("~", ".dpkg-old", ".dpkg-dist", ".dpkg-new", ".rpmsave", ".rpmnew", ".placeholder")):
                continue
            try:
                yield name, parse_lines(place.text(name))
            except FileNotFoundError:
                continue
            except NodeError:
                continue  # a directory below, or a device


def bounded(found: Settings) -> Settings:
    """Settings as they are reported. Raises NodeError if there are more than anybody compares."""
    if len(found) > MOST:  # guard: the settings of a section have an end
        raise NodeError(f"has {len(found)} settings, more than {MOST}")
    return {short(key, LONGEST_KEY): _bounded(value) for key, value in found.items()}


def _bounded(value: str) -> str:
    """Its lines stay; a text that is cut says so, and how long it was: two of the same beginning are no one text."""
    plain = "\n".join(short(line, LONGEST) for line in without_secrets(value).split("\n"))
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 60]}\n… ({len(plain)} characters)"
