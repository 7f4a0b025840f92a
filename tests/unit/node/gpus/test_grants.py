"""Grants as files: what holds, what is chosen, and that whatever is odd opens nothing."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant

from tests.support.gated_host import read_only

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


@pytest.mark.holds("a grant's id is not a path")
def test_what_may_not_be_written(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="nobody's who needs a grant"):
        grants.write(replace(ONE, uid=0), str(tmp_path))
    for reason in ("a\x1b[2J", "x" * (grants.LONGEST + 1)):
        with pytest.raises(NodeError, match="printable"):
            grants.write(replace(ONE, reason=reason), str(tmp_path))
    for name in ("../a1", "", "a1/b", "x" * 41):
        with pytest.raises(NodeError, match="no usable id"):
            grants.write(replace(ONE, id=name), str(tmp_path))
    assert grants.read(str(tmp_path)) == ([], [])


def test_a_number_is_of_those_that_nobody_has() -> None:
    there = ["GPU-0", "GPU-1", "GPU-2"]
    assert grants.choose(1, there, [ONE], 1500) == ["GPU-1"]
    assert grants.choose(2, there, [ONE], 1500) == ["GPU-1", "GPU-2"]
    with pytest.raises(NodeError, match="asked for: 3; granted to nobody: 2 of 3"):
        grants.choose(3, there, [ONE], 1500)
    assert grants.choose(3, there, [ONE], 2000) == there, "what is over keeps nothing"


def test_what_somebody_has_is_not_given_to_another() -> None:
    with pytest.raises(NodeError, match=r"granted to minji \(grant a1\)"):
        grants.choose(["GPU-0"], ["GPU-0", "GPU-1"], [ONE], 1500)
    assert grants.choose(1, ["GPU-0", "GPU-1"], [ONE], 500) == ["GPU-1"], "a clock was put back"
    with pytest.raises(NodeError, match="there is no GPU GPU-9; there are: GPU-0"):
        grants.choose(["GPU-9"], ["GPU-0"], [], 1500)


def damaged(directory: Path, **other: object) -> list[str]:
    """What is wrong with the grant a1 that has these fields; b2 is always as it was."""
    grants.write(OTHER, str(directory))
    (directory / grants.DIRECTORY / "a1.json").write_text(json.dumps({**asdict(ONE), **other}))
    found, problems = grants.read(str(directory))
    assert found == [OTHER]
    return problems


@pytest.mark.holds("root and daemons are granted nothing")
@pytest.mark.parametrize("uid", [-1, 0, 33, 999, 2**32 - 1, 2**40])
def test_uids_that_are_nobody_s(tmp_path: Path, uid: int) -> None:
    (problem,) = damaged(tmp_path, uid=uid)
    assert "nobody's who needs a grant" in problem


@pytest.mark.holds("a grant ends at a time that dates can say")
@pytest.mark.parametrize("until", [grants.LATEST + 1, 10**18, 10**400])
def test_an_end_that_no_date_can_say(tmp_path: Path, until: int) -> None:
    (problem,) = damaged(tmp_path, until=until)
    assert "is not a time" in problem


def test_a_file_that_is_too_large_or_too_deep(tmp_path: Path) -> None:
    grants.write(OTHER, str(tmp_path))
    (tmp_path / grants.DIRECTORY / "a1.json").write_text("[" * 60_000)
    (tmp_path / grants.DIRECTORY / "c3.json").write_bytes(b" " * (grants.LARGEST + 1))
    found, problems = grants.read(str(tmp_path))
    assert found == [OTHER]
    assert "c3.json is larger than any grant" in problems[1]


def test_what_is_no_file(tmp_path: Path) -> None:
    grants.write(OTHER, str(tmp_path))
    directory = tmp_path / grants.DIRECTORY
    (directory / "a1.json").mkdir()
    (directory / "c3.json").symlink_to(directory / "b2.json")
    (directory / "d4.json").symlink_to("/dev/zero")
    found, problems = grants.read(str(tmp_path))
    assert found == [OTHER]
    assert [problem.split()[0].rpartition("/")[2] for problem in problems] == ["a1.json", "c3.json", "d4.json"]


@pytest.mark.root
@pytest.mark.holds("who can write a grant is root alone")
def test_what_others_can_write_opens_nothing(tmp_path: Path) -> None:
    for one in (ONE, OTHER):
        grants.write(one, str(tmp_path))
    directory = tmp_path / grants.DIRECTORY
    os.chown(directory / "a1.json", ONE.uid, -1)
    found, (problem,) = grants.read(str(tmp_path))
    assert (found, "a1.json can be written by others than root" in problem) == ([OTHER], True)
    (directory / "b2.json").chmod(0o666)
    assert grants.read(str(tmp_path))[0] == []
    directory.chmod(0o777)
    assert grants.read(str(tmp_path)) == ([], [f"no grant is known: {directory} can be written by others than root"])


@pytest.mark.holds("grants that cannot be listed are not taken for none")
def test_grants_that_cannot_be_listed_are_not_none(tmp_path: Path) -> None:
    """Whoever asks for grants to end what was not granted would end everybody's work."""
    assert grants.read(str(tmp_path)) == ([], [])
    (tmp_path / grants.DIRECTORY).write_text("")
    found, (problem,) = grants.read(str(tmp_path))
    assert (found, problem.startswith("no grant is known: ")) == ([], True)


@pytest.mark.holds("an end does not wait for a disk")
def test_what_cannot_be_removed_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for one in (ONE, OTHER):
        grants.write(one, str(tmp_path))
    with monkeypatch.context() as patch:
        read_only(patch)
        (problem,) = grants.delete(["a1"], str(tmp_path), str(tmp_path))
    assert "a1.json has ended and cannot be removed" in problem
    assert grants.read(str(tmp_path), str(tmp_path)) == ([OTHER], [])
    assert grants.delete([], str(tmp_path), str(tmp_path)) == []
    assert grants.ended(str(tmp_path)) == []
    assert grants.read(str(tmp_path), str(tmp_path)) == ([OTHER], [])


@pytest.mark.holds("after a power cut no grant is there again that has ended")
def test_an_end_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    grants.write(ONE, str(tmp_path))
    path = tmp_path / grants.DIRECTORY / "a1.json"
    synced: list[tuple[str, bool]] = []
    monkeypatch.setattr(grants, "sync_directory", lambda directory: synced.append((directory, path.exists())))
    grants.delete(["a1"], str(tmp_path), str(tmp_path))
    assert synced == [(str(path.parent), False)]


def test_a_gpu_that_is_named_twice_is_one() -> None:
    assert grants.choose(["GPU-0", "GPU-0"], ["GPU-0", "GPU-1"], [], 1500) == ["GPU-0"]
