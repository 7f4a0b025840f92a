"""Let nodes take no further jobs of the queue, or take jobs again."""

from __future__ import annotations

from collections.abc import Sequence

from gpuadmin.actions.shared.queue import change
from gpuadmin.errors import ConfigError
from gpuadmin.options import Options
from gpuadmin.session import opened

LONGEST = 200  # characters of a reason


def drain(options: Options, nodes: Sequence[str], given: str | None) -> int:
    """What runs there goes on. Where no reason is given, a drained node keeps its own. Returns the exit code."""
    reason = "an admin drains it" if given is None else given
    if not reason.isprintable() or not 0 < len(reason) <= LONGEST:
        raise ConfigError(f"--reason: at most {LONGEST} printable characters, in one line")
    if reason.startswith("gpuadmin "):  # guard: what an admin has drained is not taken for a verb's
        raise ConfigError("--reason: one that begins with 'gpuadmin ' is a verb's", hint="say it in other words")
    with opened("drain", options) as session:
        return change(session, nodes, {"reason": reason, "resume": False}, keep=given is None)


def resume(options: Options, nodes: Sequence[str]) -> int:
    """Let nodes take jobs again, whoever drained them. Returns the exit code."""
    with opened("resume", options) as session:
        return change(session, nodes, {"reason": "", "resume": True})
