"""Show what hosts logged, as the monitor host keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from gpuadmin.actions.shared.metrics import MEASURED
from gpuadmin.actions.shared.prometheus import find_monitor
from gpuadmin.answers import Answers
from gpuadmin.console import echo, echo_document
from gpuadmin.display import lines_of
from gpuadmin.errors import ConfigError
from gpuadmin.jsontext import json_text
from gpuadmin.options import Options
from gpuadmin.session import opened


def show_logs(options: Options, hosts: Sequence[str], lines: int, words: Mapping[str, str | None]) -> int:
    """Show the last lines of hosts, or of all. `words`: journalctl's options. Returns the exit code."""
    with opened("logs", options, changes=False) as session:
        monitor = find_monitor(session.site, instead=None).name
        if not session.site.settings.metrics.journals.enabled:
            raise ConfigError("metrics.journals.enabled is false: what hosts log stays there", hint="gpuadmin ssh HOST")
        chosen = [f"--{name}={text}" for name, text in words.items() if text is not None]
        order = {"names": session.those(hosts, *MEASURED), "lines": lines, "options": chosen, "zone": own_zone()}
        answers = Answers.of(session.look("logs", [monitor], {"gpuadmin_logs": order}).hosts, [monitor], "journals")
        answers.require("what hosts logged")
        found = answers.known[monitor]
        session.console.print(lines_of(found["lines"]))
        if found["missing"]:
            echo(f"Nothing is kept of {', '.join(found['missing'])}. gpuadmin provision lets hosts send it.", err=True)
        # guard: what hosts logged is in no record, which is kept longer -> session.settle(0, found)
        body = session.settle(0, {})
        if options.json:
            echo_document(json_text({**body, "result": found}))
        return 0


def own_zone() -> str:
    """Return this machine's zone as TZ has it, so that --since means the admin's clock: `UTC-09:00` in Korea."""
    sign, hours, minutes = (east := f"{datetime.now().astimezone():%z}")[0], east[1:3], east[3:5]
    return f"UTC{'-' if sign == '+' else '+'}{hours}:{minutes}"
