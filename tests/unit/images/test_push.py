"""A push: batches, chains, its plan, and where its time went."""

from typing import Any

import pytest

from gpuadmin.errors import ConfigError
from gpuadmin.images.push import batches, chains, links, plan_push, slowest_steps, time_spent
from tests.support.image_facts import node, pending


@pytest.mark.parametrize(
    ("count", "canary", "batch", "expected"),
    [
        (5, 1, "2", [1, 2, 2]),
        (5, 1, "100%", [1, 4]),
        (6, 0, "50%", [3, 3]),
        (1, 1, "10", [1]),
        (3, 5, "1", [3]),
        (0, 1, "2", []),
        (200, 1, "10%", [1, *[20] * 9, 19]),
        (3, 1, "1%", [1, 1, 1]),
    ],
)
def test_batches(count: int, canary: int, batch: str, expected: list[int]) -> None:
    assert batches(count, canary=canary, batch=batch) == expected
    assert sum(expected) == count


@pytest.mark.parametrize("batch", ["0", "0%", "101%", "-1", "x", ""])
def test_batches_that_are_none(batch: str) -> None:
    with pytest.raises(ConfigError):
        batches(3, canary=1, batch=batch)


FULL = {"receives": {"bytes": 5e8, "parent": None, "held": False}}


SMALL = {"receives": {"bytes": 5e6, "parent": None, "held": False}}


@pytest.mark.parametrize(
    ("changes", "sizes", "expected"),
    [
        ([FULL] * 5, [1, 4], [["n2", "n3", "n4", "n5"]]),
        ([FULL] * 4, [2, 2], [["n1", "n2"], ["n3", "n4"]]),
        ([FULL, {}, FULL], [3], [["n1", "n3"]]),
        ([SMALL] * 3, [3], []),
        ([{}] * 3, [3], []),
        ([{"receives": {"bytes": 5e8, "parent": "a", "held": False}}] * 3, [3], []),
        ([FULL, {"receives": {"bytes": 0, "parent": None, "held": True}}], [2], []),
        ([], [], []),
    ],
)
def test_chains(changes: list[dict[str, Any]], sizes: list[int], expected: list[list[str]]) -> None:
    nodes = {f"n{number}": node(**one) for number, one in enumerate(changes, 1)}
    assert chains(nodes, sizes, {name: name for name in nodes}) == expected


def test_a_chain_is_of_nodes_with_names_or_addresses_of_ipv4() -> None:
    nodes = {name: node(**FULL) for name in ("n1", "n2", "n3")}
    addresses = {"n1": "10.0.0.1", "n2": "fd00::2", "n3": "gpu3"}
    assert chains(nodes, [3], addresses) == [["n1", "n3"]]


def test_links_of_a_chain() -> None:
    assert links([["a", "b", "c"]], {"a": "10.0.0.1", "b": "10.0.0.2", "c": "10.0.0.3"}) == {
        "a": {"port": 7370, "previous": "", "next": "10.0.0.2"},
        "b": {"port": 7370, "previous": "10.0.0.1", "next": "10.0.0.3"},
        "c": {"port": 7370, "previous": "10.0.0.2", "next": ""},
    }


CONFIRMED = {"stage": "confirmed", "time": 1000.0, "ended": 1064.5, "uptime": 41.5}


@pytest.mark.parametrize(
    ("steps", "last", "expected"),
    [
        ({"fetch": 3.0}, CONFIRMED, {"fetch": 3.0, "reboot": 23.0, "boot": 41.5}),
        (
            {"fetch": 3.0},
            {**CONFIRMED, "ended": 1000.0},
            {"fetch": 3.0, "reboot": 0.0, "boot": 41.5},
        ),  # its clock was set
        ({}, CONFIRMED, {"boot": 41.5}),  # made ready by an earlier run
        ({"fetch": 3.0}, {**CONFIRMED, "stage": "failed"}, {"fetch": 3.0}),
        ({"fetch": 3.0}, {"stage": "confirmed", "time": 1000.0, "ended": 1064.5}, {"fetch": 3.0}),  # an older node's
        ({"fetch": 3.0}, {}, {"fetch": 3.0}),
    ],
)
def test_where_the_time_of_a_push_went(
    steps: dict[str, float], last: dict[str, Any], expected: dict[str, float]
) -> None:
    assert time_spent(steps, last) == expected


@pytest.mark.parametrize(
    ("spent", "words"),
    [
        ({"n1": {"clean": 0.1, "fetch": 3.2, "boot": 41.5}}, "boot 42 s, fetch 3 s"),
        ({"n1": {"fetch": 3.2}, "n2": {"fetch": 9.0, "boot": 40.0}}, "boot 40 s (n2), fetch 9 s (n2)"),
        ({"n1": {"fetch": 3.2}, "n2": {}}, "fetch 3 s"),
        ({}, ""),
    ],
)
def test_the_slowest_node_of_each_step(spent: dict[str, dict[str, float]], words: str) -> None:
    assert slowest_steps(spent) == words


@pytest.mark.parametrize(
    ("changes", "force", "action", "words"),
    [
        ({}, False, "push", "receives 6.2 MB as the difference to a"),
        ({"receives": {"bytes": 5e8, "parent": None, "held": False}}, False, "push", "receives 500.0 MB in full"),
        ({"receives": {"bytes": 0, "parent": None, "held": True}}, False, "push", "holds the image already"),
        ({"image": "b", "receives": {"bytes": 0, "parent": None, "held": True}}, False, "none", "already"),
        ({"people": ["minji"], "gpu_work": ["jiho"]}, False, "refuse", "in use by jiho, minji: --when-idle waits"),
        ({"people": ["minji"]}, True, "push", "sends away: minji"),
        ({"refused": {"b": "it panicked"}}, False, "push", "tries again what failed there: it panicked"),
        ({"receives": None}, True, "refuse", "does not say what it would receive"),
        ({"problem": "the parent is missing"}, True, "refuse", "the parent is missing"),
        (
            {"last": {"stage": "pending", "root": "c", "image": "c"}, "trial": "c"},
            False,
            "refuse",
            "waits for its reboot",
        ),
        (
            {"last": {"stage": "pending", "root": "b", "image": "b"}, "trial": "b"},
            False,
            "push",
            "ready since an earlier",
        ),
        ({"last": pending("c", "c"), "trial": "c"}, False, "refuse", "waits for its reboot"),
        ({"last": pending("b", "b"), "trial": "b"}, False, "push", "ready since an earlier"),
        ({"last": pending("a", "b")}, False, "push", "waiting for its outcome"),
        ({"last": pending("a", "c")}, False, "refuse", "a switch to a is on trial"),
    ],
)
def test_the_plan_of_a_push(changes: dict[str, Any], force: bool, action: str, words: str) -> None:
    plan = plan_push(node(**changes), "b", reboot=True, force=force)
    assert plan.action == action
    assert words in " ".join(plan.summary)
