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
    reason: str = "None",
) -> str:
    """A line of squeue's, with the fields that queue.JOBS asks for."""
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
        reason,
    )
    widths = queue._FIELDS.values()
    return "".join(f"{value:<{width}}\x1f" for value, width in zip(map(str, values), widths, strict=True))


def slurm(directory: Path, monkeypatch: pytest.MonkeyPatch, **programs: str) -> None:
    """These programs alone are there, each a script of the shell."""
    for name, script in programs.items():
        path = directory / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{directory}:/usr/bin:/bin")
