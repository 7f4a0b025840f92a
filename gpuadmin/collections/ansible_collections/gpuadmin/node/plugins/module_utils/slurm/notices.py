"""Tells people by mail what becomes of their jobs with GPUs, and a site by its webhook: each minute, on the queue's
host. Each is told once (the ledger), and what nobody could be told yet is found again.
"""

from __future__ import annotations

import html
import http.client
import json
import os
import re
import sys
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from gpuadmin.common import turns
from gpuadmin.common.mail.deliver import deliver
from gpuadmin.common.mail.ledger import Ledger, MailError, State
from gpuadmin.common.mail.letter import Letter
from gpuadmin.common.mail.message import build_message
from gpuadmin.common.mail.smtp import Smtp
from gpuadmin.common.mail.transport import Answer, Transport
from gpuadmin.common.records.mail import QueueMail
from gpuadmin.common.turns import Turn

from ..documents import parse_settings
from ..errors import NodeError, in_words
from ..fields import valid_name
from ..files import flocked, read_bytes, write_atomic
from ..paths import RUN, STATE
from . import mail_choice, queue
from .job_turns import leaving, look_ended, lost, running

DIRECTORY = os.path.join(STATE, "slurm")
SETTINGS, PEOPLE, LEDGER, SEEN = "mail.json", "people.json", "mails.jsonl", "noticed.json"
DAY = 86400
LATE = 600  # seconds that Slurm's accounting may take to know of an end; and between two mails of mere ends
SETTLES = 20  # seconds for the node to say how well a job has used its GPUs
LONGEST = 14 * DAY  # for which ends are kept that nobody could be told
RETRY = 300  # seconds until a server that was away is tried again
LARGEST = 4 << 20  # bytes of the ledger that are all kept
MOST_KEPT = 500
#: The numbers of jobs in a line of the ledger about what still runs.
_RUNS = re.compile(r" (?:begun|ends|lost) (\d+)")


def most_urgent_first(found: Iterable[Turn]) -> list[Turn]:
    """The same in the order in which people read it; nothing of a beginning or a last hour that is over."""
    order, mine = ("lost", "begun", "ends", "ended"), list(found)
    over = {one.job for one in mine if one.kind == "ended"}
    # guard: who could not be told in time reads of the end alone -> mine
    rest = [one for one in mine if one.kind == "ended" or one.job not in over]
    return sorted(rest, key=lambda one: (order.index(one.kind), one.at))


