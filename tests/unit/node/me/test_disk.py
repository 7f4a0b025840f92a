"""What somebody is told of their own disks, in both languages: their own, whatever they called it."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.me.disk import disk, lines
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import OF_PEOPLE


@pytest.fixture
def subject(tmp_path: Path) -> Subject:
    (tmp_path / "home/minji/data/\x1b[2Jset").mkdir(parents=True)
    (tmp_path / "home/minji/data/\x1b[2Jset/one").write_bytes(b"x" * 5_000_000)
    (tmp_path / "home/minji/small").mkdir()
    (tmp_path / f"var/lib/gpuadmin/{OF_PEOPLE}").mkdir(parents=True)
    return Subject(name="minji", uid=20000, root=str(tmp_path))


def told(subject: Subject, language: str) -> str:
    return "\n".join(lines(subject, disk(subject), "node1", language)).replace(subject.root, "")


def measured(subject: Subject, **held: Any) -> None:
    found = {
        "bytes": 40_000_000_000,
        "inodes": 12345,
        "when": time.time() - 7200,
        "partial": False,
        "largest": [],
        **held,
    }
    at = Path(subject.root) / f"var/lib/gpuadmin/{OF_PEOPLE}/minji.json"
    at.write_text(json.dumps({"docker": found}))


def test_ones_own_home(subject: Subject) -> None:
    text = told(subject, "en")
    assert text.startswith("minji@node1\n  /home/minji: 5.0 MB, 5 files\n")
    assert "5.0 MB  3 files  /home/minji/data\n" in text
    assert "/home/minji/data/?[2Jset" in text
    assert "\x1b" not in text
    assert "nothing is yours" in text


def test_what_root_measured_on_the_node(subject: Subject) -> None:
    measured(subject, partial=True, largest=[{"path": "/local/.docker/minji/overlay2", "bytes": 5, "inodes": 1}])
    text = told(subject, "en")
    assert "Docker on this node: 40.0 GB, 12,345 files (measured 2 h ago, at least: not all of it" in text
    assert " 1 file  /local/.docker/minji/overlay2" in text
    assert text.endswith("docker system prune removes what no container uses.")


def test_in_korean(subject: Subject) -> None:
    measured(subject)
    text = told(subject, "ko")
    assert "이 노드의 Docker: 40.0 GB, 12,345개 파일 (2시간 전에 측정)" in text
    assert "docker system prune을 실행하면" in text


def test_a_home_that_cannot_be_looked_at(subject: Subject, tmp_path: Path) -> None:
    (tmp_path / "home/minji").rename(tmp_path / "away")
    (tmp_path / "home/minji").symlink_to(tmp_path / "away")
    assert "/home/minji: not known (" in told(subject, "en")


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000])
def test_a_file_that_says_nothing(subject: Subject, text: str) -> None:
    (Path(subject.root) / f"var/lib/gpuadmin/{OF_PEOPLE}/minji.json").write_text(text)
    assert "nothing is yours" in told(subject, "en")


@pytest.mark.parametrize(
    ("language", "words"), [("en", "there is none (gpuadmin-me check"), ("ko", "없음 (이유: gpuadmin-me check")]
)
def test_a_home_that_is_not_there(subject: Subject, language: str, words: str) -> None:
    Path(subject.root, "home/minji").rename(Path(subject.root, "home/gone"))
    text = told(subject, language)
    assert f"/home/minji: {words}" in text
    assert "Errno" not in text
