"""gpuadmin notify"""

from __future__ import annotations

import click

from gpuadmin.cli._mail import MailOptions, mail_options
from gpuadmin.cli._options import Options, json_option, site_option
from gpuadmin.console import say
from gpuadmin.words import counted


@click.command("notify")
@mail_options
@site_option
@json_option
@click.option("--check", is_flag=True, help="Show who would be mailed; send nothing.")
@click.option("--install-timer", is_flag=True, help="Run this every morning from now on, on this machine, as you.")
@click.option("--remove-timer", is_flag=True, help="No longer.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def command(
    ctx: click.Context,
    mail: MailOptions,
    site: str | None,
    as_json: bool,
    check: bool,
    install_timer: bool,
    remove_timer: bool,
    yes: bool,
) -> None:
    """Mail the reminders that are due: the term ends, or an account does. Run it every day; nobody is mailed twice.

    term.reminders in gpuadmin.yml says how many days before. A day that was missed is made up for: one mail, the most
    urgent. Who stays for the next term (extend-term) gets none.

    \b
    gpuadmin notify --preview             # every mail in full
    gpuadmin notify --install-timer       # from now on, every morning
    """
    from datetime import date

    from gpuadmin.accounts import known
    from gpuadmin.cli._mail import Post, perform_mail, plan_letters
    from gpuadmin.cli._verb import opened
    from gpuadmin.notices import plan_notices
    from gpuadmin.plan import PlanBuilder

    if install_timer and remove_timer:
        raise click.UsageError("--install-timer and --remove-timer: one of the two")
    if install_timer or remove_timer:
        _timer(site, install=install_timer, check=check)
        return
    options = Options(site=site, check=check or mail.preview, yes=yes, json=as_json)
    with opened("notify", options) as verb:
        settings, registry = verb.site.settings, verb.site.registry
        if mail.again:
            known(registry, mail.again)
        post = Post.of(verb, mail)
        notices = plan_notices(registry.registry, settings, date.today(), post.ledger, again=mail.again)
        builder = PlanBuilder(f"Reminders that are due on {settings.name}")
        plan_letters(builder, notices.letters)
        for warning in notices.warnings:
            builder.warn(warning)
        plan = builder.build(question=f"Send {counted(len(notices.letters), 'mail')}?")
        ctx.exit(perform_mail(verb, plan, notices.letters, post, mail, notices.document()))


def _timer(given: str | None, *, install: bool, check: bool) -> None:
    from gpuadmin import timer
    from gpuadmin.config.load import find_site, load_settings
    from gpuadmin.errors import ConfigError

    directory = find_site(given)
    units = timer.notify_timer(directory)
    if not install:
        found = True if check else timer.remove(units)
        say(f"{units.name}: {'would be removed' if check else 'removed' if found else 'is not installed'}")
        return
    mail = load_settings(directory).mail
    if mail is None or (mail.user is not None and mail.password_file is None):
        what = "mail" if mail is None else "mail.password_file"
        raise ConfigError(
            f"gpuadmin.yml: {what}: is missing", hint="a timer has no environment and nobody to ask; write it there"
        )
    for name, text in units.files.items():
        say(f"{timer.directory() / name}\n{text}" if check else str(timer.directory() / name))
    if not check:
        timer.install(units)
        say(f"Started: systemctl --user list-timers {units.name}.timer")
        say("So that it runs while you are not logged in: loginctl enable-linger")
