"""The verbs around it: rehearsals, past runs, and gpuadmin itself."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gpuadmin.cli import VERBS, cli
from gpuadmin.cli._complete import run_ids
from gpuadmin.cli._options import json_option, parse_words, site_option
from gpuadmin.console import echo_document


@click.command("rehearse", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("verb")
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option("--twin-only", is_flag=True, help="Stop after the twin; nothing is done on the real hosts.")
@site_option
@click.pass_context
def rehearse(ctx: click.Context, verb: str, arguments: tuple[str, ...], twin_only: bool, site: str | None) -> int:
    """Run a verb on a twin of the site first, and then on the real hosts.

    The twin is a lab of light hosts (needs root): the site's hosts by name and group, its people with their uids, and
    none of their files, keys or addresses. Mails become files there. Then the verb runs for the real hosts, and asks as
    always; a plan that is not the rehearsed one is refused. Options for rehearse come before VERB.

    \b
    gpuadmin rehearse remove-user minji
    gpuadmin rehearse --twin-only lock-user minji
    """
    from gpuadmin.actions.rehearse import rehearse

    words = parse_words(ctx, verb, arguments)  # a mistake in them is reported before the twin is made
    return rehearse(site, verb, arguments, words, twin_only=twin_only, every=VERBS)


@click.command("runs")
@click.argument("run", required=False, shell_complete=run_ids())
@click.option("--log", is_flag=True, help="Show the whole output of Ansible.")
@click.option("--all", "every", is_flag=True, help="List all that are kept, and not the newest hundred.")
@click.option("--dismiss", is_flag=True, help="Drop what RUN left undone: status no longer lists it.")
@site_option
@json_option
def runs(run: str | None, log: bool, every: bool, dismiss: bool, site: str | None, as_json: bool) -> int:
    """List past runs, newest first, or show one: who, when, what was planned and what came of it.

    RUN is an id, the beginning of one, or its last four characters. Where a site has several admins, these are the runs
    from all of their machines, by way of the storage host.
    """
    from gpuadmin.actions import runs

    if run is None and (log or dismiss):
        raise click.UsageError(f"{'--log' if log else '--dismiss'} needs the id of a run")
    if log and dismiss:
        raise click.UsageError("--log shows a run, --dismiss drops what it left undone: give one of them")
    if dismiss and run is not None:
        return runs.dismiss(site, run, as_json=as_json)
    return runs.runs(site, run, log=log, every=every, as_json=as_json)


@click.command("schema")
@click.argument("file", type=click.Choice(["gpuadmin.yml", "users.yml"]), default="gpuadmin.yml")
@click.option("--reference", is_flag=True, help="Explain every field of both files, as Markdown.")
@json_option
def schema(file: str, reference: bool, as_json: bool) -> int:
    """Print the JSON Schema of gpuadmin.yml or users.yml, for editors; or explain every field."""
    from gpuadmin.actions.schema import schema

    return schema(file, reference=reference, as_json=as_json)


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def completion(shell: str, as_json: bool) -> int:
    """Print the completion script of a shell.

    \b
    bash:  gpuadmin completion bash > ~/.local/share/bash-completion/completions/gpuadmin
    zsh:   gpuadmin completion zsh  > "${fpath[1]}/_gpuadmin"
    fish:  gpuadmin completion fish > ~/.config/fish/completions/gpuadmin.fish

    Where that directory is missing, make it first: mkdir -p DIRECTORY
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(cli, {}, "gpuadmin", "_GPUADMIN_COMPLETE").source()
    if as_json:
        from gpuadmin.report import local_document

        script = local_document("completion", {"shell": shell, "script": script})
    echo_document(script)
    return 0


@click.command("man")
@json_option
def man(as_json: bool) -> int:
    """Print the man page, with all verbs and their options.

    \b
    gpuadmin man > ~/.local/share/man/man1/gpuadmin.1
    """
    from gpuadmin.cli._manual import manual

    text = manual()
    if as_json:
        from gpuadmin.report import local_document

        text = local_document("man", {"page": text})
    echo_document(text)
    return 0
