"""Show what hosts logged, as the monitor host keeps it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime

from gpuadmin.actions.shared.metrics import MEASURED
from gpuadmin.actions.shared.prometheus import find_monitor
from gpuadmin.answers import Answers
from gpuadmin.console import echo, echo_document
from gpuadmin.display import join_lines
from gpuadmin.errors import ConfigError, ExitCode
from gpuadmin.jsontext import json_text
from gpuadmin.options import Options
from gpuadmin.session import opened

DIRECTORY = "/var/log/gpuadmin-journals"
LONGEST = 1000  # bytes of a line; a program may log a whole file


def show_logs(options: Options, hosts: Sequence[str], lines: int, words: Mapping[str, str | None]) -> int:
    """Show the last lines of hosts, or of each. `words`: journalctl's options. Returns the exit code."""
    with opened("logs", options, changes=False) as session:
        monitor, section = find_monitor(session.site, instead=None).name, session.site.settings.metrics
        if not (section.journals.enabled and section.dashboard.enabled):
            raise ConfigError(
                "nothing is kept of what hosts log: metrics.journals.enabled or metrics.dashboard.enabled is false",
                hint="gpuadmin ssh HOST journalctl",
            )
        line = make_line(session.those(hosts, *MEASURED), lines, words, f"{datetime.now().astimezone():%z}")
        run = session.whole(session.run("run", [monitor], {"command_line": line}, check=False, quiet=True))
        answers = Answers.of(run.hosts, [monitor], "command")
        answers.require("what hosts logged")
        found = {name: answers.known[monitor][name].splitlines() for name in ("output", "errors")}
        session.console.print(join_lines(found["output"]))
        echo("\n".join(found["errors"]), err=True, end=bool(found["errors"]))
        code = ExitCode.HOST_FAILED if found["errors"] else ExitCode.DONE
        # guard: what hosts logged is in no record, which is kept longer -> session.settle(code, found)
        body = session.settle(code, {})
        if options.json:
            echo_document(json_text({**body, "result": found}))
        return code


def make_line(names: Sequence[str], lines: int, words: Mapping[str, str | None], zone: str) -> str:
    """Given hosts, how many lines of each, journalctl's options and this machine's zone (`+0900`), return a line for
    the monitor host's shell. It writes the host's name before each line: whatever a line says, that host said it.
    """
    given = [f"--{name}={text}" for name, text in words.items() if text is not None]
    # some releases count lines before they look at the pattern
    last = "cat" if words.get("grep") is None else f"tail -n {lines}"
    more = [f"--lines={lines}", *given] if last == "cat" else given
    east = f"UTC{'-' if zone[0] == '+' else '+'}{zone[1:3]}:{zone[3:5]}"  # as TZ has it
    found = [f"export TZ={east}"]
    for name in names:
        place = f"{DIRECTORY}/{name}"
        command = ["journalctl", "--quiet", "--no-hostname", "--output=short-iso", f"--directory={place}", *more]
        # guard: a host's lines have its name -> f"{shlex.join(command)} | {last} | cut -c -{LONGEST}"
        shown = f"{shlex.join(command)} | {last} | cut -c -{LONGEST} | sed {shlex.quote(f's/^/{name} /')}"
        missing = f"nothing is kept of {name}; gpuadmin provision lets it send what it logs"
        found.append(f"if test -d {shlex.quote(place)}; then {shown}; else echo {shlex.quote(missing)} >&2; fi")
    return "\n".join(found)
