"""Say why something does not work for somebody, or on hosts: the cause first, what to do, then where it was seen."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

from gpuadmin.answers import Answers
from gpuadmin.common.causes.cause import HINDERS, NOTE, STOPS, UNKNOWN, Cause
from gpuadmin.common.text import size_words
from gpuadmin.config.fields import USER_NAME
from gpuadmin.config.inventory import find_storage
from gpuadmin.config.yamlfile import write_new
from gpuadmin.console import agree, echo
from gpuadmin.diagnosis.bundle import make_files, pack_archive
from gpuadmin.diagnosis.finding import as_document, weigh_cause
from gpuadmin.diagnosis.looked import list_sound_things, list_unseen
from gpuadmin.diagnosis.restarting import plan_restarts
from gpuadmin.diagnosis.verdict import Asked, first_line, is_bad, verdict
from gpuadmin.display import make_console, styled
from gpuadmin.errors import ConfigError, ExitCode, RefusedError
from gpuadmin.options import Options
from gpuadmin.outcome import nothing, report
from gpuadmin.plan import PlanBuilder
from gpuadmin.records import history
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened

#: What is done besides looking; the seconds are SECONDS of module_utils/diagnosis/trial.py.
TRIAL = (
    "a session of {}'s is tried for at most 9 seconds: PAM, a file in the home, a process, the shell, Docker's socket"
)
GROUPS = ("gpu", "storage", "monitor", "backup")
_OF_A_HOST = "gpuadmin diagnose --host {}"
_STYLES = {STOPS: "bold red", HINDERS: "yellow", UNKNOWN: "magenta", NOTE: "dim"}


def diagnose(
    options: Options,
    name: str | None,
    hosts: tuple[str, ...],
    bundle: str | None = None,
    restart: bool = False,
    trial: bool = True,
) -> int:
    """Look at a person on all hosts, or at hosts alone, and show what is wrong. Returns the exit code.

    `bundle`: a file to write the evidence to, redacted. `restart`: then restart the person's Docker daemon. `trial`:
    begin a session of the person's where people log in, for seconds.
    """
    if name is not None and not USER_NAME.fullmatch(name):
        raise ConfigError(f"{name!r} is not a login name", hint="gpuadmin list-users shows them")
    if bundle is not None and Path(bundle).exists():
        raise ConfigError(f"{bundle} is there already", hint="name another file; nothing is replaced")
    with opened("diagnose", options, changes=restart) as session:
        chosen = session.site.inventory.limited(",".join(hosts), "--host") if hosts else session.hosts
        on = [host.name for host in chosen if set(GROUPS) & set(host.groups)]
        if not on:
            raise ConfigError("this names no host of the site", hint="gpuadmin status shows its hosts")
        if restart:
            session.require_confirmation_possible()
        builder = PlanBuilder(f"Diagnose {name or 'hosts'}")
        builder.add_all(on, ["look for what is wrong"])
        asked = _asked(session, name, _no_trial(options, trial))
        if asked.user is None and name in {host.name for host in session.site.inventory.hosts}:
            raise ConfigError(f"{name} is a host; nobody of that name is in users.yml", hint=_OF_A_HOST.format(name))
        tried = name is not None and asked.untried is None
        if tried:
            builder.add_all(
                [host.name for host in chosen if host.name in on and "gpu" in host.groups], [TRIAL.format(name)]
            )
        session.planned(builder.build())
        if tried:
            echo(f"{TRIAL.format(name)}; --no-trial leaves it out", err=True)
        run = session.run("diagnose", on, {"gpuadmin_person": asked.person, "gpuadmin_trial": tried}, check=True)
        result, found = _result(session, run, on, asked)
        if not options.json:
            _show(result, found)
        if bundle is not None:
            result["bundle"] = _bundle(session, Path(bundle), name, found, result["facts"])
        if restart:
            return _restart(session, asked, run, result)
        # answers of some hosts are still an answer; the exit code says the rest
        code = run.code or (ExitCode.DIFFERS if is_bad(found) else ExitCode.DONE)
        return report(session, run, result, code=code, show=lambda: None)  # shown before the question


def _no_trial(options: Options, trial: bool) -> str | None:
    """The reason why the admin wants no session tried, or None."""
    return (
        "--check starts none"
        if options.check  # guard: a check begins no session
        else None
        if trial
        else "--no-trial"
    )


def _restart(session: Session, asked: Asked, looked: RunResult, result: dict[str, Any]) -> int:
    """Restart the person's Docker daemon where they have one, as shown and confirmed, and look again."""
    answers = Answers.of(looked.hosts, list(looked.hosts), "diagnosis")
    wanted = plan_restarts(str(asked.name), answers.known)
    builder = PlanBuilder(f"Restart {asked.name}'s Docker")
    for host, action in wanted.items():
        builder.add(host, action)
    if not session.plan(builder.build()):
        return nothing(session, [answers])
    session.confirm()  # guard: no daemon is restarted that was not confirmed
    run = session.run("restart-docker", list(wanted), {"gpuadmin_person": asked.person}, check=session.check)
    again, found = _result(session, run, list(wanted), replace(asked, no_trial="not tried again"))
    if not session.check and not session.options.json:
        _show(again, found)
    return report(session, run, {**result, "restarted": list(wanted), "after": again}, unknown=[answers])


