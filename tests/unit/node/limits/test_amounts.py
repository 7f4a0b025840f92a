"""What one person may have: by what a site says, by what was measured, and how they are told."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import amounts, records
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.amounts import (
    DOCKER,
    HOME,
    Amounts,
    OwnAmounts,
    Used,
)

GB = 10**9
SITE = Amounts(
    "500G", "unlimited", [OwnAmounts(["minji", "jiho"], home="1T"), OwnAmounts(["jiho"], "unlimited", "50G")],
    homes="/srv/homes", data="/local/.docker", admin="admin",
)  # fmt: skip


@pytest.mark.parametrize(
    ("name", "home", "docker"),
    [("sua", 500 * GB, None), ("minji", 1000 * GB, None), ("jiho", None, 50 * GB), ("admin", None, None)],
)
def test_whose_amount_is_what(name: str, home: int | None, docker: int | None) -> None:
    assert (SITE.most(HOME, name), SITE.most(DOCKER, name)) == (home, docker)


def test_what_a_host_is_told_in_words() -> None:
    assert SITE.words() == [
        "/srv/homes: a home may have 500.0 GB; minji, jiho: 1.0 TB; jiho: as much as there is",
        "/local/.docker: a person's Docker data may have as much as there is; jiho: 50.0 GB",
    ]
    assert Amounts("500G", data="/local/.docker").words() == []
    assert Amounts(people=[OwnAmounts(["minji"], home="unlimited")], homes="/srv/homes").words() == []


@pytest.mark.parametrize(
    ("used", "held", "english", "korean"),
    [
        (449, False, "", ""),
        (450, False, "450.0 GB of 500.0 GB (90%). Please stay below it", "한도 500.0 GB 중 450.0 GB 사용(90%)"),
        (600, True, "(120%). At 100% nothing more can be written", "더 이상 쓸 수 없습니다"),
    ],
)
def test_what_people_read_at_log_in(used: int, held: bool, english: str, korean: str) -> None:
    found = Used(used * GB, 500 * GB, held)
    for language, words in (("en", english), ("ko", korean)):
        said = amounts.warning(HOME, found, language)
        assert words in said
        assert said.count("\n") == bool(words)


@pytest.mark.parametrize(
    "text", [None, "", "{}", "[]", '{"bytes": 1, "most": 0, "when": 1, "partial": false}', '{"bytes": "x"}', "[" * 9999]
)
def test_what_is_damaged_or_not_there_is_not_known(tmp_path: Path, text: str | None) -> None:
    at = tmp_path / amounts.OF_HOMES
    at.mkdir()
    if text is not None:
        (at / "minji.json").write_text(text)
    assert amounts.of_home(str(tmp_path), "minji") is None


def test_what_the_storage_host_says_of_a_home(tmp_path: Path) -> None:
    at = tmp_path / amounts.OF_HOMES
    at.mkdir()
    (at / "minji.json").write_text('{"bytes": 412, "most": 500, "held": true, "when": 9.0, "partial": true}')
    assert amounts.of_home(str(tmp_path), "minji") == Used(412, 500, held=True, when=9.0, partial=True)
    (at / "jiho.json").symlink_to(at / "minji.json")
    assert amounts.of_home(str(tmp_path), "jiho") is None


@pytest.mark.root
@pytest.mark.holds(
    "a place is its person's before it has its name",
    "a place that a power cut left half made keeps nobody from theirs",
)
def test_a_place_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that exists is left alone: half made it would stay so."""
    state = tmp_path / "state"
    named: list[tuple[str, int, int]] = []
    state.mkdir()
    records.record(str(state / amounts.RECORD), Amounts(docker="50G", data=str(tmp_path)))
    (tmp_path / ".minji.gpuadmin-new").mkdir()

    def create(path: str) -> bool:
        Path(path).mkdir()
        return True

    def rename(old: str, new: str) -> None:
        facts = Path(old).stat()
        named.append((new, facts.st_mode & 0o7777, facts.st_uid))

    monkeypatch.setattr(btrfs, "try_create", create)
    monkeypatch.setattr(amounts.os, "rename", rename)
    amounts.make_place(str(tmp_path / "minji"), "minji", 20001, 20001, str(state))
    assert named == [(str(tmp_path / "minji"), 0o700, 20001)]


@pytest.mark.parametrize("recorded", [None, "{", Amounts(docker="50G", data="/elsewhere", admin="minji")])
@pytest.mark.root
def test_without_an_amount_a_place_is_a_directory(tmp_path: Path, recorded: Amounts | str | None) -> None:
    state, path = tmp_path / "state", tmp_path / "minji"
    state.mkdir()
    if isinstance(recorded, str):
        (state / amounts.RECORD).write_text(recorded)
    elif recorded is not None:
        records.record(str(state / amounts.RECORD), recorded)
    for _ in range(2):
        amounts.make_place(str(path), "minji", 20001, 20001, str(state))
        facts = path.stat()
        assert (facts.st_mode & 0o7777, facts.st_uid, facts.st_gid) == (0o700, 20001, 20001)
    assert {one.name for one in tmp_path.iterdir()} == {"state", "minji"}
