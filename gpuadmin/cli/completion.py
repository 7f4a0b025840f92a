"""gpuadmin completion"""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from gpuadmin.cli import cli
from gpuadmin.cli._options import json_option
from gpuadmin.console import echo_document


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@json_option
def command(shell: str, as_json: bool) -> int:
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
