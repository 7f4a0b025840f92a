"""The reference of the command line, from click."""

from __future__ import annotations

from gpuadmin.cli import VERBS, cli
from gpuadmin.cli.man import commands


def reference() -> str:
    """The reference of the command line, as Markdown."""
    lines = ["# Reference of the command line", "", "Made from `--help`: `make docs`.", ""]
    for verb in VERBS:
        lines.append(f"- [gpuadmin {verb}](#gpuadmin-{verb}): {VERBS[verb]}")
    for path, command, context in commands(cli, "gpuadmin"):
        level = "#" * min(2 + max(path.count(" ") - 1, 0), 4)
        body = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        lines += ["", f"{level} {path}", "```", body, "```"]
    return "\n".join(lines) + "\n"
