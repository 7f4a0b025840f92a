"""Nodes that a group comes first on: partitions, and what people read of them."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.gate import Places
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import owned, partitions, queue
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.partitions import Owned

from gpuadmin.common.records.queue import Owns
from tests.support.fake_slurm import slurm

TYPES = {"gpu1": "h100", "gpu2": "h100", "gpu3": "a100", "gpu4": ""}
OFF = "PreemptMode=OFF"


def lines(*owns: Owns, notice: int = 5, preempted: str = "requeue") -> list[str]:
    text = "".join(partitions.format_partitions(TYPES, owns, notice, preempted, "REST"))
    return [
        one.replace("PartitionName=", "").replace(" State=UP", "").replace(" REST", "") for one in text.splitlines()
    ]


HEAD = ["PreemptType=preempt/partition_prio", "PreemptMode=REQUEUE"]
CASES = {
    "nobody": ([], ["gpu Nodes=gpu1,gpu2,gpu3,gpu4 Default=YES"]),
    "one": (
        [Owns("phd", ["gpu1"])],
        [
            *HEAD, f"gpu Nodes=gpu2,gpu3,gpu4 Default=YES PriorityTier=2 {OFF}",
            f"own-phd Nodes=gpu1,gpu2,gpu3,gpu4 AllowAccounts=phd PriorityTier=2 {OFF}",
            "guest Nodes=gpu1 PriorityTier=1 GraceTime=300 PreemptMode=REQUEUE",
            f"exception Nodes=gpu1 RootOnly=YES PriorityTier=1 {OFF}",
        ],
    ),
    "who names a node comes before who names its type": (
        [Owns("a", ["gpu2"]), Owns("b", types=["h100", "a100"], others="never")],
        [
            *HEAD, f"gpu Nodes=gpu4 Default=YES PriorityTier=2 {OFF}",
            f"own-b Nodes=gpu1,gpu3,gpu4 AllowAccounts=b PriorityTier=2 {OFF}",
            f"own-a Nodes=gpu2,gpu4 AllowAccounts=a PriorityTier=2 {OFF}",
            "guest Nodes=gpu2 PriorityTier=1 GraceTime=300 PreemptMode=REQUEUE",
            f"exception Nodes=gpu1,gpu2,gpu3 RootOnly=YES PriorityTier=1 {OFF}",
        ],
    ),
    "all": (
        [Owns("a", ["gpu1", "gpu2", "gpu3", "gpu4", "gone"])],
        [
            *HEAD, f"own-a Nodes=gpu1,gpu2,gpu3,gpu4 AllowAccounts=a PriorityTier=2 {OFF}",
            "guest Nodes=gpu1,gpu2,gpu3,gpu4 Default=YES PriorityTier=1 GraceTime=300 PreemptMode=REQUEUE",
            f"exception Nodes=gpu1,gpu2,gpu3,gpu4 RootOnly=YES PriorityTier=1 {OFF}",
        ],
    ),
}  # fmt: skip


@pytest.mark.holds(
    "nobody is preempted where nobody comes first", "on nodes that are a group's alone nobody else's job starts"
)
@pytest.mark.parametrize(("owns", "wanted"), CASES.values(), ids=CASES)
def test_the_partitions(owns: list[Owns], wanted: list[str]) -> None:
    assert sorted(lines(*owns)) == sorted(wanted)


def test_a_site_without_notice_and_requeue() -> None:
    found = lines(Owns("a", ["gpu1"]), notice=0, preempted="end")
    assert "PreemptMode=CANCEL" in found
    assert "guest Nodes=gpu1 PriorityTier=1 GraceTime=0 PreemptMode=CANCEL" in found


def test_a_partition_that_goes_keeps_its_jobs() -> None:
    """Slurm ends the jobs of a partition that it does not find (seen)."""
    before = "".join(partitions.format_partitions(TYPES, [Owns("a", ["gpu1", "gpu2"])], 5, "end", "REST"))
    now = "".join(partitions.format_partitions({"gpu1": "h100"}, [], 5, "end", "REST"))
    kept = partitions.keep_partitions(before, now, ["gpu1"])
    assert [one.split()[:4] for one in kept] == [
        [f"PartitionName={name}", "Nodes=gpu1", "State=DRAIN", "PreemptMode=OFF"]
        for name in ("own-a", "guest", "exception")
    ]
    assert partitions.keep_partitions(now + "".join(kept), now, ["gpu1"]) == kept, "the next run changes nothing"
    assert partitions.keep_partitions(before, before, ["gpu1", "gpu2"]) == []


SHOWN = """PartitionName=gpu AllocNodes=ALL GraceTime=0 Nodes=gpu[3-4] PreemptMode=OFF State=UP
PartitionName=own-phd AllocNodes=ALL GraceTime=0 Nodes=gpu[1-4] PreemptMode=OFF State=UP
PartitionName=own-old AllocNodes=ALL GraceTime=0 Nodes=gpu[1-2] PreemptMode=OFF State=DRAIN
PartitionName=guest AllocNodes=ALL GraceTime=300 Nodes=gpu1 PreemptMode=REQUEUE State=UP
"""
JOBS = [
    {"id": "4", "waits": False, "nodes": "gpu1", "user": "jiho", "gpus": 1},
    {"id": "5", "waits": False, "nodes": "gpu1", "user": "minji", "gpus": 1},
    {"id": "6", "waits": False, "nodes": "gpu3", "user": "minji", "gpus": 1},
]


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Job 4 has to leave gpu1, 5 may have to."""
    rows = [("4", "guest", "1800000000", "1800000300"), ("5", "guest", "N/A", "1800009999"), ("6", "gpu", "N/A", "9")]
    (tmp_path / "jobs").write_text("".join("\x1f".join((*row, "\n")) for row in rows))
    slurm(tmp_path, monkeypatch, scontrol=f": partition; cat <<'E'\n{SHOWN}E", squeue=f"cat {tmp_path}/jobs")
    return tmp_path