def _bundle(session: Session, path: Path, name: str | None, found: list[Cause], facts: Mapping[str, Any]) -> Any:
    """List what goes into the archive, ask, and write it. Raises RefusedError."""
    people = [user.name for user in session.site.registry.registry.users]
    files = make_files(name, found, facts, people)
    session.console.print(f"{path} would have:" if session.options.check else f"{path} gets:")
    for file, text in files.items():
        session.console.print(f"  {file}  {size_words(len(text.encode()))}")
    if not session.options.check:
        # guard: an archive is not written unasked
        if not session.options.yes and not (sys.stdin.isatty() and agree("Write it?")):
            raise RefusedError("not confirmed; no archive was written", hint="give --yes where there is no terminal")
        write_new(path, pack_archive(files))
    return {"file": str(path), "contents": {file: len(text.encode()) for file, text in files.items()}}


def _asked(session: Session, name: str | None, no_trial: str | None) -> Asked:
    """The person who is asked about, and where this site has homes."""
    site = session.site
    storage = find_storage(site.inventory.hosts, site.settings.homes.server)
    directory = site.settings.accounts.source == "directory"
    return Asked(
        name, site.registry.registry, date.today(), "STORAGE" if storage is None else storage.name,
        site.settings.homes.export, directory, no_trial,
    )  # fmt: skip


def _result(session: Session, run: RunResult, on: list[str], asked: Asked) -> tuple[dict[str, Any], list[Cause]]:
    answers = Answers.of(run.hosts, on, "diagnosis")
    times = dict.fromkeys(answers.known, time.time())
    found = verdict(asked, answers.known, answers.unknown, times, _drift(session.site.runs, on))
    return {
        "person": asked.name,
        "verdict": first_line(asked, found, answers.known),
        "findings": [as_document(one) for one in found],
        "facts": dict(answers.known),
        "silent": dict(answers.unknown),
        "right": list_sound_things(asked.name, answers.known, found),
        "not_looked_at": list(list_unseen(asked.name, answers.known, answers.unknown, asked.untried)),
    }, found


def _drift(runs: Path, on: list[str]) -> Mapping[str, str]:
    """Hosts that the last look for drift found to differ, and when that was."""
    for run, result in history(runs):
        found = (result or {}).get("result")
        if run["verb"] == "drift" and isinstance(found, Mapping) and isinstance(found.get("differing"), list):
            when = f"{datetime.fromisoformat(run['started']).astimezone():%Y-%m-%d %H:%M}"
            return {host: when for host in found["differing"] if host in on}
    return {}


def _show(result: Mapping[str, Any], found: list[Cause]) -> None:
    """The verdict, its remedy, the rest in the same order, then all evidence, and what the diagnosis did not see."""
    console, first = make_console(json=False), result["verdict"]
    causes = [one for one in found if weigh_cause(one) in (STOPS, HINDERS)]
    console.print(styled((first, "bold" if not causes else _STYLES[weigh_cause(causes[0])])))
    if causes:
        console.print(f"  do: {causes[0].todo}")
    rest = [one for one in found if not causes or one is not causes[0]]
    for one in rest:
        console.print(styled((weigh_cause(one), _STYLES[weigh_cause(one)]), f": {one.line}"))
        console.print(f"  do: {one.todo}")
    evidence = [line for one in found for line in one.evidence]
    if evidence:
        console.print("Seen:")
        for line in dict.fromkeys(evidence):
            console.print(f"  {line}")
    if result["right"]:
        console.print(f"Checked, and fine: {', '.join(result['right'])}.")
    for line in ("Not checked:", *(f"  {line}" for line in result["not_looked_at"])):
        console.print(line)
