"""Causes of what somebody runs, by facts alone: who holds GPUs."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.causes import running
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.cause import Person
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.running import gpus


def facts(*held: tuple[list[str], bool]) -> dict[str, Any]:
    """A node with GPUs, each with its holders and whether its memory is used up."""
    each = [{"index": place, "holders": who, "full": full} for place, (who, full) in enumerate(held)]
    return {
        "gpus": {
            "number": len(each), "differ": None, "missing": [], "problem": None, "broken": [], "lost": [], "worse": [],
            "containers": [], "gpus": each,
        }
    }  # fmt: skip


def said(person: Person | None, *held: tuple[list[str], bool]) -> list[tuple[str, str]]:
    return [(one.code, one.cause) for one in gpus(person, facts(*held))]


def test_all_gpus_are_held_by_others() -> None:
    full = (["jiho"], True)
    assert said(Person("minji"), full, full) == [("gpu-full", "all GPUs are held by others: jiho: GPU 0, 1")]
    # of a host alone nobody is kept out
    assert said(None, full, full) == [("gpu-held", "GPUs are held: jiho: GPU 0, 1")]


def test_a_gpu_is_left() -> None:
    full = (["jiho"], True)
    for other in (([], False), (["minji"], True), (["jiho"], False)):
        assert [code for code, _ in said(Person("minji"), full, other)] == ["gpu-held"]


def grant(user: str, *places: str) -> dict[str, Any]:
    return {"user": user, "gpus": list(places), "until": 1_800_000_000, "who": "root@nas", "reason": ""}


@pytest.mark.parametrize(
    ("granted", "codes", "values"),
    [
        (None, [], ()),  # open to everybody
        ({"gpus": 2, "grants": [grant("jiho", "0")]}, ["gpu-grant"], ()),
        ({"gpus": 2, "grants": [grant("jiho", "0"), grant("minji", "1")]}, ["gpu-granted"], ("GPU 1",)),
        ({"gpus": 2, "grants": [grant("minji", "0", "1")]}, [], ()),
    ],
)
def test_a_gpu_that_is_given_on_request(granted: Any, codes: list[str], values: tuple[str, ...]) -> None:
    found = list(running.granted(Person("minji"), {"granted": granted}))
    assert [one.code for one in found] == codes
    assert [one.values[:1] for one in found] == [values for _ in found]
    assert all("on request" in one.cause and "gpuadmin grant minji HOSTS" in one.remedy for one in found)


def test_ones_own_gpus_are_nothing_to_say() -> None:
    assert said(Person("minji"), (["minji"], True)) == []
