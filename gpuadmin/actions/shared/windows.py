"""Windows of maintenance, held by Slurm: a reservation of the nodes, so that no job starts that would run into it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress

from gpuadmin.actions.shared.queue import ask, controller
from gpuadmin.announcements import Announcement, Window
from gpuadmin.answers import Answers
from gpuadmin.common.records.queue import WINDOW, Reservation
from gpuadmin.common.text import clock, listed
from gpuadmin.config.queue import takes_jobs
from gpuadmin.errors import ConfigError
from gpuadmin.plan import PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session

_TEXTS = {
    "en": "Maintenance of {hosts}: {begin} to {until}\n{reason}\nNothing starts there that would run into it, and "
    "GPUs that were granted go back before. Save your work: programs may be ended.",
    "ko": "점검: {hosts}, {begin}부터 {until}까지\n{reason}\n그 전에 끝나지 않는 작업은 시작하지 않고, 받은 GPU는 "
    "점검 전에 반납됩니다. 실행 중인 프로그램은 종료될 수 있으니 미리 저장해 주세요.",
}


def describe(window: Window, hosts: Sequence[str]) -> dict[str, str]:
    """What people read of a window, by language."""
    begin, until = clock(window.begin), clock(window.until)
    values = {"hosts": ", ".join(hosts), "begin": begin, "until": until, "reason": window.reason}
    return {language: text.format(**values) for language, text in _TEXTS.items()}


def plan_window(session: Session, builder: PlanBuilder, one: Announcement) -> None:
    """What is planned of a window beside its announcement, and who would run into it."""
    if one.window is None:
        return
    work = one.window.command or "your work there"
    itself = one.window.verb and session.site.settings.is_timed("windows")
    how = "the monitor host begins it" if itself else f"gpuadmin maintain --begin {one.id}"
    builder.add("site", f"at {clock(one.window.begin)}: {work} ({how})")
    named = _find_named(session, one.window.verb)
    # guard: a window's verb names no node that nobody announced
    if others := [name for name in named if name not in one.hosts]:
        raise ConfigError(f"{work}: {listed(others)} would be in no window", hint="announce it for that node, too")
    if one.window.verb and not named:
        builder.warn(f"{work} names none of these nodes: it acts on all that it finds")
    if itself:
        builder.warn("the monitor host has it from the site's repository: commit announcements.jsonl, and push it")
    queued = _find_queued(session, one)
    for host in one.hosts:
        builder.add(host, f"no {'job starts' if host in queued else 'grant of a GPU is kept'} that would run into it")
    answers = ask(session, controller(session))[0] if queued else Answers({}, {})
    for answer in answers.known.values():
        for job in answer["jobs"]:
            if not job["place"] and {*job["nodes"].split(",")} & {*queued} and (job["end"] or 0) > one.window.begin:
                builder.warn(f"{job['user']}'s job {job['id']} on {job['nodes']} goes on until {clock(job['end'])}")
    for why in answers.unknown.values():
        builder.warn(f"nobody knows whose jobs run into it: {why}")


def _find_named(session: Session, verb: Sequence[str]) -> list[str]:
    """The nodes that a verb's words name, as arguments or after `--limit=`."""
    nodes, found = session.site.inventory.group("gpu"), set[str]()
    for word in verb[1:]:
        pattern = word.partition("=")[2] if word.startswith("-") else word
        if not pattern:
            continue
        with suppress(ConfigError):  # it is no host's name, but that of an image, or an option's value
            found |= {host.name for host in session.site.inventory.limited(pattern)}
    return [host.name for host in nodes if host.name in found]


def hold(session: Session, one: Announcement, instead: Announcement | None) -> RunResult | None:
    """Hold a window, in place of another one. None: there is none, or the queue has none of its nodes."""
    if one.window is None or not (nodes := _find_queued(session, one)):
        return None
    mark = Reservation(WINDOW + one.id, nodes, ["root"], one.window.begin, one.window.until)
    create = mark.command("MAINT,IGNORE_JOBS")
    return _run(session, [one.id, *([instead.id] if instead else [])], shlex.join(create))


def release(session: Session, one: Announcement) -> RunResult | None:
    """Hold a window no longer. None as above."""
    return _run(session, [one.id], "true") if one.window and _find_queued(session, one) else None


def _run(session: Session, gone: list[str], then: str) -> RunResult:
    """Slurm deletes by itself what is over: a reservation that is not there is no error."""
    names = shlex.join(f"{WINDOW}{one}" for one in gone)
    line = (
        f'for one in {names}; do scontrol --oneliner show reservation | grep -qF "ReservationName=$one " || continue; '
        f'scontrol delete "ReservationName=$one" || exit; done; {then}'
    )
    return session.run("run", [controller(session)], {"command_line": line}, check=session.check, quiet=True)


def _find_queued(session: Session, one: Announcement) -> list[str]:
    hosts = session.site.inventory.hosts
    return [host.name for host in hosts if host.name in one.hosts and takes_jobs(session.site.settings, hosts, host)]