class Webhook:
    """Where a chat takes notes of a site: `{"text": …}`, as Slack and Mattermost do."""

    name = "webhook"

    def __init__(self, url: str) -> None:
        self._url = url

    def __enter__(self) -> Webhook:
        return self

    def __exit__(self, *_: Any) -> None:
        return None

    def send(self, message: EmailMessage) -> Answer:
        # guard: nothing in a note is a link or calls somebody -> message.get_content()
        text = html.escape(message.get_content(), quote=False).replace("@", "@\u200b")
        given = urllib.request.Request(
            self._url, json.dumps({"text": text}).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(given, timeout=10):
                return Answer(State.SENT)
        except urllib.error.HTTPError as error:
            good = error.code >= 500 or error.code in (408, 429)
            return Answer(State.FAILED if good else State.REFUSED, f"it answers {error.code}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Answer(State.FAILED, in_words(error) if isinstance(error, OSError) else type(error).__name__)


class Run:
    """One look, on a host: what it has to tell, and whom it can tell. ``state``: what the next one is to know."""

    def __init__(
        self, directory: str, settings: QueueMail, state: dict[str, Any], now: float, jobs: Iterable[Mapping[str, Any]]
    ) -> None:
        self.settings, self.state, self.now = settings, state, now
        # a day more, should the clock be put back
        self.ledger = read_ledger(os.path.join(directory, LEDGER), min(state.get("ended", now), now - DAY), jobs)
        self.people: Mapping[str, str] = _json(os.path.join(directory, PEOPLE))
        on = {"mail": settings.server is not None and bool(settings.kinds), "webhook": bool(settings.webhook)}
        since = state.get("since", {})
        # guard: what was before somebody could be told is told nobody -> 0
        self.since = {way: since.get(way, now) for way, there in on.items() if there}
        self.choices = mail_choice.read() if on["mail"] else {}

    def address(self, way: str, turn: Turn) -> str:
        """Where a turn is told; empty: nowhere."""
        if turn.at <= self.since.get(way, self.now) or turn.kind not in (self.settings.kinds or turns.KINDS):
            return ""
        if way == "webhook":
            return way
        word, since = self.choices.get(turn.user, ("", 0))
        # guard: who has turned mails off gets none
        if word == "off" or turn.at < since:
            return ""
        own = [why for why, _ in turn.whys] == ["own"]  # they know
        return "" if own else self.people.get(turn.user, "")

    def is_open(self, way: str, turn: Turn) -> bool:
        """Whether it is still to be told."""
        address = self.address(way, turn)
        # guard: who was told is not told again -> bool(address)
        return bool(address and self.ledger.open_keys([f"{way} {turn.key}"], address))

    def letters(self, way: str, found: Iterable[Turn]) -> list[Letter]:
        """What is told now: one letter to each person, or one note to the site."""
        of: dict[str, list[Turn]] = defaultdict(list)
        for turn in found:
            if self.is_open(way, turn):
                of[turn.user if way == "mail" else way].append(turn)
        last = {name: entry.time for entry in self.ledger for name in entry.names}
        soon = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(self.now - LATE))
        letters = []
        for name, mine in sorted(of.items()):
            # many short jobs are one mail now and then
            if way == "mail" and last.get(name, "") > soon and all(one.kind == "ended" for one in mine):
                continue
            keys = tuple(f"{way} {one.key}" for one in mine)
            told = most_urgent_first(mine)
            summary = f"{len(told)} turns"
            letters.append(Letter("turn", self.address(way, mine[0]), keys, (name,), summary, {"turns": told}))
        return letters

    def render(self, letter: Letter) -> EmailMessage:
        """The message of a letter."""
        told, languages = letter.values["turns"], list(self.settings.languages)
        head = self.settings.head
        if letter.address == "webhook" or head is None:
            message = EmailMessage()
            # a name that somebody chose for a job is not for everybody
            lines = [
                f"{one.user}: {turns.line(replace(one, name=''), languages[0])}" for one in told[: turns.MOST_LINES]
            ]
            more = len(told) - len(lines)
            message.set_content("\n".join([*lines, *([f"+ {more}"] if more else [])]))
            return message
        word, _ = self.choices.get(letter.names[0], ("", 0))
        chosen = [word] if word in ("ko", "en") else languages
        contact = head.reply_to or head.sender
        return build_message(letter, head, [turns.mail(told, one, head.name, contact) for one in chosen])

    def send(self, way: str, found: Sequence[Turn]) -> None:
        """Tell what is to be told. A server that is away is left alone for some minutes, and nothing is lost."""
        retry = {one: at for one, at in self.state.get("retry", {}).items() if at > self.now}
        self.state["retry"] = retry
        if way not in self.since or way in retry:
            return
        # guard: one mailbox that takes nothing now is tried again later -> self.letters(way, found)
        letters = [one for one in self.letters(way, found) if one.address not in retry]

        def open_transport() -> Transport:
            if way == "webhook" or self.settings.server is None:
                return Webhook(self.settings.webhook)
            return Smtp(self.settings.server)

        try:
            done = deliver(letters, self.ledger, self.render, open_transport)
            retry.update({one.letter.address: self.now + RETRY for one in done if one.state is State.FAILED})
            problems = [
                f"{', '.join(one.letter.names)}: {one.state.value}: {one.detail}" for one in done if not one.good
            ]
        except MailError as error:
            retry[way], problems = self.now + RETRY, [str(error)]
        for problem in problems[: turns.MOST_LINES]:
            print(f"{way}: {problem}", file=sys.stderr)


def read_ledger(path: str, since: float, jobs: Iterable[Mapping[str, Any]]) -> Ledger:
    """The ledger of this host. One that has grown large forgets what nobody asks for again: ends that were told before
    ``since``, and all else of jobs that are not among ``jobs``."""
    raw = read_bytes(path) or b""
    if len(raw) > LARGEST:
        oldest = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(since))
        there = {str(queue.first_number(one["id"])) for one in jobs}
        lines = raw.decode("utf-8", "replace").splitlines(keepends=True)
        # guard: what may be told again is not forgotten -> []
        kept = [
            one for one in lines
            if f'"time": "{oldest}' <= one[1 : 10 + len(oldest)] or there & {*_RUNS.findall(one)}
        ]  # fmt: skip
        raw = "".join(kept).encode()
        write_atomic(path, raw, mode=0o600)
    return Ledger(Path(path), raw)


