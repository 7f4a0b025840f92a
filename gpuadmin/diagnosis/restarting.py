"""Restarts of a person's Docker daemon: on which hosts, and what ends with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuadmin.common.text import counted


def plan_restarts(name: str, known: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Given what hosts answered, return by host what a restart does there. Without a user manager nothing runs."""
    found: dict[str, str] = {}
    for host, facts in known.items():
        docker, sessions = facts.get("docker"), facts.get("sessions")
        if not facts["node"] or docker is None or docker["data"] is None:
            continue
        if sessions is not None and sessions["manager"] != "active":
            continue
        found[host] = f"restart {name}'s Docker daemon: {_count_ends(facts)}"
    return found


def _count_ends(facts: Mapping[str, Any]) -> str:
    containers = facts.get("containers")
    if containers is not None and not containers["asked"]:
        return "it does not run; its socket is made again"
    count = None if containers is None else containers.get("running")
    if count is None:
        return "it is not known how many containers run; all of them end"
    return f"{counted(count, 'running container')} {'ends' if count == 1 else 'end'}" if count else "no container runs"
