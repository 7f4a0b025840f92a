"""gpuadmin-me free and top: what somebody reads of all nodes, in both languages, and how old it is."""

import json
import re
import time
from dataclasses import asdict
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.me import cluster

from gpuadmin.common.records.cluster import ClusterNow, GpuNow, GpuPerson, NodeNow

GB = 10**9
NOW = time.mktime((2026, 11, 24, 14, 2, 0, 0, 0, -1))
H100, MIG = "NVIDIA H100 PCIe", "MIG 1g.10gb"
FOUND = ClusterNow(
    NOW,
    [
        NodeNow("gpu1", "up", True, [
            GpuNow("0", H100, "held", 0.96, 80 * GB, 61 * GB, [GpuPerson("minji", NOW + 3600)]),
            GpuNow("1", H100, "free", 0.0, 80 * GB, 0),
            GpuNow("2", "", "lost"),
            GpuNow("3", H100, "unknown", None, None, None),
        ]),
        NodeNow("gpu2", "up", True, [
            GpuNow("0.0", MIG, "free", None, 10 * GB, 0),
            GpuNow("0.1", MIG, "granted", 0.0, 10 * GB, 0, [GpuPerson("jiho")]),
            GpuNow("1", H100, "free", 0.0, 80 * GB, 0), GpuNow("2", H100, "free", 0.0, 80 * GB, 0),
        ]),
        NodeNow("gpu3", "down"), NodeNow("gpu4", "silent"), NodeNow("gpu5", "up"), NodeNow("gpu6", "up", False),
    ],
)  # fmt: skip
FREE = {
    "en": [
        "4 of 8 GPUs are free.",
        f"  {MIG}: 1 of 2 free (gpu2: 0.0)",
        f"  {H100}: 3 of 5 free (gpu1: 1, gpu2: 1 2)",
        "  gpu3: is off, or cannot be reached",
        "  gpu4: nothing is known of it now",
        "  gpu6: nothing is known of its GPUs",
    ],
    "ko": [
        "GPU 8개 중 4개가 비어 있습니다.",
        f"  {MIG}: 2개 중 1개 비어 있음 (gpu2 0.0번)",
        f"  {H100}: 5개 중 3개 비어 있음 (gpu1 1번, gpu2 1 2번)",
        "  gpu3: 꺼져 있거나 연결되지 않습니다",
        "  gpu4: 지금은 상태를 알 수 없습니다",
        "  gpu6: GPU 상태를 알 수 없음",
    ],
}


@pytest.mark.holds("only what is known to be free is said to be")
@pytest.mark.parametrize("language", ["en", "ko"])
def test_what_is_free(language: str) -> None:
    assert list(cluster.free_lines(FOUND, cluster.TEXTS[language])) == FREE[language]


def test_who_has_what() -> None:
    assert list(cluster.top_lines(FOUND, cluster.TEXTS["en"])) == [
        "gpu1",
        f"     0  {H100}  96% busy, 61.0 GB of 80.0 GB  minji until 15:02",
        f"     1  {H100}  0% busy, 0 bytes of 80.0 GB  free",
        "     2  does not answer",
        f"     3  {H100}  use not known, ?  nobody knows who has it",
        "gpu2",
        f"   0.0  {MIG}       use not known, 0 bytes of 10.0 GB  free",
        f"   0.1  {MIG}       0% busy, 0 bytes of 10.0 GB  jiho",
        f"     1  {H100}  0% busy, 0 bytes of 80.0 GB  free",
        f"     2  {H100}  0% busy, 0 bytes of 80.0 GB  free",
        "gpu3: is off, or cannot be reached",
        "gpu4: nothing is known of it now",
        "gpu5: no GPUs",
        "gpu6: nothing is known of its GPUs",
    ]
    korean = list(cluster.top_lines(FOUND, cluster.TEXTS["ko"]))
    assert f"     0  {H100}  사용률 96%, 80.0 GB 중 61.0 GB  minji(15:02까지)" in korean


@pytest.mark.holds("what is old says so")
def test_what_is_old_says_so() -> None:
    words = cluster.TEXTS["en"]
    assert cluster.age_line(NOW, NOW + 60, words) == "As of 14:02."
    old = cluster.age_line(NOW, NOW + 25 * 60, words)
    assert old == "As of 14:02, 25 min ago: the monitor host has told nothing since."
    assert "2026-11-24 14:02 기준입니다(1440분 전)" in cluster.age_line(NOW, NOW + 86400, cluster.TEXTS["ko"])


@pytest.mark.parametrize("language", ["en", "ko"])
def test_where_nothing_came(language: str, tmp_path: Path) -> None:
    words = cluster.TEXTS[language]
    assert cluster.run("free", language, str(tmp_path / "none")) == (1, [words["none"]])
    (tmp_path / "odd").write_text("{")
    code, (line,) = cluster.run("top", language, str(tmp_path / "odd"))
    assert (code, line) == (1, words["unread"].format("the cluster's state is no JSON"))


def test_what_the_dashboard_tells_is_read_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "now").write_text(json.dumps(asdict(FOUND)))
    code, lines = cluster.run("free", "en", str(tmp_path / "now"))
    assert (code, lines[:-1]) == (0, FREE["en"])


def test_no_name_is_obeyed_by_a_terminal(tmp_path: Path) -> None:
    odd = "\x1b[2Jgpu\n9"
    node = NodeNow(odd, "up", True, [GpuNow(odd, odd, "free", 0.1, 1, 1, [GpuPerson(odd)])])
    (tmp_path / "now").write_text(json.dumps(asdict(ClusterNow(NOW, [node, NodeNow(odd, "down")]))))
    for asked in ("free", "top"):
        _code, lines = cluster.run(asked, "en", str(tmp_path / "now"))
        assert len(lines) > 2
        assert not re.search(r"[\x1b\n]", "".join(lines))


def test_both_languages_say_the_same_things() -> None:
    english, korean = cluster.TEXTS["en"], cluster.TEXTS["ko"]
    assert set(english) == set(korean)
    for key, text in english.items():
        assert sorted(re.findall(r"\{\d", text)) == sorted(re.findall(r"\{\d", korean[key])), key
