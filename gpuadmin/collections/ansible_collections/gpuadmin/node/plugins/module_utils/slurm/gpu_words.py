"""What somebody has typed after `gpu`, and how answers are put into words."""

from __future__ import annotations

import re
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gpuadmin.common.names import LOGIN
from gpuadmin.common.text import clock as day_and_time
from gpuadmin.common.text import language
from gpuadmin.common.waiting import count_tasks, find_sick, why

from . import exceptions, mail_choice, queue
from .accounts import EXCEPTION
from .texts import LANGUAGES, TEXTS

WORDS = ("get", "run", "jupyter", "list", "jobs", "why", "release", "extend", "book", "mail", "limits")
MOST_GPUS = 64
MOST_CPUS, MOST_MEMORY = 4096, 65536  # processors, GiB
#: Options with a number, and the largest.
_NUMBERS = {
    "--hours": queue.MOST_HOURS,
    "--gpus": MOST_GPUS,
    "--cpus": MOST_CPUS,
    "--memory": MOST_MEMORY,
    "--cancel": MOST_GPUS,
}
_OPTIONS = (*_NUMBERS, "--node", "--type", "--mig", "--project", "--language", "--at")
_TYPE = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,39}\Z")
_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")


class UsageError(Exception):
    """What was typed is not understood; in words, in the language of whoever typed it."""


@dataclass
class Asked:
    """What was typed. ``hours``, ``cpus``, ``memory`` (GiB): 0 where nothing was said. ``jobs``: numbers of jobs.
    ``at``: seconds since 1970. ``cancel``: which booking. ``mail``: one of mail_choice.WORDS.
    ``command``: what is to be run."""

    word: str
    language: str
    gpus: int = 1
    hours: int = 0
    node: str = ""
    type: str = ""
    mig: str = ""
    project: str = ""
    wait: bool = True
    jobs: list[str] = field(default_factory=list)
    at: int | None = None
    cancel: int = 0
    cpus: int = 0
    memory: int = 0
    detach: bool = False
    json: bool = False
    command: list[str] = field(default_factory=list)
    mail: str = ""


def parse(arguments: Sequence[str], environment: Mapping[str, str], now: float) -> Asked | None:
    """None: only help is asked for. Raises UsageError."""
    asked = Asked("", spoken(arguments, environment))
    words = TEXTS[asked.language]
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        option, equals, given = word.partition("=")
        if word in ("-h", "--help"):
            return None
        if asked.word == "run" and (word == "--" or not (word.startswith("-") or word.isdecimal())):
            asked.command = rest if word == "--" else [word, *rest]
            break
        if option in _OPTIONS:
            if not equals:
                if not rest:
                    raise UsageError(words["lacks"].format(option))
                given = rest.pop(0)
            _option(asked, option, given, now)
        elif word == "--no-wait":
            asked.wait = False
        elif word in ("--detach", "--json"):
            setattr(asked, word[2:], True)
        elif not asked.word and word in WORDS:
            asked.word = word
        elif asked.word in ("get", "run", "jupyter", "book"):
            asked.gpus = _number(word, MOST_GPUS, words)
        elif asked.word in ("why", "release", "extend") and queue.JOB.match(word):
            asked.jobs.append(word)
        elif asked.word == "mail" and word in mail_choice.WORDS:
            asked.mail = word
        else:
            raise UsageError(words["not-known"].format(word[:60]))
    if asked.word == "run" and not asked.command:
        raise UsageError(words["no-command"])
    return asked if asked.word else None


