"""When a provisioned lab of an earlier session may stand in for one that would be made now."""

import os
import time
from pathlib import Path

import pytest

from tests.support import labs


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for base in labs.MADE_FROM:
        (tmp_path / base / "deep").mkdir(parents=True)
        (tmp_path / base / "deep" / "file").write_text("as it was")
    return tmp_path


def test_what_it_is_made_from_is_there() -> None:
    assert [base for base in labs.MADE_FROM if not (labs.REPOSITORY / base).is_dir()] == []


@pytest.mark.parametrize("base", labs.MADE_FROM)
def test_a_change_of_what_runs_there_is_another_key(tree: Path, base: str) -> None:
    before = labs.key_of(("--nodes", "2"), tree)
    assert labs.key_of(("--nodes", "2"), tree) == before
    assert labs.key_of(("--nodes", "3"), tree) != before
    (tree / base / "__pycache__").mkdir()
    (tree / base / "__pycache__" / "file.pyc").write_text("compiled")
    assert labs.key_of(("--nodes", "2"), tree) == before
    (tree / base / "deep" / "file").rename(tree / base / "deep" / "other")
    renamed = labs.key_of(("--nodes", "2"), tree)
    (tree / base / "deep" / "other").write_text("as it is")
    assert len({before, renamed, labs.key_of(("--nodes", "2"), tree)}) == 3


def test_only_of_the_same_and_not_of_long_ago(tmp_path: Path) -> None:
    made_from = tmp_path / "made-from"
    assert not labs.is_of(made_from, "key")
    made_from.write_text("key")
    assert labs.is_of(made_from, "key")
    assert not labs.is_of(made_from, "another")
    old = time.time() - labs.OLDEST - 1
    os.utime(made_from, (old, old))
    assert not labs.is_of(made_from, "key")
