"""Mail the reminders that are due; or let a timer do it every morning."""

from __future__ import annotations

from datetime import date

from gpuadmin.accounts.requests import known
from gpuadmin.actions.shared.mails import Post, perform_mail, plan_letters
from gpuadmin.common.text import counted
from gpuadmin.config.load import find_site, load_settings
from gpuadmin.console import echo
from gpuadmin.errors import ConfigError
from gpuadmin.mail import timer
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
        nodes = [host.name for host in session.site.inventory.group("gpu")]
        notices = plan_notices(
            registry.registry, settings, date.today(), post.ledger, again=mail.again, nodes=nodes
        )  # fmt: skip
        builder = PlanBuilder(f"Reminders that are due on {settings.name}")
        plan_letters(builder, notices.letters)
        for warning in notices.warnings:
            builder.warn(warning)
        plan = builder.build(question=f"Send {counted(len(notices.letters), 'mail')}?")
        return perform_mail(session, plan, notices.letters, post, mail, notices.document())


def notify_timer(options: Options, *, install: bool) -> int:
    """Install the timer that runs notify every morning, or remove it. Returns the exit code."""
    return change_timer(options, timer.notify_timer(find_site(options.site)), install=install)


def change_timer(options: Options, units: timer.Timer, *, install: bool) -> int:
    """Install these units, for a verb that mails, or remove them. Returns the exit code."""
    if not install:
        found = True if options.check else timer.remove(units)
        echo(f"{units.name}: {'would be removed' if options.check else 'removed' if found else 'is not installed'}")
        return 0
    mail = load_settings(find_site(options.site)).mail
    if mail is None or (mail.user is not None and mail.password_file is None):
        what = "mail" if mail is None else "mail.password_file"
        raise ConfigError(
            f"gpuadmin.yml: {what}: is missing", hint="write it there: a timer has no environment, and nobody to ask"
        )
    for name, text in units.files.items():
        echo(f"{timer.directory() / name}\n{text}" if options.check else str(timer.directory() / name))
    if not options.check:
        timer.install(units)
        echo(f"Started: systemctl --user list-timers {units.name}.timer")
        echo("So that it runs while you are not logged in: loginctl enable-linger")
    return 0
