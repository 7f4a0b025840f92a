"""What somebody has: counted within bounds, and what is not known is said."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.me import overview

from tests.support.me_overview import FOUND

CHAGE = """Last password change : Nov 22, 2026
Password expires : never
Account expires : {0}
Minimum number of days between password change : 0
"""


@pytest.mark.parametrize(("words", "day"), [("Mar 01, 2027", "2027-02-28"), ("never", None)])
def test_the_last_day(words: str, day: str | None) -> None:
    assert overview.parse_expiry(CHAGE.format(words)) == day


@pytest.mark.holds("a count of a home enters nothing that is mounted there")
def test_what_is_mounted_in_a_home_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mounted").mkdir()
    (tmp_path / "mounted/file").write_bytes(b"x" * 100_000)
    real = overview._list_entries

    def entries(directory: str) -> Iterator[tuple[os.stat_result, str]]:
        for facts, path in real(directory):
            values = list(facts[:10])
            values[2] += path.endswith("mounted")  # st_dev
            yield os.stat_result([*values, *([0.0] * 6), 512, 8]), path

    monkeypatch.setattr(overview, "_list_entries", entries)
    assert overview.count_bytes(str(tmp_path), 10) == (0, True)


def test_a_chage_that_does_not_say_it() -> None:
    with pytest.raises(NodeError):
        overview.parse_expiry("chage: Permission denied.\n")


def test_links_are_not_followed_and_counting_ends(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a/file").write_bytes(b"x" * 100_000)
    (tmp_path / "a/all").symlink_to("/")
    counted, whole = overview.count_bytes(str(tmp_path), 10)
    assert whole
    assert 100_000 <= counted < 1_000_000
    assert not overview.count_bytes(str(tmp_path), -1)[1]


def test_what_is_printed() -> None:
    nodes = [{"name": "node1", "address": "10.0.0.1"}, {"name": "node2", "address": "10.0.0.2"}]
    output = overview.lines(Subject(name="minji"), FOUND, "node1", nodes, "en")
    assert output[0] == "minji@node1"
    assert output[2] == "  nodes: node1 (10.0.0.1), node2 (10.0.0.2)"
    assert output[3] == "  home: /home/minji: more than 5.0 GB are yours; 1.0 TB of 4.0 TB left for everybody"
    assert output[5] == "  GPUs: 0 H100: yours, 1 H100: used by others, 2 H100: free"
    korean = overview.lines(Subject(name="minji"), FOUND, "node1", nodes, "ko")
    assert korean[3] == "  홈: /home/minji: 사용 5.0 GB 이상, 모두가 함께 쓰는 4.0 TB 중 1.0 TB 남음"


@pytest.mark.parametrize(
    ("whole", "english", "korean"),
    [
        (
            False,
            "more than 412.0 GB of 500.0 GB (82%, measured 5 h ago)",
            "한도 500.0 GB 중 412.0 GB 이상 사용(82%, 5시간 전에 측정)",
        ),
        (True, "5.0 GB of 500.0 GB (1%)", "한도 500.0 GB 중 5.0 GB 사용(1%)"),
    ],
)  # fmt: skip
def test_what_somebody_has_of_their_amount(whole: bool, english: str, korean: str) -> None:
    """A home that could be counted is of now; a large one was measured by the storage host."""
    amount = {
        "bytes": 412 * 10**9, "most": 500 * 10**9, "held": False, "when": time.time() - 5.5 * 3600, "partial": True,
    }  # fmt: skip
    docker = {"path": "/local/.docker/minji", "free": 10**12, "bytes": 2 * 10**12,
              "amount": {**amount, "when": None, "partial": False}}  # fmt: skip
    found = {**FOUND, "home": {**FOUND["home"], "whole": whole, "amount": amount}, "docker": docker}
    output = overview.lines(Subject(name="minji"), found, "node1", [], "en")
    assert output[3] == f"  home: /home/minji: {english}; 1.0 TB of 4.0 TB left for everybody"
    assert (
        output[4] == "  Docker: /local/.docker/minji: 412.0 GB of 500.0 GB (82%); 1.0 TB of 2.0 TB left for everybody"
    )
    output = overview.lines(Subject(name="minji"), found, "node1", [], "ko")
    assert output[3] == f"  홈: /home/minji: {korean}, 모두가 함께 쓰는 4.0 TB 중 1.0 TB 남음"
    assert output[4] == "  Docker: /local/.docker/minji: 한도 500.0 GB 중 412.0 GB 사용(82%), 2.0 TB 중 1.0 TB 남음"


GRANTED = {
    "gpus": 3,
    "grants": [
        {"user": "jiho", "gpus": ["0"], "until": 1_800_000_000, "who": "root@nas", "reason": "a course"},
        {"user": "minji", "gpus": ["1"], "until": 1_800_003_600, "who": "root@nas", "reason": ""},
    ],
}


@pytest.mark.parametrize(
    ("language", "words"),
    [
        (
            "en",
            ["  GPUs: given on request here: ask your admins", "  GPU 1: yours until {1} (root@nas)",
             "  GPU 0: jiho until {0} (root@nas: a course)", "  GPU 2: granted to nobody"],
        ),
        (
            "ko",
            ["  GPU: 신청하면 관리자가 배정합니다", "  GPU 1: 본인, {1}까지 (root@nas)",
             "  GPU 0: jiho, {0}까지 (root@nas: a course)", "  GPU 2: 배정되지 않음"],
        ),
    ],
)  # fmt: skip
def test_what_is_yours_until_when_and_who_has_the_others(language: str, words: list[str]) -> None:
    output = overview.lines(Subject(name="minji"), {**FOUND, "granted": GRANTED}, "node1", [], language)
    ends = [overview._moment(1_800_000_000 + later) for later in (0, 3600)]
    assert output[5:-1] == [line.format(*ends) for line in words]
    assert overview.lines(Subject(name="minji"), {**FOUND, "granted": None}, "node1", [], language) == overview.lines(
        Subject(name="minji"), FOUND, "node1", [], language
    )


def test_what_is_not_known_is_said() -> None:
    found = {**FOUND, "home": "did not end within 5 seconds", "expires": "chage does not say it"}
    output = overview.lines(Subject(name="minji"), found, "node1", [], "en")
    assert output[1] == "  account: not known (chage does not say it)"
    assert output[3] == "  home: not known (did not end within 5 seconds)"


@pytest.mark.parametrize(
    ("language", "words"), [("en", "  home: none (gpuadmin-me"), ("ko", "  홈: 없음 (이유: gpuadmin-me")]
)
def test_a_home_that_is_not_there(tmp_path: Path, language: str, words: str) -> None:
    subject = Subject(name="minji", uid=20000, root=str(tmp_path))
    assert overview.home(subject) is None
    assert words in "\n".join(overview.lines(subject, {**FOUND, "home": None}, "node1", [], language))
