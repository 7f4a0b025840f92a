"""The phases of a reset by name, each with its plan and its work; and the last of them, reopen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from typing import Any

from gpuadmin.accounts.desired import desired
from gpuadmin.actions.semester import data, people
from gpuadmin.actions.semester.reset import Outcome, Reset, proven
from gpuadmin.actions.shared.mails import Post, mails_document
from gpuadmin.config.schema import User
from gpuadmin.mail.ledger import Ledger
from gpuadmin.mail.notices import plan_closing
from gpuadmin.plan import Plan
from gpuadmin.results import HostResult
from gpuadmin.semester import plans
from gpuadmin.semester.report import until

Phase = tuple[Callable[[Reset], Plan], Callable[[Reset], Outcome]]


def _retiring(reset: Reset) -> list[str]:
    """Those who go for good: registered, with nothing of theirs pending or kept."""
    state = reset.state
    kept = set(state.done.get("wipe", {}).get("kept", {}))
    if state.pending.get("wipe") or not people.by_registry(reset):
        return []
    return [one.name for one in reset.decision.leaving if one.name not in kept]


def reopen_plan(reset: Reset) -> Plan:
    settings = reset.session.site.settings
    following = settings.term.next.name if settings.term is not None and settings.term.next is not None else None
    return plans.reopen(reset.decision, _retiring(reset), reset.named("gpu", "storage"), following)


def reopen(reset: Reset) -> Outcome:
    site = reset.session.site
    names = _retiring(reset)
    registered = [name for name in names if reset.registry.find(name) is not None]
    if registered:
        reset.registry.changed(site.settings, retire=registered).save()
    absent = [{"name": one.name, "uid": one.uid} for one in reset.decision.leaving if one.name in names]
    run = reset.play("reopen", hosts=reset.named("gpu", "storage") if absent else [], gpuadmin_absent=absent)
    return proven(reset, run, {"retired": names, **_closing(reset)})


def _closing(reset: Reset) -> dict[str, Any]:
    """Tell those who left that it is over, and until when their backup is kept."""
    site = reset.session.site
    if site.settings.mail is None:
        return {"mails": []}
    found = next((one for one in reset.facts.backups() if one["name"] == reset.decision.backup), None)
    last = None if found is None else date.fromisoformat(until(found["created"], site.settings.backups.days))
    users = [User(name=one.name, uid=one.uid, email=one.email) for one in reset.decision.leaving]
    notices = plan_closing(users, reset.decision.term, Ledger.of(site.directory), backup_until=last)
    deliveries = Post.of(reset.session, reset.mail).send(notices.letters, reset.session.console)
    return {**mails_document(deliveries), **notices.document()}


HANDLERS: Mapping[str, Phase] = {
    "announce": (people.announce_plan, people.announce),
    "lock": (people.lock_plan, people.lock),
    "end-sessions": (people.end_sessions_plan, people.end_sessions),
    "backup": (data.backup_plan, data.backup),
    "wipe": (data.wipe_plan, data.wipe),
    "prune": (data.prune_plan, data.prune),
    "reopen": (reopen_plan, reopen),
}


def foresee(reset: Reset, phase: str) -> Mapping[str, HostResult]:
    """Run a phase in check mode as far as that says anything: hosts and what would change there."""
    everybody, storage = reset.named("gpu", "storage"), reset.named("storage")
    if phase == "lock":
        users = [desired(user, reset.session.site.settings) for user in people.leaving_users(reset, locked=True)]
        return reset.play("lock", hosts=everybody, gpuadmin_users=users, gpuadmin_term=reset.term()).hosts
    if phase == "end-sessions":
        return reset.play("end-sessions", hosts=everybody, gpuadmin_term=reset.term()).hosts
    if phase == "backup":
        wanted = {"name": reset.decision.backup, "users": [one.name for one in reset.decision.wiped]}
        return reset.play("backup", hosts=storage, gpuadmin_backup=wanted).hosts
    if phase == "wipe":
        # homes can only be asked for when their backup is there; the plan names them
        scratch = {host: list(items) for host, items in reset.decision.scratch.items()}
        return reset.play("wipe", hosts=reset.named("gpu"), gpuadmin_term=reset.term(scratch=scratch)).hosts
    return {}