def read_recent(directory: str = DIRECTORY) -> list[tuple[str, str, str, float]]:
    """Whose jobs have ended in the last day: person, job, why, when. Nothing where that is not known."""
    with suppress(NodeError, LookupError, TypeError, ValueError):
        found = _json(os.path.join(directory, SEEN)).get("recent", [])
        return [(str(user), str(job), str(why), float(at)) for _, at, user, job, why in found]
    return []


def keep_people(mentioned: Sequence[str], addresses: Mapping[str, str], directory: str = DIRECTORY) -> None:
    """Note where mails go, of those who are mentioned; others keep their address."""
    path = os.path.join(directory, PEOPLE)
    before = _json(path)
    found = {**{name: one for name, one in before.items() if name not in mentioned}, **addresses}
    if found != before:
        write_atomic(path, json.dumps(found).encode(), mode=0o600)


def _json(path: str) -> dict[str, Any]:
    """A file of ours; empty where there is none."""
    try:
        found = json.loads(read_bytes(path) or b"{}")
    except ValueError:
        raise NodeError(f"{path} is damaged: remove it, then gpuadmin provision") from None
    return found if isinstance(found, dict) else {}


def main(directory: str = DIRECTORY, clock: Callable[[], float] = time.time, run: str = RUN) -> int:
    """Look once, and tell. Exit 0, also where Slurm or the mail server is away: the next run finds the same."""
    with flocked(os.path.join(run, "locks", "queue-notices"), 5.0):
        now, seen = clock(), os.path.join(directory, SEEN)
        settings = parse_settings(QueueMail, _json(os.path.join(directory, SETTINGS)), SETTINGS)
        state = _json(seen)
        try:
            queue.alive()
            jobs, closed = queue.ask_jobs(), queue.closed()
            moving = leaving(jobs, now)
            of = [
                one for one in look_ended(max(state.get("ended", now), now - LONGEST), jobs) if one.at <= now - SETTLES
            ]
            look = Run(directory, settings, state, now, jobs)
        except NodeError as error:
            print(f"nobody is told anything now: {error}", file=sys.stderr)
            return 0
        except MailError as error:
            raise NodeError(f"{error}; {error.hint}") from None
        found = [*running(jobs, now), *moving, *lost(jobs, closed, state.setdefault("lost", {}), now), *of]
        # of an array the first task that began
        found = list({one.key: one for one in reversed(found) if valid_name(one.user)}.values())[::-1]
        for way in ("mail", "webhook"):
            look.send(way, found)
        # guard: ends that nobody could be told are looked at again -> []
        late = [turn.at for turn in of for way in look.since if look.is_open(way, turn)]
        known = {entry[0]: entry for entry in state.get("recent", []) if entry[1] > now - DAY}
        known.update({one.key: [one.key, one.at, one.user, one.job, one.whys[0][0]] for one in of})
        state.update(since=look.since, ended=min([now - LATE, *late]) if "ended" in state else now,
                     recent=sorted(known.values(), key=lambda one: one[1])[-MOST_KEPT:])  # fmt: skip
        write_atomic(seen, json.dumps(state).encode(), mode=0o600)
    return 0
