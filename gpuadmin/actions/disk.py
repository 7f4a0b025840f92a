"""Show whose files fill the disks, as the hosts measured it last."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from gpuadmin.actions.shared.accounts import require_known_name
from gpuadmin.actions.shared.now import age, plain_table
from gpuadmin.actions.shared.prometheus import find_monitor
from gpuadmin.answers import Answers
from gpuadmin.common.text import size_words
from gpuadmin.display import make_console
from gpuadmin.options import Options
from gpuadmin.outcome import report
from gpuadmin.plan import PlanBuilder
from gpuadmin.session import opened
from gpuadmin.terminal import SafeConsole

MOST_DIRECTORIES = 20


class Row(NamedTuple):
    """What one person has in one place of one host; the largest come first when sorted backwards."""

    bytes: int
    inodes: int
    person: str
    place: str
    host: str
    when: float
    partial: bool


def show_disk(options: Options, name: str | None) -> int:
    """Ask the hosts once. `name`: only that person, with their largest directories. Returns the exit code."""
    with opened("disk", options, changes=False) as session:
        find_monitor(session.site, instead=None)  # without one no host measures: say it once, not for each of them
        asked = session.some("storage", "gpu")
        builder = PlanBuilder("Show whose files fill the disks")
        builder.add_all(asked, ["read what was measured"])
        session.planned(builder.build())
        run = session.run("disk", None, {"gpuadmin_disk_names": [name] if name else []}, check=True, quiet=True)
        answers = Answers.of(run.hosts, asked, "disk")
        hosts = {host: answers.known[host] for host in asked if host in answers.known}
        if name is not None and not answers.unknown and not any(rows(hosts)):
            require_known_name(session.site, name)
        return report(
            session,
            run,
            {"hosts": hosts, "unknown": dict(answers.unknown)},
            show=lambda: show(hosts, answers.unknown, name),
            unknown=[answers],
        )


def show(hosts: Mapping[str, Mapping[str, Any]], unknown: Mapping[str, str], name: str | None) -> None:
    """Print a row for each person, place and host, the largest first; of one person their largest directories, too."""
    console = make_console(json=False)
    found = sorted(rows(hosts), reverse=True)
    if found:
        titles = ("Person", "Place", "Host", "Size", "Files", "Measured")
        console.print(plain_table(titles, [_cells(row) for row in found], right=("Size", "Files")))
    elif hosts:
        whose = "of anybody" if name is None else f"of {name}"
        console.print(f"No files {whose} were found, or nothing was measured yet: hosts do it once a day.")
    if name is not None:
        _show_directories(console, hosts, name)
    if any(row.partial for row in found):
        console.print("+: more than that; counting stopped before the end.")
    for host, why in unknown.items():
        console.print(f"{host}: unknown: {why}")


def rows(hosts: Mapping[str, Mapping[str, Any]]) -> Iterable[Row]:
    for host, answer in hosts.items():
        for person, places in answer["people"].items():
            for place, held in places.items():
                yield Row(held["bytes"], held["inodes"], person, place, host, held["when"], held["partial"])


def _cells(row: Row) -> tuple[str, ...]:
    more = "+" if row.partial else ""
    ago = f"{age(max(time.time() - row.when, 0))} ago"
    return row.person, row.place, row.host, size_words(row.bytes) + more, f"{row.inodes:,}{more}", ago


def _show_directories(console: SafeConsole, hosts: Mapping[str, Mapping[str, Any]], name: str) -> None:
    found = [
        (one["bytes"], one["inodes"], host, one["path"])
        for host, answer in hosts.items()
        for held in answer["people"].get(name, {}).values()
        for one in held["largest"]
    ]
    if found:
        largest = sorted(found, reverse=True)[:MOST_DIRECTORIES]
        cells = [(size_words(size), f"{inodes:,}", host, path) for size, inodes, host, path in largest]
        console.print(plain_table(("Size", "Files", "Host", "Largest directories"), cells, right=("Size", "Files")))
