"""Read a survey's export, match it with the group's applications, and give those an account who are ready."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuadmin.actions.shared.accounts import account_result, converge
from gpuadmin.actions.shared.applications import Prepared, lists_document, prepare, preview, show_lists
from gpuadmin.actions.shared.mails import Post, perform_mail, plan_letters
from gpuadmin.actions.shared.welcome import mail_those_with_account
from gpuadmin.applications.matching import Lists, sort_applications
from gpuadmin.applications.read import read_form, read_members, with_map
from gpuadmin.applications.since import Last, new_since, without_removed
from gpuadmin.common.text import counted
from gpuadmin.errors import ConfigError, ExitCode
from gpuadmin.options import MailOptions, Options
from gpuadmin.outcome import finish, report
from gpuadmin.plan import Plan, PlanBuilder
from gpuadmin.records import history
from gpuadmin.session import Session, opened


def import_applications(
    options: Options,
    mail: MailOptions,
    form: str,
    members: str | None,
    *,
    mapped: Sequence[str],
    chosen: Sequence[str],
    do: bool,
    tell_unknown: bool,
    since_last: bool,
) -> int:
    """Show the three lists; with `do` give accounts and send mails. Returns the exit code.

    `since_last`: only what the last import did not have is shown, and nobody gets back what was removed since.
    """
    names = dict(item.rpartition("=")[::2] for item in chosen)
    for item in chosen:
        if "@" not in item.rpartition("=")[0] or not item.rpartition("=")[2]:
            raise ConfigError(f"--name {item!r}: must be ADDRESS=NAME")
    with opened("import-applications", options, changes=do and not mail.preview) as session:
        settings, registry = session.site.settings, session.site.registry.registry
        rules = with_map(settings.applications, mapped)
        group = read_members(Path(members), rules) if members else None
        lists = sort_applications(read_form(Path(form), rules), group, registry, settings, names)
        fresh = lists
        if since_last:
            last = _last(session)
            lists = without_removed(lists, last, registry)
            fresh = new_since(lists, last)
        if do and not mail.preview:
            show_lists(session.console, fresh)
            return _apply(
                session,
                lists,  # guard: what is left to do is done although it is not new -> fresh
                fresh,
                mail,
                tell_unknown=tell_unknown,
                record=since_last,
            )
        result = lists_document(fresh)
        if not options.json:
            show_lists(session.console, fresh)
        if mail.preview:
            result |= preview(session, lists, mail, tell_unknown=tell_unknown)
        return finish(session, ExitCode.DONE, result)


def _last(session: Session) -> Last | None:
    """The last import that is recorded, if any; which one it is is said."""
    for run, document in history(session.site.runs):
        if (last := Last.of(run, document)) is not None:
            session.console.print(f"Since the import of {last.day} (run {last.run}):")
            return last
    session.console.print("No earlier import is recorded: everything is shown.")
    return None


def _apply(
    session: Session, lists: Lists, fresh: Lists, mail: MailOptions, *, tell_unknown: bool, record: bool
) -> int:  # fmt: skip
    """Add those who are ready, by what add-user does, and mail them and the incomplete ones. Returns the exit code.

    `fresh`: the lists as the admin sees them. `record`: an import that finds nothing to do is recorded, too.
    """
    post = Post.of(session, mail)
    prepared = prepare(session, lists, post, mail, tell_unknown=tell_unknown)
    result = {**lists_document(lists), "stuck": [entry.document() for entry in prepared.stuck]}
    new = len(prepared.new)
    title = f"Applications for {session.site.settings.name}: {counted(new, 'new account')}"
    change = converge(session, prepared.registry, prepared.people, title=title, notes=prepared.notes)
    plan = _plan(change.plan, prepared, fresh)
    if not prepared.people:
        if record and not prepared.asks and not session.check:
            session.begun()
        return perform_mail(session, plan, prepared.asks, post, mail, result)
    session.plan(plan)
    session.confirm()
    if not session.check:
        # owed before anybody is registered: whoever is has an account by this verb, and will be mailed
        post.ledger.owe(list(prepared.welcomes.values()))
    session.save(prepared.registry)
    run = session.run("sync-users", None, change.variables, check=session.check)
    mails, good = mail_those_with_account(
        session, run, prepared.people, prepared.welcomes, post, others=prepared.asks
    )  # fmt: skip
    code = run.code or (ExitCode.DONE if good else ExitCode.ERROR)
    return report(session, run, {**account_result(run), **mails, **result}, code=code)


def _plan(accounts: Plan, prepared: Prepared, lists: Lists) -> Plan:
    """What is done for the accounts, who is mailed, and what an admin has to look at."""
    steps = list(accounts.steps) if prepared.people else []
    builder = PlanBuilder(accounts.title, steps=steps, warnings=list(accounts.warnings))
    plan_letters(builder, prepared.letters)
    for entry in lists.unknown:
        builder.warn(f"{entry.email or f'line {entry.line}'}: {entry.reason}")
    for stuck in prepared.stuck:
        builder.warn(stuck.summary)
    return builder.build()
