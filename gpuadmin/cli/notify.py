"""gpuadmin notify"""

from __future__ import annotations

import click

from gpuadmin.cli._mail import MailOptions, mail_options
from gpuadmin.cli._options import Options, json_option, site_option


@click.command("notify")
@mail_options
@site_option
@json_option
@click.option("--check", is_flag=True, help="Show who would be mailed; send nothing.")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@click.pass_context
def command(ctx: click.Context, mail: MailOptions, site: str | None, as_json: bool, check: bool, yes: bool) -> None:
    """Mail the reminders that are due: the term ends, or an account does. Run it every day; nobody is mailed twice.

    term.reminders in gpuadmin.yml says how many days before. A day that was missed is made up for: one mail, the most
    urgent. Who stays for the next term (extend-term) gets none.

    \b
    gpuadmin notify --preview             # every mail in full
    gpuadmin notify --yes                 # for a timer: docs/admin-guide.md
    """
    from datetime import date

    from gpuadmin.cli._mail import Post, perform_mail, plan_letters
    from gpuadmin.cli._verb import opened
    from gpuadmin.notices import plan_notices
    from gpuadmin.plan import PlanBuilder

    options = Options(site=site, check=check or mail.preview, yes=yes, json=as_json)
    with opened("notify", options) as verb:
        settings, registry = verb.site.settings, verb.site.registry
        if mail.again:
            from gpuadmin.accounts import known

            known(registry, mail.again)
        post = Post.of(verb, mail)
        notices = plan_notices(registry.registry, settings, date.today(), post.ledger, again=mail.again)
        builder = PlanBuilder(f"Reminders that are due on {settings.name}")
        plan_letters(builder, notices.letters)
        for warning in notices.warnings:
            builder.warn(warning)
        plan = builder.build(question=f"Send {len(notices.letters)} mails?")
        ctx.exit(perform_mail(verb, plan, notices.letters, post, mail, notices.document()))
