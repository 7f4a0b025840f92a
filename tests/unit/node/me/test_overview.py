"""What gpuadmin-me says: one's home, disks, GPUs and place in the queue, and what keeps one from working."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import collect
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.home import home as look_at_home
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.me import check, hints, overview, queue_place
from ansible_collections.gpuadmin.node.plugins.module_utils.me.disk import disk, lines
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import OF_PEOPLE
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import gpu_here

from gpuadmin.common.causes.cause import Cause
from gpuadmin.common.causes.judge import judge
from gpuadmin.common.records.diagnosis import RegisteredPerson as Person
from gpuadmin.common.samples import Sample, of_text
from gpuadmin.common.text import clock
from tests.support.failing import raising
from tests.support.fake_slurm import row, slurm
from tests.support.me_overview import FOUND
from tests.support.metrics_cluster import node


def test_the_remedy_comes_first_and_nothing_is_made_up() -> None:
    found = [
        Cause("docker-disk", "x", "y", values={"left": "1.0 MB"}),
        Cause("container", "x", "y", values={"container": "train", "status": 3}),
    ]
    assert check.lines(found, 20, "node1", "en") == [
        "* docker rmi, docker builder prune",
        "  because: the disk of Docker's data on this node is full: 1.0 MB left",
        "- docker logs train",
        "  because: your container train ended with 3",
    ]
    assert check.lines(found, 20, "node1", "ko")[1] == "  이유: 이 노드의 Docker 디스크가 가득 찼습니다: 1.0 MB 남음"
    assert check.lines([], 20, "node1", "en") == [
        "node1: 20 things were checked, and none of them keeps you from working. "
        "Not checked: your keys, log-ins from outside, your programs."
    ]
    held = [Cause("gpu-held", "x", "y")]
    for queued, shows in ((None, "nvidia-smi"), ([], "gpu list")):
        assert check.lines(held, 20, "node1", "en", queued)[1] == f"- {shows} shows which are free"
        assert check.lines(held, 20, "node1", "ko", queued)[1] == f"- 비어 있는 GPU는 {shows}로 확인하세요"
    assert check.lines([], 20, "node1", "ko")[0].startswith("node1: 20가지를 확인했고")
    assert "?" in check.lines([Cause("homes-full", "x", "y")], 20, "node1", "en")[1]


def test_what_only_root_may_read_is_not_looked_at() -> None:
    asked = set(collect.parts(Subject(name="minji", own=True)))
    assert not asked & {"keys", "pam_account", "sshd", "units", "image"}
    assert {"home", "docker", "gpus", "account"} <= asked


@pytest.mark.parametrize(
    ("home", "ssh", "file", "said"),
    [
        (0o700, 0o700, 0o600, []),
        (0o711, 0o755, 0o644, []),
        (0o755, 0o700, 0o600, ["home-open"]),
        (0o777, 0o700, 0o600, ["home-open", "keys-mode"]),
        (0o770, 0o700, 0o600, ["keys-mode"]),
        (0o700, 0o720, 0o600, ["keys-mode"]),
        (0o700, 0o700, 0o666, ["keys-mode"]),
        (0o777, 0o700, None, ["home-open"]),
    ],
)
@pytest.mark.root
def test_a_home_that_others_read_and_keys_that_sshd_refuses_for_a_mode(
    tmp_path: Path, home: int, ssh: int, file: int | None, said: list[str]
) -> None:
    place = tmp_path / "home/minji"
    (place / ".ssh").mkdir(parents=True)
    if file is not None:
        (place / ".ssh/authorized_keys").write_text("")
        (place / ".ssh/authorized_keys").chmod(file)
    (place / ".ssh").chmod(ssh)
    place.chmod(home)
    for path in (place, *place.rglob("*")):
        os.chown(path, 20000, 20000)
    subject = Subject(name="minji", uid=20000, own=True, node=True, homes="/home", root=str(tmp_path))
    mount = {"source": "nas1:/homes", "type": "nfs4", "network": True, "read_only": False, "point": "/home"}
    rest = {"mount": mount, "free": 1 << 40, "bytes": 1 << 41, "inodes": 0, "inodes_free": 0, "milliseconds": 1.0}
    facts = {"node": True, "unknown": {}, "late": [], "homes": rest, "home": look_at_home(subject)}
    found = judge(facts, Person("minji", 20000))
    assert sorted(one.code for one in found) == said
    remedies = {
        "home-open": "- chmod 700 /home/minji",
        "keys-mode": "* chmod go-w ~ ~/.ssh /home/minji/.ssh/authorized_keys",
    }
    for language in check.LANGUAGES:
        text = check.lines(found, 20, "node1", language)
        assert {line for line in text if line[:2] in ("- ", "* ")} == {remedies[one] for one in said}
        assert not any("?" in line for line in text)


def test_without_a_process_to_spare(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "collect", raising(BlockingIOError(11, "Resource temporarily unavailable")))
    found, looked = check.find_causes(Subject(name="minji", uid=os.getuid(), own=True))
    assert looked == 0
    assert [cause.code for cause in found] == ["tasks"]
    assert check.lines(found, 20, "node1", "en")[0] == "* End processes that you do not need: ps -u $USER"


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
    assert text.endswith("docker rmi, docker rm, docker builder prune.")
    measured(subject)
    text = told(subject, "ko")
    assert "이 노드의 Docker: 40.0 GB, 12,345개 파일 (2시간 전에 측정)" in text
    assert "삭제: docker rmi, docker rm" in text


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000])
def test_a_file_that_says_nothing_and_a_home_that_cannot_be_looked_at(subject: Subject, text: str) -> None:
    (Path(subject.root) / f"var/lib/gpuadmin/{OF_PEOPLE}/minji.json").write_text(text)
    home = Path(subject.root, "home/minji")
    home.rename(home.with_name("away"))
    home.symlink_to("away")
    assert "nothing is yours" in told(subject, "en")
    assert "/home/minji: not known (" in told(subject, "en")


@pytest.mark.parametrize(
    ("language", "words"), [("en", "there is none (gpuadmin-me check"), ("ko", "없음 (이유: gpuadmin-me check")]
)
def test_a_home_that_is_gone(subject: Subject, language: str, words: str) -> None:
    Path(subject.root, "home/minji").rename(Path(subject.root, "home/gone"))
    text = told(subject, language)
    assert f"/home/minji: {words}" in text
    assert "Errno" not in text


NOW = 1_800_000_000.0
HELD = {0: ("minji", "train"), 1: ("junho", "secret-project")}
ONE: dict[str, Any] = {
    "index": "0", "name": "H100", "utilization": 0.1, "memory": 20e9, "containers": ["train"], "alone": True,
    "unused": None, "processors": 0.2,
}  # fmt: skip


def samples(*more: str) -> list[Sample]:
    text = "\n".join([*(line.rpartition(" ")[0] for line in node("x", NOW, held=HELD)), *more])
    return [Sample("up", {"instance": "", "job": "node"}, 1), *of_text(text, {"instance": ""})]


def test_mine_and_nobody_else_s() -> None:
    unused = [
        f'gpuadmin_gpu_unused_since_timestamp_seconds{{uuid="GPU-x-{index}",user="{user}"}} {NOW - 9000}'
        for index, (user, _) in HELD.items()
    ]
    (mine,) = hints.pick_own_gpus(samples(*unused), "minji", NOW)
    assert (mine["index"], mine["containers"], mine["unused"], mine["alone"]) == ("0", ["train"], 9000, True)
    assert "junho" not in repr(mine)
    assert "secret" not in repr(mine)
    assert hints.pick_own_gpus(samples(), "gildong", NOW) == []
    assert hints.pick_own_gpus(samples(), "minji", NOW + 3600) == []


HINTS: dict[str, tuple[dict[str, Any], str | None]] = {
    "held and idle": ({"unused": 3 * 3600}, "held for 3 hours and not used once"),
    "idle for a while": ({"unused": 3600}, None),
    "waits for data": ({"processors": 0.95}, "seems to wait for your data loader"),
    "computes": ({"utilization": 0.9, "processors": 0.95}, None),
    "neither computes": ({"processors": 0.1}, None),
    "processors are not known": ({"processors": None}, None),
    "use is not known": ({"utilization": None, "processors": 0.95}, None),
    "shared: it may be the other's": ({"processors": 0.95, "alone": False}, None),
}

WITH_DOCKER = Subject(name="minji", docker="/local/.docker")


@pytest.mark.parametrize("case", HINTS)
def test_hints(case: str) -> None:
    change, words = HINTS[case]
    found = hints.hints({**ONE, **change}, korean=False)
    assert len(found) == len(hints.hints({**ONE, **change}, korean=True)) == (words is not None)
    assert words is None or words in found[0]


def test_what_is_printed_of_ones_own_gpus() -> None:
    found = {**FOUND, "held": [{**ONE, "unused": 3 * 3600}]}
    output = overview.lines(Subject(name="minji"), found, "node1", [], "en")
    assert "  GPU 0 H100 (train): 10% busy, 20.0 GB of memory" in output
    korean = "\n".join(overview.lines(Subject(name="minji"), found, "node1", [], "ko"))
    assert "GPU 0 H100 (train): 사용률 10%, 메모리 20.0 GB" in korean
    assert "3시간이 지났지만 한 번도 사용하지 않았습니다" in korean
    away = overview.lines(Subject(name="minji"), {**FOUND, "held": "the collector has written nothing"}, "n", [], "en")
    assert not any("collector" in line for line in away)


CHAGE = """Last password change : Nov 22, 2026
Password expires : never
Account expires : {0}
Minimum number of days between password change : 0
"""


@pytest.mark.parametrize(("words", "day"), [("Mar 01, 2027", "2027-02-28"), ("never", None)])
def test_the_last_day(words: str, day: str | None) -> None:
    assert overview.parse_expiry(CHAGE.format(words)) == day


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


def test_docker_is_not_named_where_there_is_none() -> None:
    for language in ("en", "ko"):
        assert "Docker: " in "\n".join(overview.lines(WITH_DOCKER, FOUND, "node1", [], language))
        assert "Docker" not in "\n".join(overview.lines(Subject(name="minji"), FOUND, "node1", [], language))


def test_what_is_printed() -> None:
    nodes = [{"name": "node1", "address": "10.0.0.1"}, {"name": "node2", "address": "10.0.0.2"}]
    output = overview.lines(WITH_DOCKER, FOUND, "node1", nodes, "en")
    assert output[0] == "minji@node1"
    assert output[2] == "  nodes: node1 (10.0.0.1), node2 (10.0.0.2)"
    assert output[3] == "  home: /home/minji: more than 5.0 GB are yours; 1.0 TB of 4.0 TB left for everybody"
    assert output[5] == "  GPUs: 0 H100: yours, 1 H100: used by others, 2 H100: free"
    korean = overview.lines(WITH_DOCKER, FOUND, "node1", nodes, "ko")
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
    output = overview.lines(WITH_DOCKER, {**FOUND, "granted": GRANTED}, "node1", [], language)
    ends = [clock(1_800_000_000 + later) for later in (0, 3600)]
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


@pytest.fixture
def queue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Subject:
    """A node of a queue."""
    (tmp_path / "var/lib/gpuadmin").mkdir(parents=True)
    (tmp_path / "var/lib/gpuadmin/queue-policy.json").touch()
    rows = [
        row("4", "minji", "RUNNING", end=2000000000, nodes="gpu2"),
        row("5", "minji", "PENDING", asked=1900000000, reason="Priority"),
        row("6", "jiho", "PENDING", reason="Resources"),
    ]
    (tmp_path / "said").write_text("\n".join(rows))
    slurm(
        tmp_path, monkeypatch, scontrol="echo 'at storage1 is UP'", squeue=f"cat {tmp_path}/said",
        sinfo="echo 'gpu2|draining|gpuadmin sick: GPU 0 does not answer'",
    )  # fmt: skip
    return Subject(name="minji", root=str(tmp_path))


def test_ones_own_alone(queue: Subject) -> None:
    found: Any = queue_place.find_place(queue)
    assert ([one["id"] for one in found["mine"]], found["waiting"]) == (["4", "5"], 2)
    output = overview.lines(queue, {**FOUND, "queue": found}, "gpu1", [], "en")
    assert "  GPUs: given by the queue here" in output
    assert any(line.startswith("  You have 1 GPU of gpu2 until 2033-05-18") for line in output)
    assert any(line.startswith("  gpu2 is faulty: GPU 0 does not answer.") for line in output)
    (waits,) = [line for line in output if "You are waiting for 1 GPU." in line]
    assert "place in the queue: 2. Others come first" in waits
    assert "(since 2030-03-1" in waits
    nobody = overview.lines(queue, {**FOUND, "queue": {"mine": [], "waiting": 3}}, "gpu1", [], "ko")
    assert any("기다리는 사람: 3명" in line for line in nobody)


def test_a_node_without_a_queue_and_one_that_does_not_answer(
    queue: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert queue_place.find_place(Subject(name="minji", root=str(tmp_path / "other"))) is None
    slurm(tmp_path, monkeypatch, scontrol="echo down")
    with pytest.raises(NodeError):
        queue_place.find_place(queue)
    output = overview.lines(queue, {**FOUND, "queue": "slurmctld does not answer"}, "gpu1", [], "en")
    assert "  queue: not known (slurmctld does not answer)" in output


def test_a_check_tells_whoever_waits_their_place(
    queue: Subject, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And where they have some: they need not ask for what they asked for."""
    lacks = [Cause("gpu-grant", "x", "y")]
    (tmp_path / "said").write_text(row("5", "minji", "PENDING", reason="Resources"))
    first, why = check.lines(lacks, 20, "gpu1", "en", check.find_queued_jobs(queue, lacks))
    assert first.startswith("* You are waiting for 1 GPU. Your place in the queue: 1. Next, as soon as")
    assert "GPUs are given on request here" in why
    (tmp_path / "said").write_text(row("4", "minji", "RUNNING", end=2000000000, nodes="gpu2"))
    assert "gpu2의 GPU 1개" in check.lines(lacks, 20, "gpu1", "ko", check.find_queued_jobs(queue, lacks))[0]
    assert check.find_queued_jobs(queue, [Cause("memory", "x", "y")]) == []
    nobody = check.find_queued_jobs(Subject(name="haeun", root=queue.root), lacks)
    assert check.lines(lacks, 20, "gpu1", "en", nobody)[0] == "* To get one: `gpu get`"
    more = [Cause("gpu-granted", "x", "y", values={"gpus": "GPU 0", "until": "18:00"})]
    said = check.lines(more, 20, "gpu1", "en", check.find_queued_jobs(queue, more))
    assert said[1] == "- Use GPU 0. If you need more: `gpu get`"
    slurm(tmp_path, monkeypatch, scontrol="echo down")
    assert check.find_queued_jobs(queue, lacks) == []


