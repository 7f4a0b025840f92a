"""The phases of a reset that concern people: announce, lock, end-sessions; and letting them in again."""

from __future__ import annotations

from datetime import date
from typing import Any

from gpuadmin.accounts.desired import desired
from gpuadmin.accounts.requests import known
from gpuadmin.actions.semester.hosts import persons
from gpuadmin.actions.semester.reset import Outcome, Reset, proven
from gpuadmin.actions.shared.mails import Post, mails_document, plan_letters, show_letters
from gpuadmin.config.schema import User
from gpuadmin.errors import ExitCode
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.notices import Notices, never_told, plan_notices
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.semester import plans
from gpuadmin.semester.term import current_term


def announce_plan(reset: Reset) -> Plan:
    builder = PlanBuilder("Announce")
    notices = _notices(reset)
    if notices is None:
        builder.warn("gpuadmin.yml has no `mail`: nobody is told by gpuadmin")
        return builder.build()
    post = Post.of(reset.session, reset.mail)  # a password that is missing is found before anything is done
    if reset.mail.preview and not reset.session.options.json:
        show_letters(notices.letters, post.renderer)
    plan_letters(builder, notices.letters)
    for warning in notices.warnings:
        builder.warn(warning)
    return builder.build(question=f"Send {len(notices.letters)} mails?")


def _notices(reset: Reset) -> Notices | None:
    """The reminders that are due; None where the site sends no mail."""
    site = reset.session.site
    if site.settings.mail is None:
        return None
    return plan_notices(
        reset.registry.registry, site.settings, date.today(), Ledger.of(site.directory), again=reset.mail.again,
        keep=reset.request.keep,
    )  # fmt: skip


def announce(reset: Reset) -> Outcome:
    notices = _notices(reset)
    if notices is None or not notices.letters:
        return Outcome({"mails": []})
    deliveries = Post.of(reset.session, reset.mail).send(notices.letters, reset.session.console)
    # an address that is refused keeps nobody else's reset; it is in the report
    return Outcome({**mails_document(deliveries), **notices.document()})


def leaving_users(reset: Reset, **fields: Any) -> list[User]:
    users = reset.registry.registry.users
    return [user.model_copy(update=fields) for user in users if user.name in reset.decision.names]


def by_registry(reset: Reset) -> bool:
    return reset.session.site.settings.accounts.source == "registry"


def lock_plan(reset: Reset) -> Plan:
    return plans.lock(
        reset.decision, reset.named("gpu", "storage"), registry=by_registry(reset), untold=_untold(reset)
    )  # fmt: skip


def _untold(reset: Reset) -> list[str]:
    """Those who leave and were sent no reminder; nobody where the site sends its mails in another way."""
    site = reset.session.site
    if site.settings.mail is None:
        return []
    return never_told(leaving_users(reset), current_term(site.settings), Ledger.of(site.directory))


def lock(reset: Reset) -> Outcome:
    run = _lock(reset, "lock", locked=list(reset.decision.names))
    return proven(reset, run, {"people": list(reset.decision.names)})


def _lock(reset: Reset, phase: str, locked: list[str]) -> RunResult:
    """Write who is locked into users.yml and onto the hosts, with the doors of `phase`."""
    site = reset.session.site
    users = [user.model_copy(update={"locked": user.name in locked}) for user in leaving_users(reset)]
    if by_registry(reset) and not reset.check:
        if phase == "lock" and not reset.state.unlocked_before:
            before = [user.name for user in leaving_users(reset) if not user.locked]
            reset.journal.write("unlocked-before", names=before)
        reset.registry.changed(site.settings, update=users).save()
    people = [desired(user, site.settings) for user in users]
    return reset.play(
        phase, hosts=reset.named("gpu", "storage"), gpuadmin_users=people, gpuadmin_term=reset.term()
    )  # fmt: skip


def end_sessions_plan(reset: Reset) -> Plan:
    return plans.end_sessions(reset.decision, reset.named("gpu", "storage"), reset.facts, reset.grace)


def end_sessions(reset: Reset) -> Outcome:
    minutes = max(1, reset.grace // 60)
    message = (
        f"{reset.decision.term} ends now. Sessions of accounts that end with it are closed in {minutes} min. "
        f"학기가 끝났습니다. 종료되는 계정의 세션은 {minutes}분 뒤에 닫힙니다."
    )
    run = reset.play("end-sessions", hosts=reset.named("gpu", "storage"), gpuadmin_term=reset.term(message=message))
    ended = {
        host: {name: one["operations"] for name, one in result.reports.get("sessions", {}).items() if one["operations"]}
        for host, result in run.hosts.items()
    }
    return proven(reset, run, {"ended": ended})


def released(reset: Reset) -> list[str]:
    """Those whom this reset locked out and who stay by now: extended or kept after it had begun."""
    users = reset.registry.registry.users
    before = reset.state.unlocked_before
    return [
        user.name for user in users if user.locked and user.name in before and user.name not in reset.decision.names
    ]


def release(reset: Reset, names: list[str]) -> Outcome:
    """Let them in again."""
    site = reset.session.site
    users = [user.model_copy(update={"locked": False}) for user in known(reset.registry, names)]
    reset.registry.changed(site.settings, update=users).save()
    people = persons({user.name: user.uid for user in users if user.uid is not None}, site.settings)
    run = reset.play(
        "unlock", hosts=reset.named("gpu", "storage"), gpuadmin_term={"people": people},
        gpuadmin_users=[desired(user, site.settings) for user in users],
    )  # fmt: skip
    return proven(reset, run, {"released": names})


def unlock(reset: Reset) -> Outcome:
    """What --abort does: those who were not locked before the reset can log in again."""
    before = reset.state.unlocked_before
    run = _lock(reset, "unlock", locked=[name for name in reset.decision.names if name not in before])
    return Outcome({"people": list(before)}, run.bad, ExitCode.HOST_FAILED if run.bad else ExitCode.DONE)