def spoken(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """The language that is asked for, wherever it stands; otherwise that of the environment."""
    for word, after in zip(arguments, [*arguments[1:], ""]):
        if word == "--":  # what follows is a command's
            break
        option, equals, given = word.partition("=")
        if option == "--language" and (given if equals else after) in LANGUAGES:
            return given if equals else after
    return language(environment)


def _option(asked: Asked, option: str, given: str, now: float) -> None:
    words = TEXTS[asked.language]
    if option in _NUMBERS:
        # `--memory 32G`, as sbatch has it
        text = given[:-1] if option == "--memory" and given[-1:] in ("G", "g") else given
        setattr(asked, option[2:], _number(text, _NUMBERS[option], words))
    elif option == "--at":
        asked.at = moment(given, now)
        if asked.at is None:
            raise UsageError(words["not-a-time"].format(given[:60]))
    elif option == "--node":
        if not _NODE.match(given):
            raise UsageError(words["not-a-node"].format(given[:60]))
        asked.node = given
    elif option == "--type":
        if not _TYPE.match(given):
            raise UsageError(words["not-a-type"].format(given[:60]))
        asked.type = given.lower()
    elif option == "--mig":
        if not queue.PROFILE.match(given.lower()):
            raise UsageError(words["not-a-profile"].format(given[:60]))
        asked.mig = given.lower()
    elif option == "--project":
        # guard: what is no name is no project, also for sbatch's other options
        if not re.fullmatch(LOGIN, given):
            raise UsageError(words["not-in-project"].format(given[:60]))
        asked.project = given
    elif given not in LANGUAGES:
        raise UsageError(words["language"])


def _number(text: str, most: int, words: Mapping[str, str]) -> int:
    number = queue.number(text)
    if number is None or not 1 <= number <= most:
        raise UsageError(words["number"].format(text[:20], 1, most))
    return number


def moment(text: str, now: float) -> int | None:
    """``09:00``, which is to come, or ``2026-11-26 09:00``: seconds since 1970, in the node's zone. None: neither."""
    for form in ("%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M"):
        try:
            return int(time.mktime(time.strptime(text, form)))
        except (ValueError, OverflowError):
            continue
    try:
        then, today = time.strptime(text, "%H:%M"), time.localtime(now)
    except ValueError:
        return None
    for day in (today.tm_mday, today.tm_mday + 1):
        at = time.mktime((today.tm_year, today.tm_mon, day, then.tm_hour, then.tm_min, 0, 0, 0, -1))
        if at > now:
            break
    return int(at)


def waiting(one: Mapping[str, Any], language: str) -> str:
    reason = why(queue.code(one["reason"], one["gpus"]), one["reason"], language)
    return TEXTS[language]["place"].format(one["place"], reason)


def estimate(one: Mapping[str, Any], words: Mapping[str, str], now: float) -> str:
    """When a job that waits may begin, by what Slurm expects; nothing where that is not known."""
    expected = one["expected"]
    return words["not-before"].format(clock(expected)) if expected and expected > now else ""


def had(one: Mapping[str, Any], words: Mapping[str, str]) -> list[str]:
    """What is said of GPUs that somebody has: where, and until when."""
    nodes = one["nodes"].split(",")
    lines = [words["have"].format(gpus(one["gpus"], words), ", ".join(nodes), clock(one["end"]))]
    here = socket.gethostname()
    if here not in nodes:
        lines.append(words["there"].format(here, "; ".join(f"ssh {node}" for node in nodes)))
    return lines


def lost(mine: Sequence[Mapping[str, Any]], closed: Mapping[str, str], words: Mapping[str, str]) -> list[str]:
    """A line for each node that somebody has GPUs of and on which something is broken. ``closed``: node → why it takes
    no jobs. ``words``: LOGIN's."""
    there = dict.fromkeys(node for one in mine if not one["waits"] for node in one["nodes"].split(","))
    found = {node: find_sick(closed.get(node, ""))[0] for node in there}
    return [words["sick"].format(node, what) for node, what in found.items() if what]


def gpus(number: int, words: Mapping[str, str]) -> str:
    return numbered(number, words["gpus"])


def describe_asked(one: Mapping[str, Any], words: Mapping[str, str]) -> str:
    """The GPUs that a waiting job asks for: `2 GPUs`; `6 × 1 GPU` of an array."""
    tasks = count_tasks(one["id"])
    return f"{tasks} × {gpus(one['gpus'], words)}" if tasks else gpus(one["gpus"], words)


def numbered(number: int, text: str) -> str:
    """A number in words. ``text``: of one, and after a ``|`` of several where that differs."""
    one, _, several = text.partition("|")
    return (several or one if number != 1 else one).format(number)


def clock(seconds: float | None, now: float | None = None) -> str:
    """`2026-11-26 09:00`; with ``now`` a time of today without its day."""
    whole, today = "?" if seconds is None else day_and_time(seconds), None if now is None else day_and_time(now)[:10]
    return whole[11:] if whole[:10] == today else whole


def print_table(rows: Sequence[Sequence[str]]) -> None:
    """The first row has the columns' names."""
    widths = [max(map(len, cells)) for cells in zip(*rows)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())


def describe_exceptions(jobs: Iterable[Mapping[str, Any]], words: Mapping[str, str]) -> list[str]:
    """A line for each that an admin has made, of these jobs: what, for whom, and why."""
    found = {one["id"]: one for one in jobs if one["qos"] == EXCEPTION}
    lines = []
    for id, made in exceptions.read_comments(list(found)).items():
        one = found[id]
        what = one["user"], gpus(one["gpus"], words), one["nodes"] or "–", clock(one["end"])
        lines.append(words["exception"].format(id, made["who"] or "?", *what, made["reason"] or "?"))
    return lines


def print_answer(answer: tuple[int, Sequence[str]] | None, words: Mapping[str, str]) -> int:
    """Say what the service of the node answered (extend_service.py), by its word. Returns the exit status."""
    status, (word, *values) = (1, ["silent"]) if answer is None else answer
    values = [clock(int(one)) if re.fullmatch(r"[0-9]{9,12}", one) else one for one in values]
    text = words.get(word, words["failed"]).format(*values, *"?????")
    print(text, file=sys.stderr if status else sys.stdout)
    return int(status)
