"""Where a person's Docker is restarted, and what the plan says of it."""

from typing import Any

import pytest

from gpuadmin.diagnosis.restarting import plan_restarts


def host(**changes: Any) -> dict[str, Any]:
    facts = {
        "node": True, "docker": {"data": {"uid": 20000}}, "sessions": {"manager": "active"},
        "containers": {"asked": True, "running": 2},
    }  # fmt: skip
    return facts | changes


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (host(), "2 running containers end"),
        (host(containers={"asked": True, "running": 1}), "1 running container ends"),
        (host(containers={"asked": True, "running": 0}), "no container runs"),
        (host(containers={"asked": False, "running": 0}), "it does not run; its socket is made again"),
        (host(containers=None), "it is not known how many containers run; all of them end"),
        (host(sessions=None), "2 running containers end"),  # unknown is not nothing
    ],
)
def test_what_ends_is_said(facts: dict[str, Any], words: str) -> None:
    assert plan_restarts("minji", {"node1": facts}) == {"node1": f"restart minji's Docker daemon: {words}"}


@pytest.mark.parametrize(
    "changes", [{"node": False}, {"docker": None}, {"docker": {"data": None}}, {"sessions": {"manager": "inactive"}}]
)
def test_where_there_is_nothing_to_restart(changes: dict[str, Any]) -> None:
    assert plan_restarts("minji", {"node1": host(**changes)}) == {}
