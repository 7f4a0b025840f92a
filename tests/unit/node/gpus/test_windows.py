"""Windows of maintenance on a node: no grant runs into one."""

import json
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.logins.announcements import find_window

TEXT = {"id": "x", "begin": 0, "end": 9000, "text": "x"}
NEXT = {**TEXT, "closed_from": 1000, "closed_until": 2000}
LATER = {**TEXT, "closed_from": 5000, "closed_until": 6000}
CASES = {
    "before it": ([NEXT], 100, 900, 900),
    "until it": ([NEXT], 100, 1000, 1000),
    "into it": ([LATER, NEXT], 100, 1500, 1000),
    "over both": ([LATER, NEXT], 100, 9000, 1000),
    "in it": ([NEXT], 1500, 3000, 1500),
    "between them": ([LATER, NEXT], 2000, 9000, 5000),
    "after them": ([LATER, NEXT], 6000, 9000, 9000),
    "other announcements": ([TEXT], 100, 900, 900),
    "a damaged file": ("x", 100, 900, 900),
    "odd entries": ([{**NEXT, "closed_until": "x"}, 3], 100, 900, 900),
}


@pytest.mark.parametrize(("written", "begin", "until", "end"), CASES.values(), ids=CASES)
def test_when_a_grant_ends(tmp_path: Path, written: object, begin: int, until: int, end: int) -> None:
    (tmp_path / "announcements.json").write_text(json.dumps(written))
    assert find_window(str(tmp_path), begin, until) == end


@pytest.mark.root
@pytest.mark.holds("no grant runs into a window")
def test_a_grant_that_was_given_before(tmp_path: Path) -> None:
    """It ends before the window, and has its time again when that is called off. Slurm's own jobs are Slurm's."""
    for id, source in (("a1", ""), ("slurm-4", grants.SOURCE)):
        given = grants.Grant(id, "minji", 20001, ["0"], 100, 3000, "kim", "", source or "admin")
        grants.write(given, str(tmp_path))
    (tmp_path / "announcements.json").write_text(json.dumps([NEXT]))
    assert {one.id: one.until for one in grants.read(str(tmp_path), str(tmp_path))[0]} == {"a1": 1000, "slurm-4": 3000}
    (tmp_path / "announcements.json").unlink()
    assert {one.until for one in grants.read(str(tmp_path), str(tmp_path))[0]} == {3000}
