"""How a verb ends: its record, the table for people, what to do next, the document for programs, the exit code."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from gpuadmin.answers import Answers, combine_exit_codes
from gpuadmin.common.text import counted
from gpuadmin.console import echo, echo_document
from gpuadmin.display import show_hosts
from gpuadmin.errors import ExitCode
from gpuadmin.jsontext import json_text
from gpuadmin.pending import OF_ACCOUNTS, ONCE
from gpuadmin.results import HostResult, RunResult, way_out
from gpuadmin.session import Session


def finish(session: Session, code: int, result: Mapping[str, Any], run: RunResult | None = None) -> int:
    """End a verb that has shown what people see of it, and of its run. Returns the exit code."""
    return _say(session, session.settle(code, result, run), code)


def report(
    session: Session,
    run: RunResult,
    result: Mapping[str, Any] | None = None,
    *,
    code: int | None = None,
    show: Callable[[], None] | None = None,
    unknown: Iterable[Answers] = (),
    advice: str | None = None,
) -> int:
    """End a verb with what came of its run. Returns the exit code.

    `code`: the verb's own, instead of the run's. `show`: prints what people see of it, instead of the table of hosts.
    `unknown`: what it was decided from; hosts that did not answer then are in the exit code. `advice`: what to do when
    hosts did not succeed, where it is not the same again.
    """
    code = int(
        (run.code if code is None else code)
        or combine_exit_codes(unknown)  # guard: hosts that did not answer are in the exit code
    )
    body = session.settle(code, {**(result or {}), **({"error": run.error} if run.error else {})}, run)
    if code == 0:  # guard: what no host has taken is not remembered -> True
        session.remember()
    if show is None:
        whole = bool(session.options.verbose)
        record = body["run"]
        show_hosts(session.console, run.hosts, check=session.check, whole=whole, run=record)
    elif not session.options.json:
        show()
    _advise(session, run, advice)
    return _say(session, body, code)


def nothing(session: Session, unknown: Iterable[Answers] = ()) -> int:
    """End a verb whose plan is empty: there is nothing to do, or that is unknown. Returns the exit code."""
    unknown = list(unknown)
    silent = {host: reason for answers in unknown for host, reason in answers.unknown.items()}
    if silent:
        hosts = ", ".join(f"{host} ({reason})" for host, reason in silent.items())
        done = "Nothing to do on the hosts that answered. " if any(answers.known for answers in unknown) else ""
        session.console.print(f"{done}Not known: {hosts}")
    else:
        session.console.print("Nothing to do.")
    return finish(session, combine_exit_codes(unknown), {"unknown": silent} if silent else {})


def _say(session: Session, body: Mapping[str, Any], code: int) -> int:
    if session.options.json:
        echo_document(json_text(body))
    return int(code)


def _advise(session: Session, run: RunResult, advice: str | None) -> None:
    """Say on standard error what went wrong and what to do about it."""
    code = run.code
    if code == ExitCode.DONE:
        return
    record = session.begun().id
    if code == ExitCode.INTERRUPTED:
        why = f": {run.error}" if run.error else ""
        again = f"What was done is done; run gpuadmin {session.verb} again to go on. (run {record})"
        echo(f"Interrupted{why}. {again}", err=True)
    elif run.error:
        echo(f"Error: {run.error}\nHint: the whole output: gpuadmin runs {record} --log", err=True)
    else:
        untouched = [] if session.check else [name for name, host in run.hosts.items() if host.untouched]
        rest = f"; nothing was changed on {', '.join(untouched)}" if untouched else ""
        bad = f"{', '.join(_with_address(session, name, run.hosts[name]) for name in run.bad)}{rest}"
        echo(f"{len(run.bad)} of {counted(len(run.hosts), 'host')} did not succeed: {bad}", err=True)
        if code == ExitCode.HOST_UNREACHABLE:
            first = way_out(run.bad) if session.verb != "bootstrap" or not advice else None  # it tries other logins
            echo(f"Hint: {f'{first}; then run it again' if first else advice or _when_they_answer(session)}", err=True)
        else:
            log = f"the whole output: gpuadmin runs {record} --log"
            began = any(host.bad and not (host.untouched or host.silent) for host in run.hosts.values())
            # what to do comes before where to read; what was refused, or was a look, ends the same again
            if advice is None and not began:
                advice = "what is said above has to be settled first"
            again = "" if advice or session.check else "; then run it again"
            echo(f"Hint: {advice}; {log}" if advice else f"Hint: {log}{again}", err=True)


def _with_address(session: Session, name: str, found: HostResult) -> str:
    """A host that did not answer is named with where it was looked for, if that is more than its name."""
    host = next((one for one in session.site.inventory.hosts if one.name == name), None)
    if host is None or not found.silent:
        return name
    address = "" if host.address == name else host.address
    port = "" if host.port == 22 else f"port {host.port}"
    where = ", ".join(filter(None, (address, port)))
    return f"{name} ({where})" if where else name


def _when_they_answer(session: Session) -> str:
    """What brings hosts that did not answer up to date: one verb for all that is missing, if there is one."""
    by_sync = session.verb in OF_ACCOUNTS and not session.check and not ONCE & set(sys.argv)
    return f"when they answer: {'gpuadmin sync-users' if by_sync else 'run it again'}"
