"""List past runs, or show one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from gpuadmin.config.find import find_site, runs_of
from gpuadmin.console import echo, echo_document
from gpuadmin.display import make_console, make_table, show_hosts, show_plan
from gpuadmin.jsontext import json_text
from gpuadmin.plan import Plan, Step
from gpuadmin.records import list_runs, show_run
from gpuadmin.results import HostResult


def runs(site: str | None, run: str | None, *, log: bool, as_json: bool) -> int:
    """Show all runs, newest first, or one of them, or its log. Returns the exit code."""
    directory = runs_of(find_site(site))
    if run is None:
        found = list_runs(directory)
        if as_json:
            echo_document(json_text({"runs": found}))
        else:
            _show_all(found)
        return 0
    record, result, text = show_run(directory, run)
    if as_json:
        echo_document(json_text({"run": record, "result": result}))
    elif log:
        echo(text, end=False)
    else:
        _show_one(record, result)
    return 0


def _when(text: str) -> str:
    return f"{datetime.fromisoformat(text).astimezone():%Y-%m-%d %H:%M:%S}"


def _show_all(found: Sequence[Mapping[str, Any]]) -> None:
    console = make_console(json=False)
    if not found:
        console.print("No run is recorded yet.")
        return
    table = make_table("Run", "Started", "Who", "Verb", "Result", fold=True)
    for run in found:
        outcome = str(run["status"]) + (" (check)" if run["check"] else "")
        table.add_row(str(run["id"]), _when(str(run["started"])), str(run["who"]), str(run["verb"]), outcome)
    console.print(table)


def _show_one(record: Mapping[str, Any], result: Mapping[str, Any] | None) -> None:
    console = make_console(json=False)
    console.print(f"{record['id']}: {record['who']}, {_when(str(record['started']))}")
    console.print(f"gpuadmin {shlex.join(str(argument) for argument in record['arguments'])}")
    plan = record["plan"]
    steps = tuple(Step(step["host"], step["action"]) for step in plan["steps"])
    show_plan(console, Plan(plan["title"], steps, tuple(plan["warnings"])), check=bool(record["check"]))
    if result is None:
        console.print("No result: this run was cut off, or is still going on.")
        return
    show_hosts(
        console,
        {
            name: HostResult(host["status"], host["changed"], host["message"])
            for name, host in result.get("hosts", {}).items()
        },
        check=bool(record["check"]),
    )
    outcome = result.get("result")
    if isinstance(outcome, dict) and outcome.get("error"):
        console.print(f"Error: {outcome['error']}")
    console.print(f"{result['status']}, exit code {result['exit_code']}, {_when(str(result['ended']))}")
