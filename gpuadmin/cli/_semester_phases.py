"""The phases of a reset: what each is about to do, and what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

from gpuadmin.cli._semester import Outcome, Reset
from gpuadmin.errors import ExitCode, RefusedError
from gpuadmin.semester import plans
from gpuadmin.semester.planner import refuse_running, refuse_stale, refuse_unbacked

if TYPE_CHECKING:
    from gpuadmin.config.schema import User
    from gpuadmin.events import HostResult
    from gpuadmin.notices import Notices
    from gpuadmin.plan import Plan
    from gpuadmin.run import RunResult

Phase = tuple[Callable[[Reset], "Plan"], Callable[[Reset], Outcome]]


def bad_hosts(run: RunResult) -> dict[str, str]:
    """The hosts where a phase did not succeed, and why."""
    return {name: host.message or host.status for name, host in run.hosts.items() if host.bad}


def proven(reset: Reset, run: RunResult, result: Mapping[str, Any]) -> Outcome:
    """A phase is done where the hosts say so; one that does not is pending, and stops the reset unless it may pend."""
    pending = bad_hosts(run)
    if not pending or reset.request.leave_pending:
        return Outcome(result, pending)
    unreachable = all(run.hosts[name].status == "unreachable" for name in pending)
    return Outcome(result, pending, ExitCode.HOST_UNREACHABLE if unreachable else ExitCode.HOST_FAILED)


def announce_plan(reset: Reset) -> Plan:
    from gpuadmin.cli._mail import Post, plan_letters, show_letters
    from gpuadmin.plan import PlanBuilder

    builder = PlanBuilder("Announce")
    notices = _notices(reset)
    if notices is None:
        builder.warn("gpuadmin.yml has no `mail`: nobody is told by gpuadmin")
        return builder.build()
    post = Post.of(reset.verb, reset.mail)  # a password that is missing is found before anything is done
    if reset.mail.preview and not reset.verb.options.json:
        show_letters(notices.letters, post.renderer)
    plan_letters(builder, notices.letters)
    for warning in notices.warnings:
        builder.warn(warning)
    return builder.build(question=f"Send {len(notices.letters)} mails?")


def _notices(reset: Reset) -> Notices | None:
    """The reminders that are due; None where the site sends no mail."""
    from gpuadmin.mail.ledger import Ledger
    from gpuadmin.notices import plan_notices

    site = reset.verb.site
    if site.settings.mail is None:
        return None
    return plan_notices(
        reset.registry.registry, site.settings, date.today(), Ledger.of(site.directory), again=reset.mail.again,
        keep=reset.request.keep,
    )  # fmt: skip


def announce(reset: Reset) -> Outcome:
    from gpuadmin.cli._mail import Post, mails_document

    notices = _notices(reset)
    if notices is None or not notices.letters:
        return Outcome({"mails": []})
    deliveries = Post.of(reset.verb, reset.mail).send(notices.letters, reset.console)
    # an address that is refused keeps nobody else's reset; it is in the report
    return Outcome({**mails_document(deliveries), **notices.document()})


def _leaving_users(reset: Reset, **fields: Any) -> list[User]:
    users = reset.registry.registry.users
    return [user.model_copy(update=fields) for user in users if user.name in reset.decision.names]


def _by_registry(reset: Reset) -> bool:
    return reset.verb.site.settings.accounts.source == "registry"


def lock_plan(reset: Reset) -> Plan:
    return plans.lock(
        reset.decision, reset.named("gpu", "storage"), registry=_by_registry(reset), untold=_untold(reset)
    )  # fmt: skip


def _untold(reset: Reset) -> list[str]:
    """Those who leave and were sent no reminder; nobody where the site sends its mails in another way."""
    from gpuadmin.mail.ledger import Ledger
    from gpuadmin.notices import never_told
    from gpuadmin.term import current_term

    site = reset.verb.site
    if site.settings.mail is None:
        return []
    return never_told(_leaving_users(reset), current_term(site.settings), Ledger.of(site.directory))


def lock(reset: Reset) -> Outcome:
    run = _lock(reset, "lock", locked=list(reset.decision.names))
    return proven(reset, run, {"people": list(reset.decision.names)})


def _lock(reset: Reset, phase: str, locked: list[str]) -> RunResult:
    """Write who is locked into users.yml and onto the hosts, with the doors of `phase`."""
    from gpuadmin.accounts import desired

    site = reset.verb.site
    users = [user.model_copy(update={"locked": user.name in locked}) for user in _leaving_users(reset)]
    if _by_registry(reset) and not reset.check:
        if phase == "lock" and not reset.state.unlocked_before:
            before = [user.name for user in _leaving_users(reset) if not user.locked]
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


def backup_plan(reset: Reset) -> Plan:
    return plans.backup(reset.decision, reset.named("storage"), reset.named("backup"))


def backup(reset: Reset) -> Outcome:
    """The backup must be whole; the second copy may pend if the admin lets it."""
    wanted = {"name": reset.decision.backup, "users": [one.name for one in reset.decision.wiped]}
    run = reset.play("backup", hosts=reset.named("storage"), gpuadmin_backup=wanted)
    made = next((host.reports["backup"] for host in run.hosts.values() if "backup" in host.reports), None)
    if bad_hosts(run):
        return Outcome({}, bad_hosts(run), ExitCode.HOST_FAILED)
    result = {"backup": reset.decision.backup, "homes": {} if made is None else _sums(made)}
    if not reset.named("backup"):
        return Outcome(result)
    copied = reset.play("copy", hosts=reset.named("storage"), gpuadmin_backup={"name": reset.decision.backup})
    return proven(reset, copied, result)


def _sums(made: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("uid", "files", "bytes", "checksum", "verified")
    return {name: {key: home[key] for key in keys} for name, home in made["homes"].items()}


def _blocked(reset: Reset) -> list[str]:
    """Nodes that nobody could look at now, or whose sessions are not known to have ended."""
    pending = reset.state.pending.get("end-sessions", {})
    return [host for host in reset.named("gpu") if host in pending or reset.facts.hosts.get(host) is None]


def wipe_plan(reset: Reset) -> Plan:
    if not reset.check:
        reset.look()
        refuse_running(reset.decision, reset.facts)
        refuse_unbacked(reset.decision, reset.facts)
    blocked = _blocked(reset)
    if blocked and not reset.request.leave_pending and not reset.check:
        raise RefusedError(
            f"wipe: {', '.join(blocked)}: not reachable, or sessions there are not known to have ended",
            hint="--resume when they are back; --leave-pending wipes the rest, what these hold stays pending",
        )
    return plans.wipe(reset.decision, reset.named("storage"), blocked)


def wipe(reset: Reset) -> Outcome:
    refuse_stale(reset.decision, reset.facts, datetime.now(UTC))
    blocked = _blocked(reset)
    hosts = [host for host in reset.named("storage", "gpu") if host not in blocked]
    scratch = {host: list(items) for host, items in reset.decision.scratch.items() if host in hosts}
    # a home that is out of sight but not deleted yet is named again, too
    homes = [
        {"name": one.name, "uid": one.uid} for one in reset.decision.leaving if one.home or _waits(reset, one.name)
    ]
    run = reset.play(
        "wipe", hosts=hosts, gpuadmin_term=reset.term(wipe=homes, scratch=scratch, backup=reset.decision.backup)
    )  # fmt: skip
    kept: dict[str, str] = {}
    totals: dict[str, dict[str, int]] = {}
    for host, said in run.hosts.items():
        for name, home in said.reports.get("homes", {}).items():
            if home["problem"]:
                kept[name] = home["problem"]
        for name, rest in (said.reports.get("deleted") or {}).items():
            if rest["kept"] and name in reset.decision.names:
                kept[name] = f"{rest['kept']} entries that the backup does not have stay: {', '.join(rest['words'])}"
        done = [one for path, one in (said.reports.get("deleted") or {}).items() if path.startswith("/")]
        if done:
            totals[host] = {"entries": len(done), "bytes": sum(int(one["bytes"]) for one in done)}
    result = {"kept": kept, "scratch": totals}
    outcome = proven(reset, run, result)
    pending = {**dict(outcome.pending), **dict.fromkeys(blocked, "was not reachable, or its sessions had not ended")}
    return Outcome(result, pending, outcome.code)


def _waits(reset: Reset, name: str) -> bool:
    place = f"{reset.decision.backup}/{name}"
    return any(place in said.get("waiting", ()) for said in reset.facts.hosts.values() if said is not None)


def _expired(reset: Reset) -> dict[str, list[str]]:
    """Which backups may go, on each host that has any: asked in check mode, and only those are named afterwards."""
    from dataclasses import replace

    look = replace(reset, verb=replace(reset.verb, options=replace(reset.verb.options, check=True)))
    run = look.play("prune", hosts=reset.named("storage", "backup"), gpuadmin_backup={"only": _all(reset)})
    return {host: list(result.reports.get("pruned", [])) for host, result in run.hosts.items() if not result.bad}


def _all(reset: Reset) -> dict[str, list[str]]:
    return {
        host: [one["name"] for one in (reset.facts.hosts.get(host) or {}).get("backups", [])]
        for host in reset.named("storage", "backup")
    }


def prune_plan(reset: Reset) -> Plan:
    return plans.prune({host: names for host, names in _expired(reset).items() if names})


def prune(reset: Reset) -> Outcome:
    only = _expired(reset)
    hosts = [host for host, names in only.items() if names]
    run = reset.play("prune", hosts=hosts, gpuadmin_backup={"only": only})
    return proven(
        reset, run, {"deleted": {host: result.reports.get("pruned", []) for host, result in run.hosts.items()}}
    )


def _retiring(reset: Reset) -> list[str]:
    """Those who go for good: registered, with nothing of theirs pending or kept."""
    state = reset.state
    kept = set(state.done.get("wipe", {}).get("kept", {}))
    if state.pending.get("wipe") or not _by_registry(reset):
        return []
    return [one.name for one in reset.decision.leaving if one.name not in kept]


def reopen_plan(reset: Reset) -> Plan:
    settings = reset.verb.site.settings
    following = settings.term.next.name if settings.term is not None and settings.term.next is not None else None
    return plans.reopen(reset.decision, _retiring(reset), reset.named("gpu", "storage"), following)


def reopen(reset: Reset) -> Outcome:
    site = reset.verb.site
    names = _retiring(reset)
    registered = [name for name in names if reset.registry.find(name) is not None]
    if registered:
        reset.registry.changed(site.settings, retire=registered).save()
    absent = [{"name": one.name, "uid": one.uid} for one in reset.decision.leaving if one.name in names]
    run = reset.play("reopen", hosts=reset.named("gpu", "storage") if absent else [], gpuadmin_absent=absent)
    return proven(reset, run, {"retired": names, **_closing(reset)})


def _closing(reset: Reset) -> dict[str, Any]:
    """Tell those who left that it is over, and until when their backup is kept."""
    from gpuadmin.cli._mail import Post, mails_document
    from gpuadmin.config.schema import User
    from gpuadmin.mail.ledger import Ledger
    from gpuadmin.notices import plan_closing
    from gpuadmin.semester.report import until

    site = reset.verb.site
    if site.settings.mail is None:
        return {"mails": []}
    found = next((one for one in reset.facts.backups() if one["name"] == reset.decision.backup), None)
    last = None if found is None else date.fromisoformat(until(found["created"], site.settings.backups.days))
    users = [User(name=one.name, uid=one.uid, email=one.email) for one in reset.decision.leaving]
    notices = plan_closing(users, reset.decision.term, Ledger.of(site.directory), backup_until=last)
    deliveries = Post.of(reset.verb, reset.mail).send(notices.letters, reset.console)
    return {**mails_document(deliveries), **notices.document()}


def released(reset: Reset) -> list[str]:
    """Those whom this reset locked out and who stay by now: extended or kept after it had begun."""
    users = reset.registry.registry.users
    before = reset.state.unlocked_before
    return [
        user.name for user in users if user.locked and user.name in before and user.name not in reset.decision.names
    ]


def release(reset: Reset, names: list[str]) -> Outcome:
    """Let them in again."""
    from gpuadmin.accounts import desired, known
    from gpuadmin.cli._semester import persons

    site = reset.verb.site
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
    return Outcome({"people": list(before)}, bad_hosts(run), ExitCode.HOST_FAILED if bad_hosts(run) else ExitCode.DONE)


HANDLERS: Mapping[str, Phase] = {
    "announce": (announce_plan, announce),
    "lock": (lock_plan, lock),
    "end-sessions": (end_sessions_plan, end_sessions),
    "backup": (backup_plan, backup),
    "wipe": (wipe_plan, wipe),
    "prune": (prune_plan, prune),
    "reopen": (reopen_plan, reopen),
}


def foresee(reset: Reset, phase: str) -> Mapping[str, HostResult]:
    """Run a phase in check mode as far as that says anything: hosts and what would change there."""
    from gpuadmin.accounts import desired

    everybody, storage = reset.named("gpu", "storage"), reset.named("storage")
    if phase == "lock":
        people = [desired(user, reset.verb.site.settings) for user in _leaving_users(reset, locked=True)]
        return reset.play("lock", hosts=everybody, gpuadmin_users=people, gpuadmin_term=reset.term()).hosts
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
