"""Mail the reminders that are due."""

from __future__ import annotations

from datetime import date

from gpuadmin.accounts.requests import known
from gpuadmin.actions.shared.mails import Post, perform_mail, plan_letters
from gpuadmin.common.text import counted
from gpuadmin.mail.notices import plan_notices
from gpuadmin.options import MailOptions, Options
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened


def notify(options: Options, mail: MailOptions) -> int:
    """Mail the reminders that are due. Returns the exit code."""
    with opened("notify", options, check=mail.preview) as session:
        settings, registry = session.site.settings, session.site.registry
        if mail.again:
            known(registry, mail.again)
        post = Post.of(session, mail)
        nodes = session.site.inventory.group("gpu")
        notices = plan_notices(
            registry.registry, settings, date.today(), post.ledger, again=mail.again, nodes=nodes
        )  # fmt: skip
        builder = PlanBuilder(f"Reminders that are due on {settings.name}")
        plan_letters(builder, notices.letters)
        for warning in notices.warnings:
            builder.warn(warning)
        plan = builder.build(question=f"Send {counted(len(notices.letters), 'mail')}?")
        return perform_mail(session, plan, notices.letters, post, mail, notices.document())
