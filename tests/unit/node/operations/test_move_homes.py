"""What a verb asks a host for while homes are moved: in check mode nothing, and one person's trouble stays theirs."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.moving import aside, record
from ansible_collections.gpuadmin.node.plugins.module_utils.moving.aside import Old
from ansible_collections.gpuadmin.node.plugins.module_utils.operations import move_homes
from ansible_collections.gpuadmin.node.plugins.module_utils.operations.move_homes import Document

HOMES = [Old("minji", 31001, 1, 2, "c"), Old("jiho", 31002, 1, 3, "c")]


@pytest.mark.parametrize("step", ["aside", "discard"])
def test_check_mode_moves_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Any) -> None:
    for name in ("set_aside", "discard"):
        monkeypatch.setattr(aside, name, lambda *_: pytest.fail("check mode"))
    answer = move_homes.operate(Document(step, "/home", old=HOMES, state_directory=str(tmp_path)), True)
    assert [one.split(":")[0] for one in answer.operations] == ["minji", "jiho"]


def test_one_persons_trouble_ends_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def odd(_path: str, _state: str, old: Old) -> None:
        if old.name == "minji":
            raise NodeError("has changed")

    monkeypatch.setattr(aside, "set_aside", odd)
    answer = move_homes.operate(Document("aside", "/home", old=HOMES, state_directory=str(tmp_path)), False)
    assert answer.report["moved"] == {"parts": [{"name": "jiho"}], "problems": {"minji": "has changed"}}
    assert answer.operations == ["jiho: the old home renamed"]


@pytest.mark.holds("what a node says leads to no file elsewhere")
def test_what_a_node_says_is_gone_leads_to_no_other_file(tmp_path: Path) -> None:
    """A person has put it into their home on the storage host, and a node says that it is done with that one."""
    record.make(str(tmp_path))
    homes = tmp_path / "homes"
    (homes / "evil@").mkdir(parents=True)
    (homes / "victim.gz").write_bytes(b"precious")
    part = record.Part("../homes/evil", 1, "/../victim", True, False, 1, 1)
    (homes / "evil@gpu1.json").write_text(json.dumps({"format": record.FORMAT, **asdict(part)}))
    document = Document(
        "forget", "/home", parts=[{"name": "../homes/evil", "host": "gpu1"}], state_directory=str(tmp_path)
    )
    with pytest.raises(NodeError, match="not the home of a person"):
        move_homes.operate(document, False)
    assert (homes / "victim.gz").read_bytes() == b"precious"


def test_a_home_that_had_its_name_when_the_run_was_cut_is_noted_as_well(tmp_path: Path) -> None:
    """Else each run would keep its person out once more, and none would ever discard the old one."""
    state = str(tmp_path)
    record.save(state, record.Part("minji", 1, "gpu1", True, False, 1, 1, record.CHANGING, 5, "c"))
    document = Document("noted", "/home", parts=[{"name": "minji", "host": "gpu1"}], state_directory=state)
    move_homes.operate(document, False)
    part = record.load(state, "minji", "gpu1")
    assert part is not None
    assert part.step == record.ASIDE
