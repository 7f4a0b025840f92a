"""import-applications --apply: accounts by what add-user does, and then the mails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gpuadmin.cli._applications import Prepared, lists_document, prepare
from gpuadmin.cli._mail import MailOptions, Post, mails_document, perform_mail, plan_letters
from gpuadmin.console import say
from gpuadmin.words import counted

if TYPE_CHECKING:
    from gpuadmin.applications.matching import Lists
    from gpuadmin.cli._verb import Verb
    from gpuadmin.config.schema import User
    from gpuadmin.run import RunResult


def apply(verb: Verb, lists: Lists, mail: MailOptions, *, tell_unknown: bool) -> int:
    """Add those who are ready, by what add-user does, and mail them and the incomplete ones. Returns the exit code."""
    from gpuadmin.cli._accounts import converge
    from gpuadmin.cli._verb import perform
    from gpuadmin.plan import PlanBuilder

    settings = verb.site.settings
    post = Post.of(verb, mail)
    prepared = prepare(verb, lists, post, mail, tell_unknown=tell_unknown)
    result = {**lists_document(lists), "stuck": [entry.document() for entry in prepared.stuck]}
    new = len(prepared.new)
    title = f"Applications for {settings.name}: {counted(new, 'new account')}"
    work = converge(verb, prepared.registry, prepared.people, title=title)
    steps = list(work.plan.steps) if prepared.people else []
    builder = PlanBuilder(title, steps=steps, warnings=list(work.plan.warnings))
    plan_letters(builder, prepared.letters)
    for entry in lists.unknown:
        builder.warn(f"{entry.email or f'line {entry.line}'}: {entry.reason}")
    for stuck in prepared.stuck:
        builder.warn(stuck.words)
    plan = builder.build()
    if not prepared.people:
        return perform_mail(verb, plan, prepared.asks, post, mail, result)

    def write() -> None:
        # owed before anybody is registered: whoever is has an account by this verb, and will be mailed
        post.ledger.owe(list(prepared.welcomes.values()))
        work.write()

    after = _After(verb, prepared, post)

    def outcome(run: RunResult) -> dict[str, Any]:
        return {**work.result(run), **after(run), **result}

    return perform(verb, replace(work, plan=plan, write=write, result=outcome, exit_code=after.exit_code))


class _After:
    """What follows on the accounts: the mails."""

    def __init__(self, verb: Verb, prepared: Prepared, post: Post) -> None:
        self._verb, self._prepared, self._post = verb, prepared, post
        self._good = True

    def __call__(self, run: RunResult) -> dict[str, Any]:
        """Mail those who have an account now, and the incomplete ones. Returns what became of the mails."""
        from gpuadmin.console import make_console
        from gpuadmin.errors import GpuadminError

        if self._post.check or run.interrupted:
            return mails_document(())
        people = self._prepared.people
        done = with_account(run, people)
        waiting = [user.name for user in people if user.name not in done]
        if waiting:
            say(f"Not mailed before they have a home and an account: {', '.join(waiting)}", err=True)
        letters = [*(self._prepared.welcomes[name] for name in done), *self._prepared.asks]
        try:
            deliveries = self._post.send(letters, make_console(json=self._verb.options.json))
        except GpuadminError as error:
            self._good = False
            error.show()
            return {**mails_document(()), "not_mailed": [user.name for user in people], "error": error.message}
        self._good = all(delivery.good for delivery in deliveries)
        return {**mails_document(deliveries), "not_mailed": waiting}

    def exit_code(self, run: RunResult) -> int:
        """The accounts' own, or an error where a mail was not sent."""
        from gpuadmin.errors import ExitCode
        from gpuadmin.report import exit_code

        return exit_code(run) or (ExitCode.DONE if self._good else ExitCode.ERROR)


def with_account(run: RunResult, people: Sequence[User]) -> list[str]:
    """The names of those who have a home and can log in to at least one node."""

    def fine(kind: str, name: str, bad: Sequence[str]) -> bool:
        found = [(host.reports.get(kind) or {}).get(name) for host in run.hosts.values()]
        return any(entry is not None and entry["status"] not in bad for entry in found)

    return [
        user.name
        for user in people
        if fine("homes", user.name, ("conflict",)) and fine("users", user.name, ("conflict", "unknown"))
    ]
