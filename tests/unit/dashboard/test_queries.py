"""What is asked is fixed: a name is a value in it, whatever it is made of."""

import re
import subprocess
from pathlib import Path

import pytest

from gpuadmin.dashboard import queries

NAMES = ("minji", 'a"} or up #', "a\\", 'a\\"', "a\nb", "민지", "a{{b}}", "$x", "'")


@pytest.mark.parametrize("name", NAMES)
def test_a_name_ends_where_it_ends(name: str) -> None:
    inside = queries.quoted(name)
    assert re.fullmatch(r'"(?:[^"\\\n]|\\["\\n])*"', inside)
    assert inside[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\") == name


@pytest.mark.needs("promtool")
def test_prometheus_understands_each(tmp_path: Path) -> None:
    """As rules, which promtool reads without a server."""
    asked = [queries.DETAILS, queries.DISKS, queries.ALERTS, queries.CPU, queries.PEOPLES_CPU, queries.UTILIZATION]
    asked += queries.of_cluster(30).values()
    asked.append(queries.hours_of_all(7))
    for name in NAMES:
        asked += queries.last_seen(["gpu01", name]).values()
        asked += queries.of_node(name, 30).values()
        asked += queries.of_person(name, 14400).values()
        asked += [queries.query_gpu_hours(kind, name, 30) for kind in ("held", "measured", "active")]
    rules = [f"    - record: r{number}\n      expr: {_yaml(query)}" for number, query in enumerate(asked)]
    path = tmp_path / "rules.yml"
    path.write_text("groups:\n- name: g\n  rules:\n" + "\n".join(rules) + "\n")
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{len(asked)} rules found" in done.stdout


def _yaml(query: str) -> str:
    return "'" + query.replace("'", "''") + "'"


def test_a_kind_that_is_none() -> None:
    with pytest.raises(ValueError, match="x"):
        queries.query_gpu_hours("x", "minji", 30)
