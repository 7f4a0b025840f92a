"""gpuadmin list-backups"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from gpuadmin.cli._options import Options, run_options

if TYPE_CHECKING:
    from gpuadmin.config.schema import Settings
    from gpuadmin.run import RunResult


@click.command("list-backups")
@click.argument("user", metavar="USER", required=False)
@run_options(changes=False)
@click.pass_context
def command(ctx: click.Context, user: str | None, options: Options) -> None:
    """Show the backups there are, whose homes are in them, and until when they stay. Changes nothing."""
    from gpuadmin.cli._verb import Work, opened, perform, storage_of
    from gpuadmin.plan import PlanBuilder

    with opened("list-backups", options, changes=False) as verb:
        builder = PlanBuilder("List backups")
        asked = verb.named("storage", "backup") or storage_of(verb)
        builder.add_all(asked, ["look which backups there are"])
        result: dict[str, Any] = {}

        def collect(run: RunResult) -> dict[str, Any]:
            result.update(rows(run, user, verb.site.settings, asked))
            return result

        work = Work(plan=builder.build(), result=collect, check_only=True, show_table=False)
        code = perform(verb, work)
        if not options.json:
            _show(result, user)
        ctx.exit(code)


def rows(run: RunResult, user: str | None, settings: Settings, asked: Sequence[str]) -> dict[str, Any]:
    """Given what the hosts said, return the backups, newest first; with `user` only those that have their home.

    `unknown`: hosts that were asked and did not say which they have, and why.
    """
    from gpuadmin.answers import Answers
    from gpuadmin.semester.report import until

    found = []
    answers = Answers.of(run.hosts, asked, "facts")
    for host, said in answers.known.items():
        for backup in said["backups"]:
            homes = {name: home for name, home in backup["homes"].items() if user in (None, name)}
            if homes or user is None:
                ordinary = backup["name"].endswith("-daily")
                found.append(
                    {
                        "host": host,
                        "name": backup["name"],
                        "created": backup["created"],
                        "until": None if ordinary else until(backup["created"], settings.backups.days),
                        "homes": {
                            name: {key: home[key] for key in ("uid", "files", "bytes", "checksum", "verified")}
                            for name, home in homes.items()
                        },
                        "problems": backup["problems"],
                        "copies": backup["copies"],
                    }
                )
    found.sort(key=lambda row: (str(row["name"]), str(row["host"])), reverse=True)
    return {"backups": found, "unknown": dict(answers.unknown)}


def _show(result: dict[str, Any], user: str | None) -> None:
    from rich import box
    from rich.table import Table

    from gpuadmin.console import lines_of, make_console
    from gpuadmin.words import size_words

    console = make_console(json=False)
    unknown = [f"{host}: which backups it has is not known: {reason}" for host, reason in result["unknown"].items()]
    if unknown and not result["backups"]:
        console.print(lines_of(unknown))
        return
    if not result["backups"]:
        console.print(f"No backup of {user}." if user else "There is no backup yet: gpuadmin backup")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Backup", "Host", "Homes", "Verified", "Files", "Size", "Until"):
        table.add_column(title, justify="right" if title in ("Homes", "Verified", "Files", "Size") else "left")
    for row in result["backups"]:
        homes = row["homes"].values()
        table.add_row(
            row["name"],
            row["host"],
            str(len(homes)),
            str(sum(1 for home in homes if home["verified"])),
            str(sum(home["files"] for home in homes)),
            size_words(sum(home["bytes"] for home in homes)),
            row["until"] or "newer ones come",
        )
    console.print(table)
    for line in unknown:
        console.print(line)
