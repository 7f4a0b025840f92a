"""From results to what is shown of them: the document for programs, and lines for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpuadmin.errors import ExitCode, find_hint
from gpuadmin.jsontext import json_text
from gpuadmin.results import HostResult


def document(
    verb: str,
    *,
    site: Path | None,
    run: str | None,
    check: bool,
    status: str,
    hosts: Mapping[str, HostResult] | None = None,
    result: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The one JSON document of a verb. `status` is a word of `name_status`."""
    return {
        "verb": verb,
        "site": str(site) if site else None,
        "run": run,
        "status": status,
        "check": check,
        "hosts": {
            name: {"status": host.status, "changed": host.changed, "message": host.message}
            | ({"obstacles": host.obstacles} if host.obstacles else {})
            for name, host in (hosts or {}).items()
        },
        "result": dict(result or {}),
    }


def name_status(code: int) -> str:
    """Given a verb's exit code, return the one word for how it ended, in documents, records and `status`."""
    return _STATUS.get(ExitCode(code), "failed")


_STATUS = {
    ExitCode.DONE: "ok",
    ExitCode.DIFFERS: "differs",
    ExitCode.REFUSED: "refused",
    ExitCode.INTERRUPTED: "interrupted",
}


def local_document(verb: str, result: Mapping[str, Any], *, site: Path | None = None) -> str:
    """The JSON document of a verb that worked on this machine alone, and all is well."""
    return json_text(document(verb, site=site, run=None, check=False, status="ok", result=result))


def error_document(arguments: Sequence[str], error: click.ClickException) -> str:
    """The JSON document of a verb that ended with an error before it had a result."""
    status = name_status(error.exit_code)
    verb = next((word for word in arguments if not word.startswith("-")), "")
    body = document(verb, site=None, run=None, check="--check" in arguments, status=status)
    body["result"] = {"error": error.format_message(), "hint": find_hint(error)}
    return json_text(body)


def alike(hosts: Mapping[str, HostResult]) -> list[tuple[list[str], HostResult]]:
    """Given hosts, return the names of those with the same result, with that result."""
    groups: dict[tuple[str, tuple[str, ...], str | None], tuple[list[str], HostResult]] = {}
    for name, host in hosts.items():
        groups.setdefault((host.status, tuple(host.changed), host.message), ([], host))[0].append(name)
    return list(groups.values())


def shortened(lines: Sequence[str], most: int = 12, *, run: str | None = None) -> list[str]:
    """Given what was done on a host, return it in at most so many lines.

    Many files of one directory become one line, so that they hide nothing of what matters.
    """
    together: dict[str, list[str]] = {}
    for line in lines:
        together.setdefault(_in_directory(line) or line, []).append(line)
    found = []
    for about, members in together.items():
        found += [about.format(len(members))] if len(members) > 3 else members
    if len(found) <= most:
        return found
    return [
        *found[: most - 1],
        f"… and {len(found) - most + 1} more: with -v, or gpuadmin runs{f' {run}' if run else ''}",
    ]


def _in_directory(line: str) -> str | None:
    """`write /a/b` as `write {} files in /a`; None if it is not a word and a path."""
    word, _, path = line.partition(" ")
    directory, slash, name = path.rpartition("/")
    if not word.isalpha() or not slash or not name or not path.startswith("/") or set(path) & set("{} "):
        return None
    return f"{word} {{}} files in {directory or '/'}"
