"""Causes of what somebody runs, by facts alone: who holds GPUs."""

from typing import Any

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


def test_ones_own_gpus_are_nothing_to_say() -> None:
    assert said(Person("minji"), (["minji"], True)) == []