def test_what_people_read(shown: Path) -> None:
    assert partitions.look_owned() == Owned({"gpu1": "phd", "gpu2": "phd"}, ["gpu1"], 300, True)
    first = "gpu1: phd comes first there; others' jobs may be preempted: "
    first += "they get 5 min of notice, and wait in the queue again."
    assert owned.describe(partitions.look_owned(), "en") == [first, "gpu2: for phd alone."]
    leaves, may = owned.describe_guests(JOBS, "en")
    assert leaves.startswith("Job 4: phd comes first on gpu1 and needs it now. Your GPUs go back at 2027-01-15")
    assert may == first
    assert all("phd" in one for one in owned.describe_guests(JOBS, "ko"))


@pytest.mark.root
@pytest.mark.holds("who has to leave a node is told once on their terminals")
def test_terminals_are_told_once(shown: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[str, int]] = []

    def tell(text: str, devices: str, uid: int) -> int:
        told.append((text, uid))
        return 1

    monkeypatch.setattr(owned.terminals, "tell", tell)
    monkeypatch.setattr(queue, "ask_jobs", lambda: JOBS)
    places = Places(state=str(tmp_path), run=str(tmp_path))
    assert owned.tell_terminals(places) == [], "no job is on this node: nobody is asked"
    grant = grants.Grant("slurm-4", "jiho", 20002, ["0"], 1, 2_000_000_000, "Slurm", "job 4", grants.SOURCE)
    grants.write_until_boot(grant, str(tmp_path))
    assert owned.tell_terminals(places) == ["jiho: has to leave"]
    assert owned.tell_terminals(places) == []
    ((text, uid),) = told
    assert (uid, "phd comes first on gpu1" in text, "phd 그룹" in text) == (20002, True, True)


def test_a_queue_that_does_not_answer_tells_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    slurm(tmp_path, monkeypatch, scontrol="case $* in *partition) exit 1; esac", squeue="exit 1")
    assert owned.describe_guests(JOBS, "en") == []
