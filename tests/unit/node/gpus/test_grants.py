"""Grants as files: what holds, what is chosen, and that whatever is odd opens nothing."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant

ONE = Grant("a1", "minji", 20000, ["GPU-0"], 1000, 2000, "root@nas", "deadline")
OTHER = replace(ONE, id="b2", user="jiho", uid=20001, gpus=["GPU-1"])


@pytest.mark.parametrize(("now", "holds"), [(999, False), (1000, True), (1999, True), (2000, False), (9000, False)])
def test_when_a_grant_holds(now: int, holds: bool) -> None:
    assert ONE.holds(now) is holds


def test_everybody_has_the_union_of_their_own() -> None:
    more = replace(ONE, id="c3", gpus=["GPU-2", "GPU-0"])
    over = replace(ONE, id="d4", gpus=["GPU-3"], until=1100)
    assert grants.by_uid([ONE, OTHER, more, over], 1500) == {20000: ["GPU-0", "GPU-2"], 20001: ["GPU-1"]}


def test_what_is_written_is_read(tmp_path: Path) -> None:
    grants.write(ONE, str(tmp_path))
    grants.write(OTHER, str(tmp_path))
    assert grants.read(str(tmp_path)) == ([ONE, OTHER], [])
    grants.delete(["a1", "gone"], str(tmp_path))
    assert grants.read(str(tmp_path)) == ([OTHER], [])


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", "\\xff", json.dumps({**asdict(ONE), "uid": "x"}), json.dumps({**asdict(ONE), "id": "z9"}),
     json.dumps({**asdict(ONE), "uid": 0}), json.dumps({**asdict(ONE), "gpus": []}),
     json.dumps({**asdict(ONE), "gpus": ["../../dev/sda"]}), json.dumps({**asdict(ONE), "until": 999})],
)  # fmt: skip
def test_a_damaged_file_opens_nothing_and_stops_no_other(tmp_path: Path, text: str) -> None:
    grants.write(OTHER, str(tmp_path))
    (tmp_path / grants.DIRECTORY / "a1.json").write_text(text)
    found, problems = grants.read(str(tmp_path))
    assert found == [OTHER]
    assert len(problems) == 1
    assert "a1.json opens nothing" in problems[0]


def test_what_may_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="nobody's who needs a grant"):
        grants.write(replace(ONE, uid=0), str(tmp_path))
    with pytest.raises(NodeError, match="printable"):
        grants.write(replace(ONE, reason="a\x1b[2J"), str(tmp_path))
    assert grants.read(str(tmp_path)) == ([], [])


def test_a_number_is_of_those_that_nobody_has() -> None:
    there = ["GPU-0", "GPU-1", "GPU-2"]
    assert grants.choose(1, there, [ONE], 1500) == ["GPU-1"]
    assert grants.choose(2, there, [ONE], 1500) == ["GPU-1", "GPU-2"]
    with pytest.raises(NodeError, match="3 of 3 GPUs were asked for, and 2 are not granted"):
        grants.choose(3, there, [ONE], 1500)
    assert grants.choose(3, there, [ONE], 2000) == there, "what is over keeps nothing"


def test_what_somebody_has_is_not_given_to_another() -> None:
    with pytest.raises(NodeError, match=r"granted to minji \(grant a1\)"):
        grants.choose(["GPU-0"], ["GPU-0", "GPU-1"], [ONE], 1500)
    with pytest.raises(NodeError, match="there is no GPU GPU-9; there are: GPU-0"):
        grants.choose(["GPU-9"], ["GPU-0"], [], 1500)
