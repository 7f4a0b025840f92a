"""Used tokens: they are on disk before somebody comes in, survive restarts and cut lines, and take bounded room."""

from pathlib import Path

import pytest

from gpuadmin.dashboard import used_tokens
from gpuadmin.dashboard.files import DashboardError
from gpuadmin.dashboard.used_tokens import Full, UsedTokens

NOW = 1_800_000_000.0


def digest(number: int) -> str:
    return f"{number:064x}"


def test_once(tmp_path: Path) -> None:
    path = str(tmp_path / "spent")
    one = UsedTokens(path, NOW)
    assert one.spend(digest(1), "node1", NOW + 60, NOW)
    assert not one.spend(digest(1), "node1", NOW + 60, NOW)
    again = UsedTokens(path, NOW + 59)
    assert again.has(digest(1))
    assert not again.spend(digest(1), "node1", NOW + 60, NOW + 59)
    assert (again.since, Path(path).stat().st_mode & 0o777) == (int(NOW), 0o600)


def test_what_is_over_is_forgotten(tmp_path: Path) -> None:
    path = str(tmp_path / "spent")
    UsedTokens(path, NOW).spend(digest(1), "node1", NOW + 60, NOW)
    assert not UsedTokens(path, NOW + 61).has(digest(1))
    assert Path(path).read_text() == f"{int(NOW)}\n"


def test_a_line_that_was_cut_is_no_line_and_the_next_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "spent"
    UsedTokens(str(path), NOW).spend(digest(1), "node1", NOW + 60, NOW)
    path.write_text(path.read_text() + f"{int(NOW) + 60} node1 00")
    again = UsedTokens(str(path), NOW)
    assert again.spend(digest(2), "node1", NOW + 60, NOW)
    third = UsedTokens(str(path), NOW)
    assert third.has(digest(1))
    assert third.has(digest(2))


def test_a_disk_that_was_full_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a line is on disk: what is spent next must be read again all the same."""
    path = tmp_path / "spent"
    one, write = UsedTokens(str(path), NOW), used_tokens.os.write
    monkeypatch.setattr(used_tokens.os, "write", lambda handle, data: write(handle, data[:7]))
    with pytest.raises(DashboardError, match="full"):
        one.spend(digest(1), "node1", NOW + 60, NOW)
    monkeypatch.undo()
    assert not one.spend(digest(1), "node1", NOW + 60, NOW), "it counts as spent"
    assert one.spend(digest(2), "node1", NOW + 60, NOW)
    again = UsedTokens(str(path), NOW)
    assert again.has(digest(1))
    assert again.has(digest(2))


def test_one_signers_do_not_fill_it_for_others(tmp_path: Path) -> None:
    one = UsedTokens(str(tmp_path / "spent"), NOW)
    for number in range(1000):
        assert one.spend(digest(number), "node1", NOW + 60, NOW)
    with pytest.raises(Full, match="node1"):
        one.spend(digest(1000), "node1", NOW + 60, NOW)
    assert one.spend(digest(1000), "node2", NOW + 60, NOW)
    assert one.spend(digest(1001), "node1", NOW + 200, NOW + 62), "and it ends by itself"


def test_one_persons_do_not_fill_it_for_others_of_the_same_node(tmp_path: Path) -> None:
    path = str(tmp_path / "spent")
    one = UsedTokens(path, NOW)
    for number in range(50):
        assert one.spend(digest(number), "node1~minji", NOW + 60, NOW)
    for at in (one, UsedTokens(path, NOW)):
        with pytest.raises(Full, match="node1~minji has 50 links"):
            at.spend(digest(50), "node1~minji", NOW + 60, NOW)
    assert one.spend(digest(51), "node1~jiho", NOW + 60, NOW)
    assert one.spend(digest(52), "node2~minji", NOW + 60, NOW)
    assert one.spend(digest(53), "node1~minji", NOW + 200, NOW + 62), "and it ends by itself"


def test_whoever_signs_in_many_names_is_one_signer(tmp_path: Path) -> None:
    one = UsedTokens(str(tmp_path / "spent"), NOW)
    for number in range(1000):
        assert one.spend(digest(number), f"node1~u{number}", NOW + 60, NOW)
    with pytest.raises(Full, match="node1 has 1000 links"):
        one.spend(digest(1000), "node1~minji", NOW + 60, NOW)


def test_the_file_does_not_grow_without_end(tmp_path: Path) -> None:
    path = tmp_path / "spent"
    one = UsedTokens(str(path), NOW)
    for number in range(5000):
        now = NOW + number
        one.spend(digest(number), "node1", now + 1, now)
    assert len(path.read_text().splitlines()) < 2100


@pytest.mark.parametrize("text", ["", "x\n", "{}"])
def test_a_file_of_something_else_is_not_taken_for_an_empty_one(text: str, tmp_path: Path) -> None:
    (tmp_path / "spent").write_text(text)
    with pytest.raises(DashboardError, match="remove it"):
        UsedTokens(str(tmp_path / "spent"), NOW)
