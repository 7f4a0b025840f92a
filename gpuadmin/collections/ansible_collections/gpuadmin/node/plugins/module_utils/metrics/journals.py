"""What hosts log, on the monitor host: read for the controller, and bounded by a timer.

systemd-journal-remote names a host's files after its certificate. What lines say of their host, that host wrote.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Iterator, Sequence

from ..run import Runner, failure, look

DIRECTORY = "/var/log/gpuadmin-journals"
LONGEST = 2000  # characters of a line; a program may log a whole file
_FILE = re.compile(r"remote-CN=([^@]+)(?:@.+)?\.journal~?")
_FIELDS = "--output-fields=MESSAGE,SYSLOG_IDENTIFIER,_COMM,_PID"


def list_files(directory: str) -> dict[str, list[str]]:
    """Given the directory, return the paths of each host's files, the one that was written last at the end."""
    found: dict[str, list[str]] = {}
    for path in sorted((one.path for one in os.scandir(directory)), key=os.path.getmtime):
        if match := _FILE.fullmatch(os.path.basename(path)):
            found.setdefault(match[1], []).append(path)
    return found


def sweep(days: int, most: int, directory: str = DIRECTORY, now: float | None = None) -> int:
    """Delete what is older than so many days, and of each host what is beyond so many bytes. Exit 0.

    Once a day each host's file is set aside, so that a new one begins; a server that has it open goes on in it.
    """
    now = now or time.time()
    for name, paths in list_files(directory).items():
        current, files = f"{directory}/remote-CN={name}.journal", {one: os.stat(one) for one in paths}
        total = sum(one.st_blocks * 512 for one in files.values())  # guard: one host's lines push out no other's
        for path, status in files.items():
            day = f"{directory}/remote-CN={name}@{time.strftime('%Y-%m-%d', time.gmtime(now))}.journal"
            if now - status.st_mtime > days * 86400 or (total > most and path != current):
                os.unlink(path)
                total -= status.st_blocks * 512
            # guard: what was set aside is not replaced -> path == current
            elif path == current and not os.path.exists(day):
                os.rename(path, day)
    return 0


def read(
    names: Sequence[str], lines: int, options: Sequence[str], zone: str,
    directory: str = DIRECTORY, runner: Runner = look,
) -> dict[str, object]:  # fmt: skip
    """Given hosts and journalctl's options, return the last lines of all, and of which hosts nothing is kept.

    ``zone``: of the times in options and lines, as TZ has it.
    """
    os.environ["TZ"] = zone
    time.tzset()
    files, found = list_files(directory), set[tuple[float, str]]()
    # the newest first: otherwise --lines of some releases counts what --grep does not match
    command = ("journalctl", "--quiet", "--output=json", _FIELDS, "--reverse", f"--lines={lines}", *options)
    for name in names:
        if name in files:  # guard: without files journalctl would read the monitor host's own
            done = runner((*command, *(f"--file={one}" for one in files[name])))
            if done.returncode and done.stderr.strip():  # without a word: no line matches
                raise failure(command, done, f"the lines of {name} cannot be read")
            # a set: what was sent again after a connection was cut is there twice
            found = set(sorted({*found, *parse_lines(name, done.stdout)})[-lines:])
    return {"lines": [line for _, line in sorted(found)], "missing": [one for one in names if one not in files]}


def parse_lines(name: str, output: str) -> Iterator[tuple[float, str]]:
    """Given a host's lines as journalctl writes them, yield each with its time. The host may have made them up."""
    for line in output.splitlines():
        try:
            entry = json.loads(line)
            at = min(int(entry["__REALTIME_TIMESTAMP"]) / 1e6, time.time())
        except (ValueError, TypeError, KeyError):
            continue
        source, pid = _text(entry.get("SYSLOG_IDENTIFIER") or entry.get("_COMM")), _text(entry.get("_PID"))
        who = f"{source[:80]}[{pid[:10]}]" if pid else source[:80]
        clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(at))
        yield at, f"{clock} {name} {who}: {_text(entry.get('MESSAGE'))}"


def _text(value: object) -> str:
    """Given a field, return it as one line; bytes that are no text are a list of numbers."""
    if isinstance(value, list):
        value = bytes(one for one in value if isinstance(one, int) and 0 <= one < 256).decode("utf-8", "replace")
    # guard: a logged line is one line, and nothing that a terminal obeys -> str(value)[:LONGEST]
    return "".join(one if one.isprintable() else " " for one in str(value or "")[:LONGEST])
