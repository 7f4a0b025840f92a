"""gpuadmin completion"""

from __future__ import annotations

import click

from gpuadmin.console import say_document


@click.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    bash:  gpuadmin completion bash > ~/.local/share/bash-completion/completions/gpuadmin
    zsh:   gpuadmin completion zsh  > "${fpath[1]}/_gpuadmin"
    fish:  gpuadmin completion fish > ~/.config/fish/completions/gpuadmin.fish
    """
    from click.shell_completion import get_completion_class

    from gpuadmin.cli import cli

    kind = get_completion_class(shell)
    assert kind is not None
    say_document(kind(cli, {}, "gpuadmin", "_GPUADMIN_COMPLETE").source())
