"""From limits and amounts, and a machine, to what systemd and people are told: tables, and the records of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import amounts, records
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.amounts import (
    DOCKER,
    HOME,
    Amounts,
    OwnAmounts,
    Used,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.bounds import (
    Bounds,
    Machine,
    as_kernel,
    drop_ins,
    properties,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.worded import changes, listed, value

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
@pytest.mark.holds("a place that a power cut left half made keeps nobody from theirs")
@pytest.mark.holds("a place is its person's before it has its name")
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


GIB = 1 << 30
NODE = Machine(memory=64 * GIB, swap=8 * GIB, tasks=500_000, processors=32)
USUAL = Bounds("80%", "50%", "10%", "unlimited", 100)


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        (USUAL, {"MemoryMax": str(64 * GIB * 80 // 100 // 65536 * 65536), "MemorySwapMax": str(4 * GIB),
                 "TasksMax": "50000", "CPUQuota": "", "CPUWeight": "100"}),
        (Bounds(), {"MemoryMax": "infinity", "MemorySwapMax": "infinity", "TasksMax": "infinity", "CPUQuota": ""}),
        (Bounds(memory="8G", swap="0"), {"MemoryMax": str(8 * GIB), "MemorySwapMax": "0"}),
        (Bounds(processors="16"), {"CPUQuota": "1600%"}),
        (Bounds(processors="50%"), {"CPUQuota": "1600%"}),
        (Bounds(tasks="4096"), {"TasksMax": "4096"}),
    ],
)  # fmt: skip
def test_what_a_slice_is_told(bounds: Bounds, told: dict[str, str]) -> None:
    found = properties(bounds, NODE)
    assert {name: found[name] for name in told} == told


def test_a_share_of_a_small_machine_is_enough_to_log_in() -> None:
    found = properties(Bounds(memory="1%", tasks="1%"), Machine(GIB, 0, 4000, 2))
    assert (int(found["MemoryMax"]), int(found["TasksMax"])) == (128 << 20, 64)


def test_what_is_no_amount_is_an_error() -> None:
    with pytest.raises(NodeError, match="limits: 'lots' is not an amount"):
        properties(Bounds(memory="lots"), NODE)


@pytest.mark.parametrize(("memory", "kept"), [(GIB, 256 << 20), (64 * GIB, 64 * GIB // 20), (1024 * GIB, 8 * GIB)])
def test_what_all_people_together_do_not_get(memory: int, kept: int) -> None:
    assert abs(memory - Machine(memory, 0, 1, 1).for_people - kept) < 65536


def test_whose_slices_are_told() -> None:
    found = drop_ins(USUAL, {20001: Bounds(tasks="100")}, [0, 1000], NODE)
    assert found["user.slice.d/30-gpuadmin-limits.conf"].endswith(f"[Slice]\nMemoryMax={NODE.for_people}\n")
    assert "TasksMax=50000\n" in found["user-.slice.d/30-gpuadmin-limits.conf"]
    # a later name than everybody's; what is not said is as for everybody
    own = found["user-20001.slice.d/31-gpuadmin-limits.conf"]
    assert "TasksMax=100\n" in own
    assert f"MemorySwapMax={4 * GIB}\n" in own
    for uid in (0, 1000):
        free = found[f"user-{uid}.slice.d/31-gpuadmin-limits.conf"]
        assert "MemoryMax=infinity\n" in free
        assert "TasksMax=infinity\n" in free
        assert "CPUWeight=1000\n" in free


@pytest.mark.parametrize("unit", ["cron.service", "crond.service", "atd.service", "cron-.service"])
def test_jobs_that_run_outside_of_slices_are_limited_and_end_alone(unit: str) -> None:
    text = drop_ins(USUAL, {}, [0], NODE)[f"{unit}.d/30-gpuadmin-limits.conf"]
    assert "[Service]\nMemoryMax=" in text
    assert "OOMPolicy=continue\n" in text
    assert "Slice=user.slice\n" in text


@pytest.mark.parametrize("unit", ["cron.service", "atd.service", "cron-.service"])
def test_each_person_has_tasks_of_their_own_in_cron_s_service(unit: str) -> None:
    def tasks(usual: str, own: str) -> str:
        text = drop_ins(Bounds("8G", "50%", usual, "unlimited", 100), {20001: Bounds(tasks=own)}, [0], NODE)[
            f"{unit}.d/30-gpuadmin-limits.conf"
        ]
        return "".join(line for line in text.splitlines(keepends=True) if line.startswith(("LimitNPROC", "TasksMax")))

    assert tasks("100", "50") == f"TasksMax={NODE.tasks * 4 // 5}\nLimitNPROC=100\n"
    assert tasks("100", "unlimited") == "TasksMax=100\n"
    assert tasks("unlimited", "100") == "TasksMax=infinity\n"


@pytest.mark.parametrize(
    ("memory", "most"), [("8G", 8 * GIB), ("unlimited", NODE.for_people), ("100%", NODE.for_people)]
)
def test_sessions_without_logind_share_what_one_person_gets(memory: str, most: int) -> None:
    found = drop_ins(Bounds(memory, "50%", "10%", "unlimited", 100), {}, [0], NODE)
    for unit in ("ssh.service", "ssh@.service", "sshd.service"):
        text = found[f"{unit}.d/30-gpuadmin-limits.conf"]
        assert f"[Service]\nMemoryMax={most}\nMemorySwapMax={4 * GIB}\nOOMPolicy=continue\n" in text


def test_each_person_has_tasks_of_their_own_in_sshd_s_service() -> None:
    def of_sshd(usual: str, own: str) -> str:
        people = {20001: Bounds(tasks=own), 20002: Bounds(memory="1G")}
        found = drop_ins(Bounds("8G", "50%", usual, "unlimited", 100), people, [0], NODE)
        return found["ssh.service.d/30-gpuadmin-limits.conf"].partition("OOMPolicy=continue\n")[2]

    assert of_sshd("100", "50") == f"LimitNPROC=100\nTasksMax={NODE.tasks * 4 // 5}\n"
    assert "LimitNPROC=300\n" in of_sshd("100", "300"), "nobody gets less than they may"
    assert of_sshd("100", "unlimited") == of_sshd("unlimited", "100") == ""


@pytest.mark.parametrize(
    ("name", "shown", "kernel"),
    [
        ("MemoryMax", "infinity", "max"),
        ("MemoryMax", "1073741824", "1073741824"),
        ("TasksMax", "5000", "5000"),
        ("CPUWeight", "[not set]", "100"),
        ("CPUWeight", "1000", "1000"),
        ("CPUQuotaPerSecUSec", "infinity", "max"),
        ("CPUQuotaPerSecUSec", "500ms", "50000"),
        ("CPUQuotaPerSecUSec", "1min 4s", "6400000"),
    ],
)
def test_what_systemd_shows_and_what_the_kernel_has(name: str, shown: str, kernel: str) -> None:
    assert as_kernel(name, shown) == kernel


@dataclass(frozen=True)
class Told:
    most: str


@pytest.mark.root
def test_a_record_comes_and_goes(tmp_path: Path) -> None:
    path = str(tmp_path / "state/told.json")
    assert records.load(Told, path) is None
    assert (records.differs(path, None), records.differs(path, Told("5%"))) == (False, True)
    records.record(path, None)
    records.record(path, Told("5%"))
    assert records.load(Told, path) == Told("5%")
    assert (records.differs(path, Told("5%")), records.differs(path, Told("6%"))) == (False, True)
    before = Path(path).stat().st_ino
    records.record(path, Told("5%"))
    assert Path(path).stat().st_ino == before, "it was written again"
    records.record(path, None)
    assert not Path(path).exists()


def test_a_record_is_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    records.record(str(tmp_path / "told.json"), Told("5%"))
    assert len(synced) == 2, "the file, and its name"


@pytest.mark.parametrize("text", ["{", "[]", '{"most": 5}', "{}"])
def test_a_damaged_record_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "told.json"
    path.write_text(text)
    with pytest.raises(NodeError, match=r"told\.json"):
        records.load(Told, str(path))


HOST = Machine(64 * GIB, 8 * GIB, 100000, 16)
BEFORE = Bounds("50%", "0", "4096", "unlimited", 100)


def test_what_changes_is_said_as_it_was_written() -> None:
    before = drop_ins(BEFORE, {}, [0], HOST)
    more = Bounds("40G", "0", "unlimited", "8", 200)
    after = drop_ins(more, {20001: Bounds(memory="512M")}, [0], HOST)
    assert changes(before, after, lambda uid: f"person {uid}") == [
        "limits.memory: 32G -> 40G",
        "limits.tasks: 4096 -> unlimited",
        "limits.processors: unlimited -> 8",
        "limits.processor_weight: 100 -> 200",
        "limits of person 20001: memory: 32G -> 512M, tasks: 4096 -> unlimited, processors: unlimited -> 8, "
        "processor_weight: 100 -> 200",
        f"limits of jobs and sessions in {len(before) - 3} services: as for one person",
    ]
    assert changes(after, after, str) == []


def test_all_of_it_may_come_and_go() -> None:
    there = drop_ins(BEFORE, {}, [0], HOST)
    came, went = changes({}, there, str), changes(there, {}, str)
    assert came[0] == "limits.memory: unlimited -> 32G"
    assert "limits of all people together: memory: unlimited -> 60.8G" in came
    assert "limits of 0: processor_weight: 100 -> 1000" in came
    assert went[:2] == ["limits.memory: 32G -> unlimited", "limits.swap: 0 -> unlimited"]
    head = {path: f"# by an earlier version\n{text}" for path, text in there.items()}
    assert changes(head, there, str)[0] == "limits: what systemd reads is written again"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("MemoryMax", "infinity", "unlimited"), ("MemoryMax", str(3 * GIB // 2), "1.5G"), ("MemorySwapMax", "0", "0"),
        ("MemoryMax", str(2048 * GIB), "2T"), ("TasksMax", "100", "100"), ("CPUQuota", "", "unlimited"),
        ("CPUQuota", "150%", "1.5"), ("CPUQuota", "by hand", "by hand"), ("CPUWeight", "[not set]", "100"),
        ("CPUQuotaPerSecUSec", "1.5s", "1.5"), ("CPUQuotaPerSecUSec", "infinity", "unlimited"),
    ],
)  # fmt: skip
def test_values(name: str, text: str, said: str) -> None:
    assert value(name, text) == said
    assert listed({"TasksMax": "100", name: text}).endswith(said)
