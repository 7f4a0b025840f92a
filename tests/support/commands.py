"""The commands of the command line, one after the other."""

from __future__ import annotations

import click


def all_commands(group: click.Command, path: str) -> list[tuple[str, click.Command]]:
    found = [(path, group)]
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            below = group.get_command(context, name)
            assert below is not None
            found += all_commands(below, f"{path} {name}")
    return found
