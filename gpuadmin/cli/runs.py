"""gpuadmin runs"""

from __future__ import annotations

from datetime import datetime

import click

from gpuadmin.cli._options import json_option, site_option
from gpuadmin.console import say, say_document


@click.command("runs")
@click.argument("run", required=False)
@click.option("--log", is_flag=True, help="Show the whole output of Ansible.")
@site_option
@json_option
def command(run: str | None, log: bool, site: str | None, as_json: bool) -> None:
    """List past runs, newest first, or show one: who, when, what was planned and what came of it."""

    from gpuadmin.config.find import find_site, runs_of
    from gpuadmin.jsontext import json_text
    from gpuadmin.records import list_runs, show_run

    directory = runs_of(find_site(site))
    if run is None:
        if log:
            raise click.UsageError("--log needs the id of a run")
        runs = list_runs(directory)
        if as_json:
            say_document(json_text({"runs": runs}))
        else:
            _show_all(runs)
        return
    record, result, text = show_run(directory, run)
    if as_json:
        say_document(json_text({"run": record, "result": result}))
    elif log:
        say(text, end=False)
    else:
        _show_one(record, result)


def _when(text: str) -> str:
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"


def _show_all(runs: list[dict[str, object]]) -> None:
    from rich import box
    from rich.table import Table

    from gpuadmin.console import make_console

    console = make_console(json=False)
    if not runs:
        console.print("No run is recorded yet.")
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in ("Run", "Started", "Who", "Verb", "Result"):
        table.add_column(title, overflow="fold")
    for run in runs:
        outcome = str(run["status"]) + (" (check)" if run["check"] else "")
        table.add_row(str(run["id"]), _when(str(run["started"])), str(run["who"]), str(run["verb"]), outcome)
    console.print(table)


def _show_one(record: dict[str, object], result: dict[str, object] | None) -> None:
    from gpuadmin.console import make_console, show_plan
    from gpuadmin.events import HostResult
    from gpuadmin.plan import Plan, Step
    from gpuadmin.report import show_hosts

    console = make_console(json=False)
    arguments = record["arguments"]
    assert isinstance(arguments, list)
    import shlex

    console.print(f"{record['id']}: {record['who']}, {_when(str(record['started']))}")
    console.print(f"gpuadmin {shlex.join(str(argument) for argument in arguments)}")
    plan = record["plan"]
    assert isinstance(plan, dict)
    steps = tuple(Step(step["host"], step["action"]) for step in plan["steps"])
    show_plan(console, Plan(plan["title"], steps, tuple(plan["warnings"])), check=bool(record["check"]))
    if result is None:
        console.print("No result: this run was cut off, or is still going on.")
        return
    hosts = result.get("hosts", {})
    assert isinstance(hosts, dict)
    show_hosts(
        console,
        {name: HostResult(host["status"], host["changed"], host["message"]) for name, host in hosts.items()},
        check=bool(record["check"]),
    )
    console.print(f"{result['status']}, exit code {result['exit_code']}, {_when(str(result['ended']))}")
