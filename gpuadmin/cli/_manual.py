"""The man page, and all verbs with what is below them."""

from __future__ import annotations

from collections.abc import Iterator

import click

from gpuadmin.cli import cli
from gpuadmin.errors import ExitCode

WIDTH = 100


def _make_help_context(command: click.Command, path: str, parent: click.Context | None) -> click.Context:
    """The context in which a command's help is what a person sees."""
    context = click.Context(
        command, info_name=path.rpartition(" ")[2], parent=parent, terminal_width=WIDTH, max_content_width=WIDTH
    )
    context.help_option_names = ["-h", "--help"]
    return context


def commands(
    command: click.Command, path: str, parent: click.Context | None = None
) -> Iterator[tuple[str, click.Command, click.Context]]:
    """Yield `(words that call it, command, context)` of a command and of all below it."""
    context = _make_help_context(command, path, parent)
    yield path, command, context
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, f"{path} {name}", context)


def _escaped(text: str) -> str:
    """Given plain text, return it as roff: no line is a request, and hyphens stay hyphens."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\n".join(f"\\&{line}" if line[:1] in (".", "'") else line for line in text.splitlines())


def _paragraphs(text: str) -> Iterator[str]:
    """Given click's help text, yield roff: one paragraph each; what comes after ``\\b`` keeps its lines."""
    for block in text.replace("\f", "").split("\n\n"):
        kept = block.lstrip().startswith("\b")
        body = _escaped(block.replace("\b", "", 1).strip("\n ") if kept else " ".join(block.split()))
        yield f".PP\n.nf\n{body}\n.fi" if kept else f".PP\n{body}"


def manual() -> str:
    """gpuadmin(1): all verbs with their arguments and options, as roff."""
    lines = [
        '.\\" Made from --help: gpuadmin man',
        '.TH GPUADMIN 1 "" gpuadmin "User Commands"',
        ".SH NAME",
        "gpuadmin \\- " + _escaped((cli.help or "").strip().partition("\n")[0].rstrip(".")),
        ".SH SYNOPSIS",
        ".B gpuadmin",
        ".I VERB",
        "[\\fIOPTION\\fR ...] [\\fIARGUMENT\\fR ...]",
        ".SH VERBS",
    ]
    for path, command, context in commands(cli, "gpuadmin"):
        words = path.removeprefix("gpuadmin").strip()
        if not words:
            continue
        usage = " ".join(command.collect_usage_pieces(context))
        lines += [f'.SS "{_escaped(words)} {_escaped(usage)}"', *_paragraphs((command.help or "").strip())]
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            if record and record[1] and record[0] != "-h, --help":
                lines += [".TP", f"\\fB{_escaped(record[0])}\\fR", _escaped(record[1])]
    lines.append(".SH EXIT STATUS")
    for code in ExitCode:
        lines += [".TP", f"\\fB{int(code)}\\fR", code.name.lower().replace("_", " ")]
    lines += [
        ".SH ENVIRONMENT",
        ".TP",
        "\\fBGPUADMIN_SITE\\fR",
        "the site directory, where \\-\\-site does not name one",
    ]
    return "\n".join(lines)
