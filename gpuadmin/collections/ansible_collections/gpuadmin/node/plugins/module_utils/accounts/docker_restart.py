"""Restarting somebody's Docker daemon by their own user manager: what is theirs is started as them, not as root."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import NodeError
from ..fields import quoted, valid_name
from ..lookup import Lookup, system_lookup
from ..run import Finished, failure, run_command
from ..unit import state

SERVICE, SOCKET = "docker.service", "docker.socket"
#: Seconds for a command to a person's manager: one that stops waits for 90 and then kills (systemd-system.conf(5)).
SECONDS = 150.0

Manager = Callable[[Sequence[str]], Finished]


def commands(name: str) -> list[tuple[str, ...]]:
    """What is run, in its order. A socket starts only when its service does not run, and makes a new one then."""
    manager = ("systemctl", "--user", "-M", f"{name}@")
    return [
        (*manager, "stop", SERVICE, SOCKET),
        (*manager, "reset-failed", SERVICE, SOCKET),
        (*manager, "start", SOCKET),
    ]


def restart(
    name: object,
    uid: object,
    *,
    check: bool,
    lookup: Lookup = system_lookup,
    run: Manager | None = None,
    manager: Callable[[str], str] = state,
) -> dict[str, Any]:
    """Stop somebody's daemon and make their socket again; the next command that asks it starts it.

    ``changed`` False: they have no user manager here, so nothing of theirs runs. In check mode nothing is done. The
    person can stop what talks to their manager: it has a deadline. Raises NodeError.
    """
    if not valid_name(name):
        raise NodeError(f"the name {quoted(name)} is refused")
    found = lookup(str(name))
    if found is None:
        raise NodeError(f"this host does not know {name}")
    if uid is not None and found[0] != uid:  # guard: the Docker of somebody with another uid is left alone
        raise NodeError(f"{name} has uid {found[0]} here, not {uid}: nothing is done")
    if found[0] < 1000:  # guard: a manager that is not a person's is left alone
        raise NodeError(f"{name} has uid {found[0]} here, which is not a person's: nothing is done")
    if manager(f"user@{found[0]}.service") != "active":
        return {"changed": False, "words": "no user manager runs there"}
    wanted = commands(str(name))
    if not check:  # guard: a check restarts no daemon -> True
        for command in wanted:
            done = (run or _asked)(command)
            if done.returncode != 0 and "reset-failed" not in command:  # what never failed cannot be reset
                raise failure(command, done, f"{name}'s manager refused")
    return {"changed": True, "words": "the socket is made again"}


def _asked(command: Sequence[str]) -> Finished:
    return run_command(
        command,
        seconds=SECONDS,  # guard: a person's manager that hangs is not waited for
    )
