"""Windows in which nodes are maintained: announcements with times, which Slurm and the nodes hold."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import date, datetime
from subprocess import Popen

from gpuadmin.actions.announce import Announcing, announce, list_announcements, remove, take_back
from gpuadmin.actions.shared.windows import release
from gpuadmin.announcements import Announcement, Announcements, Window
from gpuadmin.common.text import clock
from gpuadmin.config.fields import plain_text
from gpuadmin.errors import ConfigError, ExitCode, RefusedError
from gpuadmin.lock import HANDED_ON
from gpuadmin.options import MailOptions, Options
from gpuadmin.outcome import finish, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import Session, opened
from gpuadmin.site_history import find_keeper

__all__ = ["begin_due", "begin_window", "list_announcements", "maintain", "take_back"]


def maintain(
    options: Options, mail: MailOptions, times: tuple[str, str], pattern: str, reason: str, verb: Sequence[str],
    instead: str | None = None,
) -> int:  # fmt: skip
    """Announce a window, and hold it. `times`: from, until. `instead`: the id of one that it moves, with all else.
    Returns the exit code."""
    begin, until = (_parse_time(option, one) for option, one in zip(("--from", "--until"), times, strict=True))
    if not time.time() < until > begin:
        wrong = "is in the past" if until > begin else f"is not after --from {times[0]}"
        raise ConfigError(f"--until {times[1]}: {wrong}", hint="name a later time")
    try:
        window = Window(begin, until, plain_text(reason), tuple(verb))
    except ValueError as error:
        raise ConfigError(f"--reason: {error}") from None
    if instead is not None:
        with opened("maintain", options, changes=False) as session:
            one, old = _find(Announcements.of(session.site.directory), instead)
        instead, window = one.id, replace(old, begin=begin, until=until)
        if window == old:
            raise ConfigError(f"{instead} is at that time already")
    return announce(
        options, mail, Announcing({}, None, date.fromtimestamp(until), pattern or None, True, window, instead)
    )


def _parse_time(option: str, text: str) -> int:
    """Seconds since the epoch, of a time by this machine's clock. Raises ConfigError."""
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except (ValueError, OverflowError):
        raise ConfigError(f"{option} {text!r} is not a time", hint="write it as '2026-11-28 18:00'") from None


def begin_due(options: Options) -> int:
    """Begin the window whose time has come and that nobody has begun, where one has a verb. Returns the exit code.

    Raises RefusedError as long as one stays that did not come to its end: somebody is to look at it.
    """
    with opened("maintain", options, changes=False) as session:
        record, now, today = Announcements.of(session.site.directory), time.time(), date.today()
        due = [
            (one, one.window)
            for one in sorted(record, key=lambda one: one.window.begin if one.window else 0)
            if record.holds(one.id) and not one.over(today)
            and one.window and one.window.verb and one.window.begin <= now
        ]  # fmt: skip
        # guard: what stays of one window keeps no other from its time -> due
        ready = [one for one, window in due if now < window.until and not record.begun(one)]
        if not ready:
            for one, window in due:
                _refuse_begun(record, one)
                raise RefusedError(f"window {one.id} was not begun by {clock(window.until)}", hint=_ways(one))
            return finish(session, ExitCode.DONE, {})
    return begin_window(options, ready[0].id, again=False)


def begin_window(options: Options, name: str, *, again: bool = True) -> int:
    """Run its verb, and end the window when that is done. `again`: also where it was begun, and did not come to its
    end. Returns the exit code."""
    with opened("maintain", options) as session:
        record = Announcements.of(session.site.directory)
        one, window = _find(record, name)
        in_time = window.begin <= time.time() < window.until
        if not in_time:  # guard: nothing is done at another time than people were told
            times = f"from {clock(window.begin)} to {clock(window.until)}"
            raise RefusedError(f"the window is {times}", hint=_ways(one))
        if not again:
            _refuse_begun(record, one)
            alone = session.lock is not None and session.history is None and find_keeper(session.site) is not None
            if alone:  # guard: no window begins by itself where nobody says what other machines did of it
                raise RefusedError("the storage host does not say what other machines did of it", hint=_ways(one))
        builder = PlanBuilder(one.beginning)
        builder.add("site", window.command or "it is over")
        session.planned(builder.build())
        begun = session.begun()
        if session.history is not None:
            session.history.keep(begun.id)  # guard: a window whose beginning nobody else can read is not begun
        code = _run(window.verb, session) if window.verb else 0
        if code:  # guard: a window stays where its verb fails
            return finish(session, code, {"id": one.id})
        held = release(session, one)
        if held is not None and held.code:
            return report(session, held, {"id": one.id})
        nodes = [host for host in session.named("gpu") if host in one.hosts]
        over = [] if session.check else [one.id]
        return report(session, remove(session, record, one, nodes, dashboard=True), {"id": one.id, "over": over})


def _run(verb: Sequence[str], session: Session) -> int:
    """Run a verb of gpuadmin within this run's lock. Returns its exit code."""
    options, site, history = session.options, str(session.site.directory), session.history
    agreed = ["--check"] if options.check else ["--yes"] if options.yes else []
    command = [sys.executable, "-P", "-m", "gpuadmin", verb[0], "--site", site, *agreed, *verb[1:]]
    # guard: a verb whose window was killed keeps the site's lock, here and on the storage host -> []
    handed = [one for one in (session.lock, history.fileno() if history else None) if one is not None]
    environment = {**os.environ, HANDED_ON: str(session.lock)}
    with Popen(command, stdout=sys.stderr if options.json else None, pass_fds=handed, env=environment) as process:
        while True:
            with suppress(KeyboardInterrupt):  # it has that, too, and ends what it does
                return process.wait()


def _refuse_begun(record: Announcements, one: Announcement) -> None:
    if (run := record.begun(one)) is not None:  # guard: a window is not begun a second time by itself
        why = "that was cut off" if run["status"] == "unfinished" else "that did not succeed"
        did = "called off" if run["plan"]["title"] == one.calling_off else "begun"
        raise RefusedError(f"window {one.id} was {did} by {run['who']}, and {why} (run {run['id']})", hint=_ways(one))


def _ways(one: Announcement) -> str:
    move = f"gpuadmin maintain --move {one.id} --from TIME --until TIME"
    return f"{move}; --begin {one.id} in its time runs its verb, --cancel {one.id} calls it off"


def _find(record: Announcements, name: str) -> tuple[Announcement, Window]:
    one = record.find(name)
    if one.window is None:
        raise ConfigError(f"{one.id} announces no maintenance", hint="gpuadmin maintain shows what is announced")
    return one, one.window
