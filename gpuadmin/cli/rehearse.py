"""gpuadmin rehearse"""

from __future__ import annotations

import click

from gpuadmin.cli import VERBS
from gpuadmin.cli._options import site_option


@click.command("rehearse", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("verb")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--twin-only", is_flag=True, help="Stop after the twin; nothing is done on the real hosts.")
@site_option
@click.pass_context
def command(ctx: click.Context, verb: str, arguments: tuple[str, ...], twin_only: bool, site: str | None) -> int:
    """Run a verb on a twin of the site first, and then on the real hosts.

    The twin is a lab of light hosts (needs root): the site's hosts by name and group, its people with their uids, and
    none of their files, keys or addresses. Mails become files there. Then the verb runs for the real hosts, and asks as
    always; a plan that is not the rehearsed one is refused. Options for rehearse come before VERB.

    \b
    gpuadmin rehearse remove-user minji
    gpuadmin rehearse --twin-only semester-reset
    """
    from gpuadmin.actions.rehearse import rehearse

    group, words = ctx.find_root().command, {}
    if isinstance(group, click.Group) and (rehearsed := group.get_command(ctx, verb)):
        # a mistake in the verb's words is reported now, and not after the twin was made
        words = rehearsed.make_context(verb, [*arguments], parent=ctx.parent).params
    return rehearse(site, verb, arguments, words, twin_only=twin_only, every=VERBS)
