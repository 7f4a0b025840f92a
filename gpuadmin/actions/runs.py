"""List past runs, show one, or dismiss what is left of it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

from gpuadmin import records
from gpuadmin.config.find import find_runs_directory, find_site
from gpuadmin.config.load import load_settings, load_site
from gpuadmin.console import echo, echo_document
from gpuadmin.display import make_console, make_table, show_hosts, show_plan
from gpuadmin.errors import ConfigError, ExitCode, RefusedError
from gpuadmin.pending import pending
from gpuadmin.plan import Plan, Step
from gpuadmin.records import goes_on, history, moment, show_run
from gpuadmin.report import local_document
from gpuadmin.results import HostResult
from gpuadmin.site_history import bring_up_to_date, describe_person, is_shared

_NEWEST = 100  # as many as a table shows without --all


def runs(site: str | None, run: str | None, *, log: bool, every: bool = False, as_json: bool) -> int:
    """Show runs, newest first, or one of them, or its log. `every`: not the newest alone. Returns the exit code."""
    where = find_site(site)
    directory = find_runs_directory(where)
    _bring_up_to_date(where)
    if run is None:
        most = None if every or as_json else _NEWEST
        found = [_describe_unfinished_run(one, directory) for one, _ in islice(history(directory), most)]
        if as_json:
            echo_document(local_document("runs", {"runs": found}, site=where))
        else:
            _show_all(found)
            if len(found) == most:
                echo(f"These are the newest {most}. gpuadmin runs --all shows all that are kept.", err=True)
        return 0
    record, result, text = show_run(directory, run)
    if as_json:
        echo_document(local_document("runs", {"run": record, "result": result}, site=where))
    elif log:
        echo(text, end=False)
    else:
        _show_run(record, result)
    return 0


def dismiss(site: str | None, run: str, *, as_json: bool) -> int:
    """Record that nobody will do what a run left undone: `status` stops naming it. Returns the exit code.

    Raises ConfigError if the run left nothing undone, and RefusedError while it goes on.
    """
    where = find_site(site)
    directory = find_runs_directory(where)
    _bring_up_to_date(where)
    identity = str(show_run(directory, run)[0]["id"])
    if goes_on(directory / identity):  # guard: a run that goes on is not dismissed
        raise RefusedError(f"{identity} is still going on", hint="dismiss it when it has ended")
    if identity not in {one.run for one in pending(history(directory))}:
        raise ConfigError(f"nothing of {identity} is pending", hint="gpuadmin status names what is pending, by run")
    entry = records.dismiss(directory, identity)
    _bring_up_to_date(where)  # others see it, too
    if as_json:
        echo_document(local_document("runs", {"run": identity, "dismissed": entry}, site=where))
    else:
        make_console(json=False).print(f"{identity}: dismissed. What it left undone stays undone.")
    return 0


def _bring_up_to_date(site: Path) -> None:
    """A site whose files are wrong shows its own records all the same; reading all of a site takes long."""
    with suppress(ConfigError):
        if is_shared(load_settings(site)):
            bring_up_to_date(load_site(str(site)))


def _describe_unfinished_run(run: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """A run without a result was cut off; or it is still going on."""
    on = run["status"] == "unfinished" and goes_on(directory / str(run["id"]))
    return {**run, "status": "going on" if on else run["status"]}


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, list) else []


def outcome(run: Mapping[str, Any]) -> str:
    """How a run ended, in the words of docs/exit-codes.md; a look is not a check: it really looks."""
    code = run["exit_code"]
    known = code in list(ExitCode)
    words = ExitCode(code).words if known else str(run["status"])
    words += " (check)" if run["check"] and {"--check", "--preview"} & {*run["arguments"]} else ""
    return words + (", dismissed" if run.get("dismissed") else "")


def _show_all(found: Sequence[Mapping[str, Any]]) -> None:
    console = make_console(json=False)
    if not found:
        console.print("No run is recorded yet.")
        return
    table = make_table("Run", "Started", "Who", "Result", fold=True)  # the id says the verb
    table.columns[0].no_wrap = True  # an id that is broken into two lines cannot be copied
    for run in found:
        table.add_row(str(run["id"]), moment(str(run["started"]))[:-3], describe_person(run), outcome(run))
    console.print(table)


def _show_dismissed(record: Mapping[str, Any]) -> None:
    if found := record.get("dismissed"):
        make_console(json=False).print(f"dismissed by {found['who']}, {moment(found['at'])}")


def _show_run(record: Mapping[str, Any], result: Mapping[str, Any] | None) -> None:
    console = make_console(json=False)
    console.print(f"{record['id']}: {describe_person(record)}, {moment(str(record['started']))}")
    console.print(f"gpuadmin {shlex.join(str(argument) for argument in record['arguments'])}")
    plan = record["plan"]
    steps = tuple(Step(step["host"], step["action"]) for step in plan["steps"])
    show_plan(console, Plan(plan["title"], steps, tuple(plan["warnings"])), check=bool(record["check"]))
    if result is None:
        console.print("No result: this run was cut off, or is still going on.")
        _show_dismissed(record)
        return
    show_hosts(
        console,
        {
            name: HostResult(host["status"], host["changed"], host["message"], obstacles=_texts(host.get("obstacles")))
            for name, host in result.get("hosts", {}).items()
        },
        check=bool(record["check"]),
        whole=True,
    )
    answer = result.get("result")
    if isinstance(answer, dict) and answer.get("error"):
        console.print(f"Error: {answer['error']}")
    ended = outcome({**record, **{key: result[key] for key in ("status", "exit_code")}})
    console.print(f"{ended}, exit code {result['exit_code']}, {moment(str(result['ended']))}")
    _show_dismissed(record)
