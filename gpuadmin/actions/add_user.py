"""Give people accounts: new ones, or those that a run before this one did not bring everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gpuadmin.accounts import requests as accounts
from gpuadmin.accounts.importing import read_keys, read_people
from gpuadmin.actions.shared.accounts import ASK_CARRIED, Change, account_result, converge, perform, uids_elsewhere
from gpuadmin.actions.shared.mails import Post, plan_letters, preview_document, show_letters
from gpuadmin.actions.shared.welcome import Welcomes, mail_those_with_account, welcomes
from gpuadmin.common.text import counted
from gpuadmin.config.registry import RegistryFile
from gpuadmin.config.schema import User
from gpuadmin.errors import ExitCode
from gpuadmin.options import MailOptions, Options
from gpuadmin.outcome import finish, nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened


def add_user(
    options: Options,
    mail: MailOptions,
    names: Sequence[str],
    *,
    source: str | None,
    keys: Sequence[str],
    fields: Mapping[str, Any],
    send: bool | None = None,
) -> int:
    """Add the people named, with these keys and fields, or those of a file. Returns the exit code.

    `send`: whether they are mailed; None: as the site says (mail.welcome).
    """
    given = {**fields, **({"keys": list(read_keys(keys))} if keys else {})}
    with opened("add-user", options, changes=not mail.preview) as session:
        requests = read_people(source) if source else [accounts.request({"name": name, **given}) for name in names]
        site = session.site
        # made before any host is asked, so that missing mail settings are reported at once
        welcome = site.settings.mail is not None and site.settings.mail.welcome
        post = Post.of(session, mail) if (welcome if send is None else send) else None
        options_of = {} if source else {"uid": "--uid", "keys": "--key"}
        registry = accounts.add(site.registry, site.settings, requests, arguments=options_of)
        new = [request.name for request in requests if site.registry.find(request.name) is None]
        title = _title(len(new), len(requests) - len(new), site.settings.name)

        def changed(registry: RegistryFile, notes: Sequence[str] = ()) -> Change:
            people = accounts.known(registry, [request.name for request in requests])
            return converge(session, registry, people, title=title, notes=notes)

        change, looked = changed(registry), None
        if new and not mail.preview:
            # a check asks once, with uids that look free from here, and again if a host knows better
            looked = session.look("sync-users", None, change.variables | ASK_CARRIED) if _asks_all(session) else None
            taken = uids_elsewhere(session, looked)
            free = registry
            # guard: a check of new accounts uses no uid that a host knows as somebody's
            if taken.uids.keys() & {user.uid for user in accounts.known(free, new)}:
                registry = accounts.add(site.registry, site.settings, requests, taken.uids, arguments=options_of)
                looked = None
            change = changed(registry, [*taken.describe_passed_over(free, registry), *taken.notes])
        people = accounts.known(registry, [request.name for request in requests])
        if post is None:
            return perform(session, change, looked)
        found = welcomes(session, people, new, post, mail, asked=send is True)
        if mail.preview:
            return _preview(session, found, post, mail)
        return _perform(session, change, people, found, post, looked)


def _title(new: int, registered: int, site: str) -> str:
    if not registered:
        return f"Add {counted(new, 'account')} to {site}"
    there = "that is registered already" if registered == 1 else "that are registered already"
    if not new:
        return f"Bring {counted(registered, 'account')} {there} to all hosts of {site}"
    return f"Add {counted(new, 'account')} to {site}, and bring {registered} {there} to all hosts"


def _asks_all(session: Session) -> bool:
    """Whether a look at all that is concerned answers, too, which uids are taken."""
    storage = [host.name for host in session.site.inventory.group("storage")]
    return session.check and bool(storage) and set(storage) <= set(session.named("storage"))


def _preview(session: Session, found: Welcomes, post: Post, mail: MailOptions) -> int:
    """Print every mail that would be sent. Returns the exit code."""
    letters = list(found.letters.values())
    if not session.options.json:
        show_letters(letters, post.renderer)
    if mail.directory is not None:
        post.write_previews(letters)
    stuck = [entry.document() for entry in found.stuck]
    return finish(session, ExitCode.DONE, {**preview_document(letters, post.renderer), "stuck": stuck})


def _perform(
    session: Session, change: Change, people: Sequence[User], found: Welcomes, post: Post, looked: RunResult | None
) -> int:
    """What `perform` does, and then mail those who have their account. Returns the exit code."""
    builder = PlanBuilder(change.plan.title, steps=list(change.plan.steps), warnings=list(change.plan.warnings))
    plan_letters(builder, list(found.letters.values()))
    if found.silent:
        builder.warn(f"not mailed, because they have no address (--email): {', '.join(found.silent)}")
    for entry in found.stuck:
        builder.warn(entry.summary)
    change = replace(change, plan=builder.build())
    if not session.plan(change.plan):
        return nothing(session)
    session.confirm()  # guard: add-user with a mail asks before it does something
    if not session.check:  # guard: a check owes nobody a mail -> True
        # owed before anybody is registered: a run that is cut off must not forget them
        # guard: who is to be welcomed is owed the mail before they are registered
        post.ledger.owe(list(found.letters.values()))
    session.save(change.registry, forget=change.forget)
    run = looked or session.run("sync-users", None, change.variables, check=session.check)
    mails, good = mail_those_with_account(session, run, people, found.letters, post)
    code = run.code or (ExitCode.DONE if good else ExitCode.ERROR)
    stuck = [entry.document() for entry in found.stuck]
    return report(session, run, {**account_result(run), **mails, "stuck": stuck}, code=code)
