"""Run a command on hosts, and show what each answers."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

from gpuadmin.common.text import counted
from gpuadmin.config.groups import GROUPS
from gpuadmin.display import join_lines, show_hosts, styled
from gpuadmin.errors import ConfigError, ExitCode
from gpuadmin.options import Options
from gpuadmin.outcome import finish
from gpuadmin.results import RunResult
from gpuadmin.session import Session, opened


def run(options: Options, pattern: str, words: Sequence[str]) -> int:
    """Run a command as root on the hosts that a pattern names, and that --limit leaves. Returns the exit code."""
    line = (
        words[0]
        if len(words) == 1
        # guard: run keeps words apart -> ' '.join(words)
        else shlex.join(words)
    )
    with opened("run", options, exclusive=False) as session:
        hosts = _hosts(session, pattern)
        found = session.run(
            "run",
            hosts,
            {"command_line": line},
            check=session.check,  # guard: run does not run in check mode -> False
            quiet=True,
        )
        session.whole(found, "interrupted; what was begun on hosts may go on there")
        answers = dict(found.reported("command"))
        _show(session, found, answers)
        return finish(session, found.code, {"command": line, "answers": answers}, found)


def _hosts(session: Session, pattern: str) -> list[str]:
    """The names of the hosts that are meant. Raises ConfigError for none, and for one that is in none of the groups."""
    named = session.site.inventory.limited(pattern, "HOSTS")
    hosts = [host for host in named if host in session.hosts]
    if not hosts:
        raise ConfigError(f"--limit {session.options.limit}: leaves none of the hosts {pattern}")
    outside = [host.name for host in hosts if not set(GROUPS) & set(host.groups)]
    if outside:  # guard: run takes no host beside the groups
        raise ConfigError(
            f"{', '.join(outside)}: in none of the groups {', '.join(GROUPS)}", hint="put it into one in inventory/"
        )
    return [host.name for host in hosts]


def _show(session: Session, found: RunResult, answers: dict[str, Any]) -> None:
    """Print the answers: hosts that answered the same together, those that failed last."""
    alike: dict[tuple[int, str, str], list[str]] = {}
    for name, answer in answers.items():
        alike.setdefault((answer["status"], answer["output"], answer["errors"]), []).append(name)
    for (status, output, errors), names in sorted(alike.items(), key=lambda one: one[0][0] != 0):
        heading = (", ".join(names), "bold cyan")
        session.console.print(styled(heading, (f" ended with {status}", "bold red") if status else ""))
        lines = [*output.splitlines(), *errors.splitlines()]
        if lines:
            session.console.print(join_lines(f"  {line}" for line in lines))
    silent = {name: host for name, host in found.hosts.items() if name not in answers}
    show_hosts(session.console, silent, check=session.check)
    if found.code != ExitCode.DONE:
        session.console.print(
            f"{len(found.bad)} of {counted(len(found.hosts), 'host')} did not succeed: {', '.join(found.bad)}"
        )
