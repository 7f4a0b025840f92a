"""gpuadmin user-guide"""

from __future__ import annotations

import click

from gpuadmin.cli._options import json_option, page_options, site_option


@click.command("user-guide")
@page_options
@site_option
@json_option
def command(language: str | None, output: str | None, site: str | None, as_json: bool) -> int:
    """Write the guide for your people: your nodes and addresses, an ssh config to paste, paths, dates, whom to ask.

    Without --output it is printed as Markdown. A file of the same name in the site's templates/guide/ takes a
    template's place. `mail.guide` names its address in the welcome mail, `mail.attach_guide` sends it along.

    \b
    gpuadmin user-guide --output public/    # Markdown, and one HTML page, in each of the mails' languages
    gpuadmin user-guide --language ko
    """
    from gpuadmin.actions.user_guide import user_guide

    return user_guide(site, language=language, output=output, as_json=as_json)
