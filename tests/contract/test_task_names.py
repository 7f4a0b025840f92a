"""What gpuadmin reads from the names of tasks is in them as it reads it."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from gpuadmin.progress import AT_MOST

ROLES = Path(__file__).resolve().parents[2] / "roles"


def names(tasks: list[dict[str, object]]) -> list[str]:
    found = [str(task.get("name", "")) for task in tasks]
    for task in tasks:
        for inner in (task.get("block"), task.get("rescue"), task.get("always")):
            found += names(inner) if isinstance(inner, list) else []
    return found


def test_how_long_a_task_may_take_is_read_from_its_name() -> None:
    limited = [
        name
        for path in ROLES.glob("*/tasks/*.yml")
        for name in names(yaml.safe_load(path.read_text()) or [])
        if "seconds at most" in name
    ]
    assert len(limited) == 3, "both waits for a trial, and that for a host that reboots"
    for name in limited:
        assert AT_MOST.search(re.sub(r"\{\{.*\}\}", "900", name)), name
