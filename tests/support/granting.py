"""Grants one after another on a node of the lab, by granting_on_node.py."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.lab_cluster import Cluster


@dataclass(frozen=True)
class Seen:
    """`times`: `grant`, `end` and `plain` (one `systemctl set-property --runtime` of the same slice) → seconds on the
    clock and of processor time, each time. `whole`: the same of the timer's run. `drift`: slices that are otherwise
    afterwards than before. `opened`: the device files that who has GPU 1 has opened, in `tries` tries."""

    times: dict[str, list[tuple[float, float]]]
    whole: tuple[float, float]
    drift: dict[str, Any]
    opened: list[str]
    tries: int


def grants_in_a_row(cluster: Cluster, host: str, rounds: int, people: int) -> Seen:
    """Grant GPU 0 and take it back so often, in turn to all but the first of so many people."""
    script = Path(__file__).with_name("granting_on_node.py").read_text(encoding="utf-8")
    cluster.admin(host, f"cat > /run/granting.py <<'END'\n{script}END")
    out = cluster.admin(host, f"python3 -I /run/granting.py {rounds} {people}")
    return Seen(**json.loads(out))
