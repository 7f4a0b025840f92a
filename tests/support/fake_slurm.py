"""Slurm's programs as they answer, for tests of what asks them."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import queue


def row(
    id: str,
    user: str,
    state: str,
    *,
    priority: int = 1,
    asked: int = 1,
    start: int | None = None,
    end: int | None = None,
    nodes: str = "",
    tres: str = "cpu=1,mem=1G,node=1,billing=1,gres/gpu=1",
    name: str = "wrap",
    comment: str = "open",
    qos: str = "people",
    booking: str = "(null)",
    project: str = "(null)",
    reason: str = "None",
) -> str:
    """A line of squeue's, with the fields that queue.ask_jobs asks for."""
    values = (
        id,
        user,
        "people",
        state,
        priority,
        asked,
        start or "N/A",
        end or "N/A",
        nodes,
        tres,
        name,
        comment,
        qos,
        booking,
        project,
        reason,
    )
    widths = queue._FIELDS.values()
    return "".join(f"{value:<{width}}\x1f" for value, width in zip(map(str, values), widths, strict=True))


#: squeue ends fields and jobs with what it is told to.
_MARKED = """said=$({{ {}; }}) || exit $?
token=$(printf %s "$*" | sed -n 's/.*\\x1e\\([0-9a-f]*\\).*/\\1/p')
[ -z "$said" ] || printf '%s\\n' "$said" | sed "s/\\x1f/\\x1f$token/g; s/\\$/\\x1e$token/"
"""
NO_RESERVATIONS = "No reservations in the system\n"
_NO_RESERVATIONS = f"""case "$*" in *reservation) echo "{NO_RESERVATIONS}"; exit;; esac
"""
#: Nobody comes first anywhere.
_NO_GROUPS = """case "$*" in *partition) exit;; esac
"""


def reservation(name: str, users: str, nodes: str, begin: int, hours: int = 1) -> str:
    """As `scontrol --oneliner show reservation` has it, of 21.08 and of 24.11."""
    return (
        f"ReservationName={name} StartTime={begin} EndTime={begin + hours * 3600} Duration=01:00:00 Nodes={nodes} "
        f"NodeCnt=1 CoreCnt=8 Features=(null) PartitionName=gpu Flags=SPEC_NODES TRES=cpu=8 Users={users or '(null)'} "
        "Groups=(null) Accounts=(null) Licenses=(null) State=INACTIVE BurstBuffer=(null) MaxStartDelay=(null) \n"
    )


def slurm(directory: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """These programs alone are there, each a script of the shell."""
    for name, script in programs.items():
        path = directory / name
        none = _NO_RESERVATIONS if name == "scontrol" and "reservation" not in script else ""
        none += _NO_GROUPS if name == "scontrol" and "partition" not in script else ""
        path.write_text(f"#!/bin/sh\n{none}{_MARKED.format(script) if name == 'squeue' else script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
