"""gpuadmin extend-term"""

from __future__ import annotations

import click

from gpuadmin.cli._complete import people
from gpuadmin.cli._options import Options, run_options


@click.command("extend-term")
@click.argument("names", metavar="NAME...", nargs=-1, required=True, shell_complete=people())
@click.option(
    "--until", metavar="DATE", help="Last day of validity, YYYY-MM-DD. [default: the end of the next term, term.next]"
)
@run_options()
@click.pass_context
def command(ctx: click.Context, names: tuple[str, ...], until: str | None, options: Options) -> None:
    """Let people stay for the next term: the reset of the running one leaves them alone.

    users.yml remembers it (`stays`), and their accounts become valid for longer. They get no more reminders.
    """
    from gpuadmin.accounts import known
    from gpuadmin.cli._accounts import converge
    from gpuadmin.cli._verb import opened, perform
    from gpuadmin.config.fields import iso_date
    from gpuadmin.term import current_term, extended

    try:
        day = None if until is None else iso_date(until)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--until") from None
    with opened("extend-term", options) as verb:
        settings = verb.site.settings
        term = current_term(settings)
        people = [extended(user, term, day) for user in known(verb.site.registry, names)]
        registry = verb.site.registry.changed(settings, update=people)
        work = converge(
            verb,
            registry,
            people,
            title=f"Let {', '.join(user.name for user in people)} stay beyond {term.name}",
            describe=lambda user, _: [
                f"{user.name}: stays beyond {term.name}, "
                + (f"valid until {user.expires}" if user.expires else "without an end")
            ],
            homes=False,
        )
        ctx.exit(perform(verb, work))
