"""Show the backups there are, and whose homes are in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpuadmin.actions.shared.accounts import require_known_name
from gpuadmin.answers import Answers
from gpuadmin.common.text import size_words
from gpuadmin.config.schema import Settings
from gpuadmin.display import join_lines, make_console, make_table
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.semester.report import until
from gpuadmin.session import opened

#: As what the queue's accounting is in a backup, beside the homes.
QUEUE = "_slurm"


def list_backups(options: Options, user: str | None) -> int:
    """Show all backups, or those that have somebody's home. Returns the exit code."""
    with opened("list-backups", options, changes=False) as session:
        asked = session.named("storage", "backup") or session.storage()
        builder = PlanBuilder("List backups")
        builder.add_all(asked, ["see which backups there are"])
        session.planned(builder.build())
        run = session.run("list-backups", None, {}, check=True)
        result = rows(run, user, session.site.settings, asked)
        if user not in (None, QUEUE) and not result["backups"] and not result["unknown"]:
            require_known_name(session.site, str(user).partition(".")[0])  # what a restore made is NAME.restored-…
        return report(session, run, result, show=lambda: _show(result, user))


def rows(run: RunResult, user: str | None, settings: Settings, asked: Sequence[str]) -> dict[str, Any]:
    """Given the hosts' answers, return the backups, newest first; with `user` only those that have their home.

    `unknown`: hosts that were asked and did not report which they have, and why.
    """
    found = []
    answers = Answers.of(run.hosts, asked, "facts")
    for host, answer in answers.known.items():
        for backup in answer.get("backups", ()):
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
                        "uncopied": {
                            host: why
                            for host, lacking in backup.get("uncopied", {}).items()
                            if (why := {name: lacking[name] for name in lacking if user in (None, name)})
                        },
                    }
                )
    found.sort(key=lambda row: (str(row["name"]), str(row["host"])), reverse=True)
    return {"backups": found, "unknown": dict(answers.unknown)}


def _show(result: dict[str, Any], user: str | None) -> None:
    console = make_console(json=False)
    unknown = [f"{host}: which backups it has is not known: {reason}" for host, reason in result["unknown"].items()]
    if unknown and not result["backups"]:
        console.print(join_lines(unknown))
        return
    if not result["backups"]:
        console.print(f"No backup of {user}." if user else "There is no backup yet: gpuadmin backup")
        return
    numbers = ("Homes", "Verified", "Files", "Size")
    queue = any(QUEUE in row["homes"] for row in result["backups"])
    table = make_table("Backup", "Host", *numbers, *(["Queue"] if queue else []), "Until", right=numbers)
    table.columns[0].no_wrap = True  # --from takes the whole name: one that is cut short cannot be copied
    for row in result["backups"]:
        homes, copy = [home for name, home in row["homes"].items() if name != QUEUE], row["homes"].get(QUEUE)
        saved = "–" if copy is None else "verified" if copy["verified"] else "yes"
        table.add_row(
            row["name"],
            row["host"],
            str(len(homes)),
            str(sum(1 for home in homes if home["verified"])),
            str(sum(home["files"] for home in homes)),
            size_words(sum(home["bytes"] for home in homes)),
            *([saved] if queue else []),
            row["until"] or "newer ones come",
        )
    console.print(table)
    for row in result["backups"]:
        for host, lacking in row["uncopied"].items():
            for name, why in lacking.items():
                console.print(f"{row['name']}: {name} has no second copy on {host}: {why}")
    for line in unknown:
        console.print(line)
