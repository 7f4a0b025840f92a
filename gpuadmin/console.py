"""Plain lines, documents and questions. What has a layout is printed by `gpuadmin.display`.

Everything that is printed or asked goes through one of the two (a contract test says so), and unprintable characters
become escapes, because people on nodes choose the names of files, processes and mounts.
"""

from __future__ import annotations

import click

from gpuadmin.text import visible


def echo(text: str, *, err: bool = False, colour: str | None = None, end: bool = True) -> None:
    """Print text without a layout, on standard output or standard error. `colour`: of the part before the colon."""
    escaped = visible(text)
    if colour is not None:
        head, colon, rest = escaped.partition(":")
        escaped = f"{click.style(head, fg=colour)}{colon}{rest}"
    click.echo(escaped, err=err, nl=end)


def echo_document(document: str, *, end: bool = True) -> None:
    """Print text for a program on standard output as it is: JSON as `jsontext.json_text` made it, a script, a page."""
    click.echo(document, nl=end)


def agree(question: str) -> bool:
    """Ask a question on standard error; no answer means no."""
    return click.confirm(visible(question), default=False, err=True)


def ask(question: str, *, hidden: bool = False, default: str | None = None) -> str:
    """Ask for a word on standard error. `hidden`: it is not shown while it is typed."""
    answer: str = click.prompt(visible(question), hide_input=hidden, default=default, show_default=False, err=True)
    return answer
