"""What is out of sight in the home root is named, whatever is there."""

from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.module_utils.homes import trash


def test_what_is_out_of_sight_is_named_by_backup_and_person(tmp_path: Path) -> None:
    assert trash.names(str(tmp_path)) == []
    place = tmp_path / trash.TRASH
    for name in ("two/minji", "one/jiho", "one/ahn", "empty"):
        (place / name).mkdir(parents=True)
    (place / "file").write_text("of nobody's")
    assert trash.names(str(tmp_path)) == ["one/ahn", "one/jiho", "two/minji"]


def test_a_backup_says_what_it_does_not_hold(tmp_path: Path) -> None:
    (tmp_path / trash.TRASH / "one/a\nb").mkdir(parents=True)
    [(name, why)] = trash.problems(str(tmp_path)).items()
    assert "\n" not in name
    assert "clear-leftovers" in why
