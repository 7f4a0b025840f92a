"""How a verb ends: its record, the table for people, what to do next, the document for programs, the exit code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from gpuadmin.answers import Answers, code_of
from gpuadmin.console import echo, echo_document
from gpuadmin.display import show_hosts
from gpuadmin.errors import ExitCode
from gpuadmin.jsontext import json_text
from gpuadmin.results import RunResult
from gpuadmin.session import Session
from gpuadmin.text import counted


def finish(session: Session, code: int, result: Mapping[str, Any], run: RunResult | None = None) -> int:
    """End a verb that has shown what people see of it, and of its run. Returns the exit code."""
    return _say(session, session.settle(code, result, run), code)


def report(
    session: Session,
    run: RunResult,
    result: Mapping[str, Any] | None = None,
    *,
    code: int | None = None,
    table: bool = True,
    unknown: Iterable[Answers] = (),
    advice: str = "then run it again",
) -> int:
    """End a verb with what came of its run. Returns the exit code.

    `code`: the verb's own, instead of the run's. `table`: hosts and what happened there are printed. `unknown`: what it
    was decided from; hosts that did not answer then are in the exit code. `advice`: what to do when hosts failed.
    """
    code = int((run.code if code is None else code) or code_of(unknown))
    body = session.settle(code, {**(result or {}), **({"error": run.error} if run.error else {})}, run)
    if code == 0:
        session.remember()
    if table:
        show_hosts(session.console, run.hosts, check=session.check)
    _advise(session, run, advice)
    return _say(session, body, code)


def nothing(session: Session, unknown: Iterable[Answers] = ()) -> int:
    """End a verb whose plan is empty: there is nothing to do, or nobody knows. Returns the exit code."""
    unknown = list(unknown)
    silent = {host: reason for answers in unknown for host, reason in answers.unknown.items()}
    if silent:
        hosts = ", ".join(f"{host} ({reason})" for host, reason in silent.items())
        session.console.print(f"Nothing to do on the hosts that answered. Not known: {hosts}")
    else:
        session.console.print("Nothing to do.")
    return finish(session, code_of(unknown), {"unknown": silent} if silent else {})


def _say(session: Session, body: Mapping[str, Any], code: int) -> int:
    if session.options.json:
        echo_document(json_text(body))
    return int(code)


def _advise(session: Session, run: RunResult, advice: str) -> None:
    """Say on standard error what went wrong and what to do about it."""
    code = run.code
    if code == ExitCode.DONE:
        return
    record = session.begun().id
    if code == ExitCode.INTERRUPTED:
        echo(
            f"Interrupted. What was done is done; run gpuadmin {session.verb} again to go on. (run {record})", err=True
        )
    elif run.error:
        echo(f"Error: {run.error}\nHint: the whole output: gpuadmin runs {record} --log", err=True)
    else:
        echo(f"{len(run.bad)} of {counted(len(run.hosts), 'host')} did not succeed: {', '.join(run.bad)}", err=True)
        echo(f"Hint: the whole output: gpuadmin runs {record} --log; {advice}", err=True)
