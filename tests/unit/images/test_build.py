"""What a build is made from, and what is done again after a cut."""

from pathlib import Path

import pytest

from gpuadmin.errors import ConfigError
from gpuadmin.images.build import BuildRequest, build_phases, build_plan, choose_parent
from gpuadmin.images.facts import Facts
from tests.support.image_facts import A, B, entry, node


@pytest.mark.parametrize(
    ("golden", "nodes", "store", "expected"),
    [
        ({"a": A}, {}, {}, "a"),
        ({"a": A, "b": B}, {"n": {"a": A, "b": B}}, {"a": 1, "b": 2}, "b"),
        ({"a": A, "b": B}, {"n": {"a": A}}, {"a": 1, "b": 2}, "a"),
        ({"a": A, "b": B}, {"n": {"b": B}, "m": {"a": A}}, {"a": 1, "b": 2}, None),
        ({"a": A}, {"n": {"a": B}}, {"a": 1}, None),
        ({"base": A, "b": B}, {"n": {"base": A, "b": B}}, {"b": 5}, "b"),
        ({}, {"n": {"a": A}}, {}, None),
    ],
)
def test_the_parent_is_the_newest_that_all_hold(
    golden: dict[str, str], nodes: dict[str, dict[str, str]], store: dict[str, int], expected: str | None
) -> None:
    facts = Facts({name: entry(name, created) for name, created in store.items()})
    held = {name: node(held=images) for name, images in nodes.items()}
    assert choose_parent(node(held=golden), [*held.values()], facts) == expected


def test_what_was_refused_is_nobodys_parent() -> None:
    facts = Facts({"a": entry("a", 1), "b": entry("b", 2)})
    both = {"a": A, "b": B}
    assert choose_parent(node(held=both), [node(held=both)], facts) == "b"
    assert choose_parent(node(held=both), [node(held=both, refused={"b": "panicked"})], facts) == "a"


def test_phases_of_a_build_that_was_cut_off() -> None:
    assert build_phases(node(), "b") == ["main", "finish", "seal"]
    assert build_phases(node(running="b", current="b", roots=["a", "b"]), "b") == ["seal"]
    assert build_phases(node(held={"a": A, "b": B}), "b") == ["seal"]
    with pytest.raises(ConfigError, match="sshd does not greet"):
        build_phases(node(roots=["a", "b"], refused={"b": "sshd does not greet"}), "b")


def test_a_build_that_was_cut_off_after_it_was_finished_is_tried() -> None:
    assert build_phases(node(roots=["a", "b"]), "b") == ["finish", "seal"]
    assert build_phases(node(roots=["a", "b.new"]), "b") == ["main", "finish", "seal"]


@pytest.mark.parametrize(
    ("request_", "phases", "parent", "words"),
    [
        (
            BuildRequest("b", upgrade=True),
            ["main", "finish", "seal"],
            "a",
            ["upgrade all", "on trial", "difference to a"],
        ),
        (BuildRequest("b", shell=True, full=True), ["main", "seal"], "a", ["in a shell", "and in full"]),
        (BuildRequest("b", playbook=Path("/x.yml")), ["main"], None, ["run /x.yml", "in full"]),
        (BuildRequest("b"), ["seal"], None, ["seal b"]),
    ],
)
def test_the_plan_of_a_build(request_: BuildRequest, phases: list[str], parent: str | None, words: list[str]) -> None:
    plan = build_plan("node1", node(people=["minji"]), request_, phases, parent, {"node2": "no answer"})
    text = " ".join(step.action for step in plan.steps)
    assert all(word in text for word in words)
    assert ("minji" in " ".join(plan.warnings)) == ("finish" in phases)
    assert "node2 was not asked" in plan.warnings[-1]
