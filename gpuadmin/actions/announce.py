"""Announce something: a mail once each, and a message at login until it is over; or take it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

from gpuadmin.accounts.requests import known
from gpuadmin.actions.shared.mails import Post, mails_document, plan_letters, preview_document, show_letters
from gpuadmin.actions.shared.monitor import dashboard_host
from gpuadmin.actions.shared.windows import describe, hold, plan_window, release
from gpuadmin.announcements import Announcement, Announcements, Window, compose
from gpuadmin.answers import Answers
from gpuadmin.common.text import counted, listed
from gpuadmin.console import echo
from gpuadmin.display import join_lines, make_table
from gpuadmin.errors import ConfigError, ExitCode, GpuadminError
from gpuadmin.mail.announcing import plan_announcement
from gpuadmin.mail.notices import Notices
from gpuadmin.options import MailOptions, Options
from gpuadmin.outcome import finish, report
from gpuadmin.pages.render import LANGUAGES
from gpuadmin.plan import PlanBuilder
from gpuadmin.reading import decoded, expanded, read_limited
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened
from gpuadmin.site_history import bring_up_to_date
from gpuadmin.who import who


@dataclass(frozen=True)
class Announcing:
    """What the command line asks for. `texts`: by language a text, or `@FILE`; `on`: a pattern of hosts. `window`: the
    maintenance that it is about, which has texts of its own; `instead`: the id of the one that it moves."""

    texts: Mapping[str, str | None]
    begin: date | None
    until: date
    on: str | None
    mail: bool
    window: Window | None = None
    instead: str | None = None


def announce(options: Options, mail: MailOptions, request: Announcing) -> int:
    """Announce it. Returns the exit code."""
    with opened("maintain" if request.window else "announce", options, check=mail.preview) as session:
        today, settings = date.today(), session.site.settings
        record = Announcements.of(session.site.directory)
        languages = settings.mail.languages if settings.mail is not None else LANGUAGES
        texts = {language: _text(language, text) for language, text in request.texts.items() if text is not None}
        old = record.find(request.instead) if request.instead else None
        hosts = list(old.hosts) if old else _hosts(session, request.on, "HOSTS" if request.window else "--on")
        if request.window:
            texts = describe(request.window, hosts)
        one = compose(texts, languages, request.begin, request.until, hosts, today)
        one = record.kept(replace(one, window=request.window))
        if one.window != request.window:  # guard: what runs in a window is what was asked for
            verb = one.window.command if one.window else ""
            raise ConfigError(
                f"{one.id} is announced already, with {verb or 'no verb'}", hint=f"gpuadmin maintain --cancel {one.id}"
            )
        if mail.again:
            known(session.site.registry, mail.again)
        near = request.on is not None and request.window is None  # a window is everybody's matter
        there = _find_people(session, one) if near and request.mail and settings.mail is not None else None
        post = Post.of(session, mail) if request.mail and settings.mail is not None else None
        only = None if there is None else {name for names in there.known.values() for name in names}
        notices = Notices()
        if post is not None:
            notices = plan_announcement(
                one, session.site.registry.registry, today, post.ledger, only=only, again=mail.again
            )
            for letter in notices.letters:  # this finds a wrong template
                post.renderer.message(letter)
        _plan(session, one, notices, there, mailed=post is not None, asked=request.mail, preview=mail.preview)
        if mail.preview and post is not None:
            if not options.json:
                show_letters(notices.letters, post.renderer)
            return finish(session, ExitCode.DONE, {"id": one.id, **preview_document(notices.letters, post.renderer)})
        session.confirm()
        held = hold(session, one, old)
        if held is not None and held.code:  # guard: nobody is told of a window that is not held
            return report(session, held, {"id": one.id})
        if not session.check:
            record.add(one, who())
        everything, but = _dashboard(session), request.instead
        run = _run(session, record.entries(hosts, settings.name, today, more=[one], but=but, everything=everything))
        _note_reached(session, record, run)
        if old is not None and not session.check and not run.code:
            record.take_back(old.id, who())
            session.result["over"] = [old.id]
        # whoever stops it halfway wants no mails sent; the same command again continues
        mails, good = _send(
            session,
            None
            if run.interrupted  # guard: who interrupts an announcement sends no mail
            else post,
            notices,
        )
        code = run.code or (ExitCode.DONE if good else ExitCode.ERROR)
        unknown = [] if there is None else [there]
        result = {"id": one.id, **session.result, **mails, **notices.document()}
        return report(session, run, result, code=code, unknown=unknown)


def take_back(options: Options, name: str) -> int:
    """Take an announcement back from logins. Mails that were sent stay sent. Returns the exit code."""
    with opened("announce", options) as session:
        record = Announcements.of(session.site.directory)
        one = record.find(name)
        limited = session.named("gpu")
        there = [host for host in limited if host in one.hosts]
        nodes = {host.name for host in session.site.inventory.group("gpu")}
        left = [host for host in one.hosts if host in nodes and host not in limited]
        builder = PlanBuilder(one.calling_off)
        builder.add_all(there, ["no longer shown at login"])
        builder.add_all([] if left else _dashboard(session), ["no longer shown on the dashboard"])
        if left:
            builder.warn(f"it stays on {', '.join(left)}, which --limit leaves out")
        else:
            builder.add("site", f"announcement {one.id} is taken back")
        builder.warn("mails that were sent stay sent: announce what holds now")
        session.plan(builder.build())
        session.confirm()
        held = None if left else release(session, one)
        if held is not None and held.code:  # guard: a window whose nodes stay closed is not called off
            return report(session, held, {"id": one.id})
        run = remove(session, record, one, there, dashboard=not left)  # what stays on a node stays on the dashboard
        _note_reached(session, record, run)
        over = (
            not session.check
            and not left  # guard: an announcement is not taken back where a node keeps it
            and not run.code
        )
        if over:
            record.take_back(one.id, who())
        return report(session, run, {"id": one.id, "over": [one.id] if over else []})


def remove(
    session: Session, record: Announcements, one: Announcement, nodes: Sequence[str], *, dashboard: bool
) -> RunResult:
    """Have nodes and the dashboard show it no more."""
    everything = _dashboard(session) if dashboard else []
    entries = record.entries(nodes, session.site.settings.name, date.today(), but=one.id, everything=everything)
    return _run(session, entries)


def list_announcements(options: Options) -> int:
    """Show what is and was announced. Returns the exit code."""
    with opened("announce", options, changes=False) as session:
        bring_up_to_date(session.site)
        record = Announcements.of(session.site.directory)
        today, found = date.today(), []
        table = make_table("Id", "From", "Until", "State", "Hosts", "What", fold=True)
        for one in record:
            state = _state(record, one, today)
            found.append({"id": one.id, "from": str(one.begin), "until": str(one.until), "state": state,
                          "hosts": list(one.hosts), "reached": record.reached(one),
                          "texts": dict(one.texts), "window": one.window and vars(one.window)})  # fmt: skip
            then = f"{one.subject}: {one.window.command}" if one.window and one.window.verb else one.subject
            table.add_row(one.id, str(one.begin), str(one.until), state, ", ".join(one.hosts), then)
        session.console.print(table if found else "Nothing was announced.")
        return finish(session, ExitCode.DONE, {"announcements": found})


def _state(record: Announcements, one: Announcement, today: date) -> str:
    begun = record.begun(one)
    if not record.holds(one.id):
        return "done" if begun and begun["status"] == "ok" else "taken back"
    if begun:
        return f"begun by {begun['who']}: {begun['status']}"
    if one.over(today):
        return "over"
    reached = record.reached(one)
    missing = [] if reached is None else [host for host in one.hosts if host not in reached]
    return "announced" if not missing else f"not yet on {listed(missing)}" if reached else "on no node yet"


def _note_reached(session: Session, record: Announcements, run: RunResult) -> None:
    if not session.check:
        record.add_reached([name for name, host in run.hosts.items() if host.status in ("ok", "changed")], who())


def _text(language: str, given: str) -> str:
    if not given.startswith("@"):
        return given
    path = expanded(given[1:])
    try:
        return decoded(read_limited(path), path)
    except OSError as error:
        raise ConfigError(f"--{language}: {path}: {error.strerror}") from None


def _hosts(session: Session, pattern: str | None, named: str) -> list[str]:
    """The nodes that were named and that --limit leaves. Raises ConfigError if there are none."""
    meant = session.site.inventory.limited(pattern, named)
    nodes = set(session.named("gpu"))
    hosts = [host.name for host in meant if host.name in nodes]
    if not hosts:
        raise ConfigError("this names no node", hint=f"{named} names nodes, as --limit does: hosts of group gpu")
    return hosts


def _dashboard(session: Session) -> list[str]:
    """The host that has the dashboard, if there is one: it shows what is announced on any node."""
    host = dashboard_host(session.site)
    return [] if host is None else [host.name]


def _find_people(session: Session, one: Announcement) -> Answers:
    """By node the names of people who are on it, or whose processes have a GPU open there."""
    found = session.look("status", list(one.hosts), {})
    answers = Answers.of(found.hosts, list(one.hosts), "status")
    names, unknown = {}, dict(answers.unknown)
    for host, answer in answers.known.items():
        people, gpu = answer.get("people"), answer.get("gpu_people")
        if people is None or gpu is None:
            reasons = answer.get("unknown") or {}
            unknown[host] = str(reasons.get("people") or reasons.get("gpu_people") or "it does not say who is on it")
        names[host] = sorted({*(people or ()), *(gpu or ())})
    return Answers(names, unknown)


def _plan(
    session: Session,
    one: Announcement,
    notices: Notices,
    there: Answers | None,
    *,
    mailed: bool,
    asked: bool,
    preview: bool,
) -> None:
    builder = PlanBuilder(f"Announce on {session.site.settings.name}: {one.subject}")
    days = f"on {one.until}" if one.begin == one.until else f"from {one.begin} until {one.until}"
    builder.add_all(one.hosts, [f"at login, {days}: {one.subject}"])
    builder.add_all(_dashboard(session), [f"on the dashboard, and its page without a login, {days}"])
    plan_window(session, builder, one)
    plan_letters(builder, notices.letters)
    for warning in notices.warnings:
        builder.warn(warning)
    if asked and not mailed:
        builder.warn("gpuadmin.yml has no `mail`: nobody is mailed")
    if there is not None:
        registered = {user.name for user in session.site.registry.registry.users}
        others = sorted({name for names in there.known.values() for name in names} - registered)
        if others:
            builder.warn(f"not in users.yml, so not mailed: {', '.join(others)}")
        for host, why in there.unknown.items():
            builder.warn(f"{host}: nobody knows who is on it ({why}), so they are not mailed")
    session.plan(builder.build(question=f"Announce it, and send {counted(len(notices.letters), 'mail')}?"))
    # a preview shows the mails, which have the texts
    for text in () if session.options.json or (preview and notices.letters) else one.texts.values():
        session.console.print(join_lines(["", *text.split("\n")]))


def _run(session: Session, entries: Mapping[str, Any]) -> RunResult:
    return session.run("announce", list(entries), {"gpuadmin_announcements": dict(entries)}, check=session.check)


def _send(session: Session, post: Post | None, notices: Notices) -> tuple[Mapping[str, Any], bool]:
    """Send the mails, whatever became of the hosts. Returns what became of them, and whether all went."""
    if post is None or not notices.letters:
        return mails_document(()), True
    if session.check:
        return preview_document(notices.letters, post.renderer), True
    try:
        deliveries = post.send(notices.letters, session.console)
    except GpuadminError as error:
        error.show()
        return {**mails_document(()), "error": error.message}, False
    echo(post.outcome(deliveries), err=True)
    return mails_document(deliveries), all(delivery.good for delivery in deliveries)
