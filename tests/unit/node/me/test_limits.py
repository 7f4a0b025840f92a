"""gpuadmin-me limits: used and most, as the kernel has them; what is not known is said and never guessed."""

import os
import re
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.me import limits

UID = 20001
GIB = 1 << 30
HOME = {
    "path": "/home/minji", "used": 412 * 10**9, "whole": True, "free": 3 * 10**12, "bytes": 8 * 10**12,
    "amount": {"bytes": 412 * 10**9, "most": 500 * 10**9, "held": True, "when": 0.0, "partial": False},
}  # fmt: skip
SCRATCH = {
    "path": "/local/minji", "free": 10**12, "bytes": 2 * 10**12,
    "amount": {"bytes": 199 * 10**9, "most": 200 * 10**9, "held": True, "when": None, "partial": False},
}  # fmt: skip


def on(root: Path, **files: str) -> Subject:
    """minji on a host whose kernel counts this of her; `together`: of all people."""
    slices = root / "sys/fs/cgroup/user.slice"
    own = slices / f"user-{UID}.slice"
    own.mkdir(parents=True)
    for name, text in files.items():
        at = slices / "memory.max" if name == "together" else own / name.replace("_", ".", 1)
        at.write_text(f"{text}\n")
    return Subject(name="minji", uid=UID, homes="/home", docker=None, own=True, root=str(root))


def shown(subject: Subject, language: str = "en") -> list[str]:
    found = {"home": HOME, "docker": None, "scratch": SCRATCH, "slice": limits.look_at_slice(subject, 0.01)}
    return list(limits.lines(subject, found, "gpu1", language))


def test_limits_of_ones_own(tmp_path: Path) -> None:
    counts = {
        "cpu_stat": "usage_usec 5000000", "cpu_max": "1600000 100000", "memory_current": str(40 * GIB),
        "memory_max": str(96 * GIB), "pids_current": "212", "pids_max": "123456",
    }  # fmt: skip
    assert shown(on(tmp_path, **counts)) == [
        "minji@gpu1",
        "  processors: 0.0 of 16",
        "  memory (GiB): 40.0 of 96",
        "  processes: 212 of 123456",
        "  home: /home/minji: 412.0 GB of 500.0 GB (82%); 3.0 TB of 8.0 TB left for everybody",
        "  scratch: /local/minji: 199.0 GB of 200.0 GB (99%); 1.0 TB of 2.0 TB left for everybody",
    ]
    (tmp_path / "2").mkdir()
    korean = shown(on(tmp_path / "2", **counts), "ko")
    assert korean[1:4] == ["  CPU(개): 16 중 0.0", "  메모리(GiB): 96 중 40.0", "  프로세스(개): 123456 중 212"]
    assert korean[5] == "  임시 공간: /local/minji: 한도 200.0 GB 중 199.0 GB 사용(99%), 2.0 TB 중 1.0 TB 남음"


def test_without_a_limit_it_is_the_nodes(tmp_path: Path) -> None:
    """All people together leave some memory to the system, so that is what somebody can have."""
    counts = {"cpu_stat": "usage_usec 5", "cpu_max": "max 100000", "memory_max": "max", "pids_current": "7"}
    lines = shown(on(tmp_path, **counts, memory_current=str(GIB // 2), pids_max="max", together=str(GIB)))
    assert lines[1] == f"  processors: 0.0 of {os.cpu_count()} (the whole node: you have no limit)"
    assert lines[2] == "  memory (GiB): 0.5 of 1 (the whole node: you have no limit)"
    assert lines[3] == "  processes: 7 of any number"


@pytest.mark.holds("what is not known is not without a limit")
def test_what_this_kernel_does_not_count(tmp_path: Path) -> None:
    lines = shown(on(tmp_path))
    assert lines[1:4] == [
        "  processors: not known of not known", "  memory (GiB): not known of not known",
        "  processes: not known of not known",
    ]  # fmt: skip
    away = {"home": "there was no answer in 5 s", "docker": None, "scratch": None, "slice": "it took too long"}
    found = list(limits.lines(on(tmp_path / "b"), away, "gpu1", "en"))
    assert found[1:] == [*lines[1:4], "  home: not known (there was no answer in 5 s)"]


@pytest.mark.parametrize("text", ["", "x y z", "-5 100000", "1.5"])
def test_what_is_no_number_is_no_limit(text: str, tmp_path: Path) -> None:
    counts = limits.look_at_slice(on(tmp_path, cpu_max=text, together=text), 0.01)
    assert counts["processors"][1] is None
    assert (counts["memory"][2] or 0) > GIB // 4


def test_both_languages_say_the_same_things() -> None:
    for key, text in limits.TEXTS["en"].items():
        assert sorted(re.findall(r"\{\d", text)) == sorted(re.findall(r"\{\d", limits.TEXTS["ko"][key])), key