def test_where_people_take_free_gpus_nobody_has_to_ask_an_admin(tmp_path: Path) -> None:
    rule = tmp_path / gpu_here.RULE.lstrip("/")
    rule.parent.mkdir(parents=True)
    rule.write_text('{"gpus": 1, "hours": 8}')
    lacks, minji = [Cause("gpu-grant", "x", "y")], Subject(name="minji", root=str(tmp_path))
    assert check.lines(lacks, 20, "gpu1", "en", check.find_queued_jobs(minji, lacks))[0] == "* To get one: `gpu get`"
    found = {**FOUND, "granted": GRANTED, "self_service": queue_place.has_self_service(minji)}
    for language, words in (("en", "take a free one: `gpu get`"), ("ko", "`gpu get`으로 직접 받습니다")):
        assert [line for line in overview.lines(minji, found, "node1", [], language) if words in line]


def test_a_check_names_no_queue_where_there_is_none(tmp_path: Path) -> None:
    lacks, without = [Cause("gpu-grant", "x", "y")], Subject(name="minji", root=str(tmp_path))
    for language, way in (
        ("en", "ask your admins, and say for how long"),
        ("ko", "관리자에게 사용 기간과 용도를 알려 신청"),
    ):
        first = check.lines(lacks, 20, "gpu1", language, check.find_queued_jobs(without, lacks))[0]
        assert way in first
        assert "gpu get" not in first
