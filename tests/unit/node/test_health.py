"""A node whose disk is full, or whose GPU is lost: what Slurm is told, and what is nobody's but an admin's."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import health
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Lost

from gpuadmin.common.records.hosts import Disk
from gpuadmin.common.waiting import FULL, LOST
from tests.support.fake_slurm import slurm

DISK = 100 << 30
GIB = 1 << 30
OWN, SLURMS = f"{FULL} /local", "SlurmdSpoolDir is full"
DRAIN, RESUME = "update NodeName=gpu1 State=DRAIN Reason=" + FULL, "update NodeName=gpu1 State=RESUME"

LOSES = f"update NodeName=gpu1 State=DRAIN Reason={LOST} "


class Node:
    """``free``: bytes, by mount; of /var there is always enough."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free: dict[str, int] = {"/var": DISK}
        self.inodes = (0, 0)
        self.lost: Lost | None = None
        self._place = place
        (place / "node").write_text("gpu1|idle|none\n")
        slurm(
            place, monkeypatch, sinfo=f'case "$*" in *--nodes=gpu1*) cat {place}/node;; *) exit 9;; esac',
            scontrol=f'echo "$*" >>{place}/called',
        )  # fmt: skip
        monkeypatch.setattr(health, "disk", self._disk)
        monkeypatch.setattr(health.os, "statvfs", self._statvfs)
        monkeypatch.setattr(health, "find_lost", lambda: self.lost)

    def _disk(self, path: str) -> Disk:
        if path not in self.free:
            raise NodeError(f"{path} is on no disk of this host (nfs4)")
        return Disk(path, path, DISK, self.free[path])

    def _statvfs(self, path: str) -> os.statvfs_result:
        whole, free = self.inodes if path == "/local" else (0, 0)
        return os.statvfs_result((4096, 4096, 1, 1, 1, whole, free, free, 0, 255))

    def asked(self, state: str, reason: str, *paths: str) -> list[str]:
        """What Slurm was told by a node that is so."""
        (self._place / "node").write_text(f"gpu1|{state}|{reason}\n")
        called = self._place / "called"
        called.unlink(missing_ok=True)
        assert health.main(paths or ("/var", "/local"), "gpu1") == 0
        return called.read_text().splitlines() if called.exists() else []


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


@pytest.mark.parametrize(
    ("free", "state", "reason", "told"),
    [
        (GIB - 1, "idle", "none", [f"{DRAIN} /local"]),
        (GIB - 1, "mixed", "none", [f"{DRAIN} /local"]),
        (0, "drained", OWN, []),
        (0, "drained", f"{FULL} /", [f"{DRAIN} /local"]),
        # between the two nothing changes, whatever was said before
        (GIB, "idle", "none", []),
        (2 * GIB - 1, "drained", OWN, []),
        (2 * GIB - 1, "drained", SLURMS, []),
        (2 * GIB, "drained", OWN, [RESUME]),
        (2 * GIB, "draining", OWN, [RESUME]),
        (2 * GIB, "idle", "none", []),
        # Slurm was quicker: a job's script could not be written
        (0, "drained", SLURMS, [f"{DRAIN} /local"]),
        (2 * GIB, "drained", SLURMS, [RESUME]),
        # what somebody else has drained, or set down, is theirs
        (0, "drained", "fan is loud", []),
        (2 * GIB, "drained", "fan is loud", []),
        (2 * GIB, "drained", "gpuadmin reboot 3f9a1c07: by root@ctl", []),
        (2 * GIB, "drained", "Prolog error", []),
        (0, "down", "power supply", []),
    ],
)
@pytest.mark.holds(
    "a verb lets take jobs again only what it has drained itself",
    "a verb does not drain once more what somebody has drained",
)
def test_a_full_node_takes_no_job_until_there_is_room(
    node: Node, free: int, state: str, reason: str, told: list[str]
) -> None:
    node.free["/local"] = free
    assert node.asked(state, reason) == told


@pytest.mark.parametrize(
    ("lost", "free", "state", "reason", "told"),
    [
        ((0,), DISK, "mixed", "none", [f"{LOSES}0"]),
        ((0, 3), DISK, "idle", "none", [f"{LOSES}0, 3"]),
        ((0,), DISK, "draining", f"{LOST} 0", []),
        ((), DISK, "idle", "none", []),
        (None, DISK, "idle", "none", []),
        # an admin says when it is mended, or that it is theirs
        ((), DISK, "drained", f"{LOST} 0", []),
        (None, DISK, "drained", f"{LOST} 0", []),
        ((0,), DISK, "drained", "fan is loud", []),
        # the full disk passes by itself, the GPU does not
        ((0,), GIB, "drained", OWN, [f"{LOSES}0"]),
        ((), 0, "drained", f"{LOST} 0", []),
    ],
)
@pytest.mark.holds("a node with a GPU that does not answer takes no job")
def test_a_node_with_a_lost_gpu_takes_no_job_until_an_admin_resumes_it(
    node: Node, lost: tuple[int, ...] | None, free: int, state: str, reason: str, told: list[str]
) -> None:
    node.free["/local"], node.lost = free, None if lost is None else Lost(lost, frozenset({"GPU-b"}))
    assert node.asked(state, reason) == told


def test_all_full_disks_are_named(node: Node) -> None:
    node.free = {"/": 0, "/var": 1, "/local": 5 * GIB}
    assert node.asked("idle", "none", "/", "/var", "/local", "/") == [f"{DRAIN} /, /var"]


@pytest.mark.parametrize(("inodes", "told"), [((1000, 19), [f"{DRAIN} /local"]), ((1000, 20), []), ((0, 0), [])])
def test_a_disk_without_inodes_is_full(node: Node, inodes: tuple[int, int], told: list[str]) -> None:
    node.free["/local"], node.inodes = DISK, inodes
    assert node.asked("idle", "none") == told


def test_a_file_server_closes_no_node(node: Node) -> None:
    assert node.asked("drained", OWN, "/homes", "/var") == [RESUME]


@pytest.mark.parametrize("sinfo", ["exit 1", "echo nonsense", "echo 'gpu2|idle|none'"])
def test_a_queue_that_does_not_say_changes_nothing(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sinfo: str
) -> None:
    node.free["/local"] = 0
    slurm(tmp_path, monkeypatch, sinfo=sinfo)
    assert node.asked("idle", "none") == []
