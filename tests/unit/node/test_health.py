"""A node that is sick, full or without homes: what Slurm is told, what passes by itself, and what is nobody's but an
admin's.
"""

import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import health
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import burning, look
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.burning import Burning
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.gate import Places
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.isolated_call import HungError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Seen
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import draining, gate_timer

from gpuadmin.common.records.hosts import Disk
from gpuadmin.common.waiting import FOR_NOW, FULL, SICK, find_sick
from tests.support.fake_slurm import slurm
from tests.support.seen_gpus import SILENT, TWO, gpu, seen, xid

DISK = 100 << 30
GIB = 1 << 30
OWN, SLURMS = f"{FULL} /local", "SlurmdSpoolDir is full"
DRAIN, RESUME = "update NodeName=gpu1 State=DRAIN Reason=" + FULL, "update NodeName=gpu1 State=RESUME"
GONE = "GPU 0 does not answer: GPU_IS_LOST"
LOST = seen(gpu(0, problem="GPU_IS_LOST", address=None), gpu(1), devices=[])
SICKENS = f"update NodeName=gpu1 State=DRAIN Reason={SICK} "


class Node:
    """``free``: bytes, by mount; of /var there is always enough. ``gpus``: what is seen of GPUs."""

    def __init__(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.free: dict[str, int] = {"/var": DISK, "/local": DISK}
        self.inodes = (0, 0)
        self.gpus: Seen = seen(*TWO)
        self.looks = 0
        self.place = place
        self.state = place / "state"
        (self.state / "health.d").mkdir(parents=True)
        self.places = Places(str(self.state), str(place / "run"), str(self.state / "gate"), root=str(place))
        (place / "node").write_text("gpu1|idle|none\n")
        slurm(
            place, monkeypatch, sinfo=f'case "$*" in *--nodes=gpu1*) cat {place}/node;; *) cat {place}/nodes;; esac',
            scontrol=f'echo "$*" >>{place}/called',
        )  # fmt: skip
        monkeypatch.setattr(health, "disk", self._disk)
        monkeypatch.setattr(health.os, "statvfs", self._statvfs)
        monkeypatch.setattr(look, "look", self._look)
        monkeypatch.setattr(draining, "Places", lambda: self.places)
        monkeypatch.setenv("SLURMD_NODENAME", "gpu1")
        self.set(disks=["/var", "/local"])

    def set(self, **settings: object) -> None:
        """What the role has written."""
        path = self.state / health.SETTINGS
        before = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**before, **settings}))

    def check(self, name: str, script: str) -> None:
        """A check of the site's own."""
        path = self.state / "health.d" / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o700)

    def _look(self, *_: object, **__: object) -> Seen:
        self.looks += 1
        return self.gpus

    def _disk(self, path: str) -> Disk:
        if path not in self.free:
            raise NodeError(f"{path} is on no disk of this host (nfs4)")
        return Disk(path, path, DISK, self.free[path])

    def _statvfs(self, path: str) -> os.statvfs_result:
        whole, free = self.inodes if path == "/local" else (0, 0)
        return os.statvfs_result((4096, 4096, 1, 1, 1, whole, free, free, 0, 255))

    def asked(self, state: str, reason: str, *paths: str) -> list[str]:
        """What Slurm was told by a node that is so."""
        if paths:
            self.set(disks=paths)
        (self.place / "node").write_text(f"gpu1|{state}|{reason}\n")
        called = self.place / "called"
        called.unlink(missing_ok=True)
        assert draining.main() == 0
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
    ("gpus", "free", "state", "reason", "told"),
    [
        (LOST, DISK, "mixed", "none", [f"{SICKENS}{GONE}"]),
        (seen(*TWO, xids=xid(48)), DISK, "idle", "none",
         [f"{SICKENS}GPU 1 (0000:01:00.0): Xid 48 (memory error that ECC could not correct): reset or replace it"]),
        (LOST, DISK, "draining", f"{SICK} {GONE}", []),
        (seen(*TWO), DISK, "idle", "none", []),
        # an admin says when it is mended, or that it is theirs
        (seen(*TWO), DISK, "drained", f"{SICK} {GONE}", []),
        (LOST, DISK, "drained", "fan is loud", []),
        # the full disk passes by itself, the GPU does not
        (LOST, GIB, "drained", OWN, [f"{SICKENS}{GONE}"]),
        (seen(*TWO), 0, "drained", f"{SICK} {GONE}", []),
        # a driver that is silent passes
        (SILENT, DISK, "idle", "none", [
            f"{SICKENS}the driver is loaded and does not answer: {SILENT.problem}".replace(SICK, FOR_NOW)
        ]),
        (seen(*TWO), DISK, "drained", f"{FOR_NOW} the driver is", [RESUME]),
    ],
)  # fmt: skip
@pytest.mark.holds("a sick node takes no job")
def test_a_sick_node_takes_no_job_until_an_admin_resumes_it(
    node: Node, gpus: Seen, free: int, state: str, reason: str, told: list[str]
) -> None:
    node.free["/local"], node.gpus = free, gpus
    assert node.asked(state, reason) == told


@pytest.mark.holds("what the site says not to mind closes no node")
def test_what_a_site_says_not_to_mind(node: Node) -> None:
    node.gpus = seen(gpu(0, pcie_width=8, pcie_width_max=16))
    assert node.asked("idle", "none")[0].startswith(f"{SICKENS}GPU 0 (0000:00:00.0): PCIe has 8 of 16 lanes")
    node.set(ignore=["PCIe"])
    assert node.asked("idle", "none") == []


@pytest.mark.parametrize(
    ("scripts", "told"),
    [
        ({"10-a": "exit 0"}, ""),
        ({"10-a": "echo 'fan 3 stands still'; echo more; exit 1"}, f"{SICK} 10-a: fan 3 stands still"),
        ({"10-a": "echo x >&2; exit 2", "20-b": "exit 7"}, f"{SICK} 10-a: x; 20-b: status 7"),
        # nothing that it prints is a line or an order for a terminal, or too long for Slurm
        ({"10-a": "printf '\\033[31m%0300d\\n' 0; exit 1"}, f"{SICK} 10-a:  [31m" + "0" * 173),
        # nor does one that says much hide another, which others read in the reason
        ({"10-a": "printf '%0300d\\n' 0; exit 1", "20-b": "echo x; exit 1"}, f"{SICK} 10-a: {'0' * 170}; 20-b: x"),
        (
            {f"{number}-a": "printf '%0300d\\n' 0; exit 1" for number in range(10, 40)},
            f"{SICK} 30 problems, such as 10-a: 000",
        ),
        # it, or the node, is slow: nobody has to say that it was mended
        ({"10-a": "sleep 30"}, f"{FOR_NOW} 10-a: no answer in "),
        ({"10-a": "no-such-program"}, f"{FOR_NOW} 10-a: "),
        ({"10-a": "#"}, ""),
    ],
)
@pytest.mark.holds("a node that a site's own check finds sick takes no job")
def test_a_site_s_own_checks(
    node: Node, monkeypatch: pytest.MonkeyPatch, scripts: Mapping[str, str], told: str
) -> None:
    monkeypatch.setattr(health, "SECONDS", 1.0)
    for name, script in scripts.items():
        node.check(name, script)
    found = [one.partition("Reason=")[2] for one in node.asked("idle", "none")]
    assert [one[: len(told)] for one in found] == ([told] if told else [])
    assert all(len(one) <= 200 for one in found)


@pytest.mark.parametrize(("number", "broken"), [(1, ["14"]), (9, [*map(str, range(14, 23))]), (25, []), (70, [])])
def test_who_reads_a_reason_finds_no_gpu_in_it_that_is_not_broken(node: Node, number: int, broken: list[str]) -> None:
    """A reason has so much room: of some the numbers are in it, and of more than that the whole node is sick."""
    node.gpus = seen(*(gpu(one, pcie_width=8, pcie_width_max=16) for one in range(14, 14 + number)))
    (told,) = [one.partition("Reason=")[2] for one in node.asked("idle", "none")]
    words, gpus = find_sick(told)
    assert (gpus, "GPU 14 " in words, len(told) <= 200) == (broken, True, True), told


FAN = "drained|gpuadmin sick: 10-fan: it stands still"


@pytest.mark.parametrize(
    ("others", "gpus", "told"),
    [
        ([], TWO, f"{SICK} 10-fan: loud"),
        ([FAN], TWO, ""),
        ([FAN, "idle|none"], TWO, f"{SICK} 10-fan: loud"),
        ([FAN, FAN, "idle|none"], TWO, ""),
        # what is closed for another reason was not closed by this check
        (["drained|gpuadmin sick: 10-fans: x"], TWO, f"{SICK} 10-fan: loud"),
        (["drained|fan is loud"], TWO, f"{SICK} 10-fan: loud"),
        # nor is a node left open that is sick by itself
        ([FAN], (gpu(0, problem="GPU_IS_LOST", address=None), TWO[1]), f"{SICK} GPU 0"),
        # a queue that does not say
        (None, TWO, f"{SICK} 10-fan: loud"),
    ],
)
@pytest.mark.holds("a check of the site's own does not close a whole queue")
def test_a_check_of_the_site_s_own_closes_half_of_the_queue_at_most(
    node: Node, others: list[str] | None, gpus: tuple[dict[str, object], ...], told: str
) -> None:
    node.check("10-fan", "echo loud; exit 1")
    node.gpus = seen(*gpus, devices=[])
    if others is not None:
        rows = [f"gpu{number}|{one}" for number, one in enumerate(others, 2)]
        (node.place / "nodes").write_text("\n".join(["gpu1|idle|none", *rows, *rows]))  # once for each partition
    found = [one.partition("Reason=")[2] for one in node.asked("idle", "none")]
    assert [one[: len(told)] for one in found] == ([told] if told else [])


@pytest.mark.parametrize(
    ("other", "stays"),
    [(FAN, False), ("drained|gpuadmin sick: 20-net: slow", False), (f"{FAN}; 20-net: slow", True)],
)
def test_a_check_that_fails_everywhere_hides_no_other(node: Node, other: str, stays: bool) -> None:
    """Of two that fail here, each closes the node unless it has closed half of the queue."""
    node.check("10-fan", "echo loud; exit 1")
    node.check("20-net", "echo slow; exit 1")
    (node.place / "nodes").write_text(f"gpu1|idle|none\ngpu2|{other}\n")
    assert (node.asked("idle", "none") == []) is stays


def test_what_passes_closes_a_node_beside_a_check_that_does_not(node: Node) -> None:
    node.check("10-fan", "echo loud; exit 1")
    (node.place / "nodes").write_text(f"gpu1|idle|none\ngpu2|{FAN}\n")
    node.free["/local"] = 0
    assert node.asked("idle", "none") == [f"{DRAIN} /local"]


@pytest.mark.holds("a check that is late leaves nothing behind")
def test_a_check_that_is_late_leaves_nothing_behind(node: Node) -> None:
    """Each minute one more: on a node whose driver hangs that is what a shell has asked it with."""
    node.set(seconds=1)
    node.check("10-a", f"sleep 31 & echo $! >{node.place}/pid; wait")
    assert f"{FOR_NOW} 10-a: no answer in " in node.asked("idle", "none")[0]
    left = Path(f"/proc/{(node.place / 'pid').read_text().strip()}/cmdline")
    assert not left.exists() or left.read_bytes() == b"", "it has ended"


def test_a_check_that_cannot_be_run_passes_when_it_can(node: Node) -> None:
    (node.state / "health.d/10-a").write_text("#!/no/such/interpreter\n")
    (node.state / "health.d/10-a").chmod(0o700)
    assert node.asked("idle", "none")[0].partition("Reason=")[2].startswith(f"{FOR_NOW} 10-a: ")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        ({"type": "nfs4"}, []),
        ({"type": None}, ["are not mounted"]),
        (HungError("no"), ["do not answer"]),
        (NodeError("Stale file handle"), ["do not answer: Stale file handle"]),
    ],
)
@pytest.mark.holds("where the homes are away no job begins")
def test_homes_that_are_away(
    node: Node, monkeypatch: pytest.MonkeyPatch, answer: dict[str, object] | NodeError, told: list[str]
) -> None:
    def call(*_: object, **__: object) -> dict[str, object]:
        if isinstance(answer, NodeError):
            raise answer
        return answer

    monkeypatch.setattr(health, "isolated_call", call)
    node.set(homes="/home")
    reasons = [f"update NodeName=gpu1 State=DRAIN Reason={FOR_NOW} the homes (/home) {words}" for words in told]
    assert node.asked("idle", "none") == reasons


def test_homes_are_asked_in_a_process_apart(node: Node) -> None:
    (found,) = health._look_at_homes(str(node.place / "none"), str(node.place / "run"))
    assert (found.words.endswith("are not mounted"), found.passes) == (True, True)


@pytest.mark.holds("an answer of another time is not one")
def test_one_answer_for_all_who_ask(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.check("10-a", "echo bad; exit 1")
    assert node.asked("idle", "none") == [f"{SICKENS}10-a: bad"]
    assert health.look_at_node(node.places, health.BURST).words == ["10-a: bad"]
    assert node.looks == 1, "a burst of jobs asks the driver once"
    node.check("10-a", "exit 0")
    node.gpus, now = LOST, time.time()
    # a prolog does not run the site's checks, and keeps what they said
    assert health.look_at_node(node.places, 0).words == [GONE, "10-a: bad"]
    assert health.look_at_node(node.places, 0, own=True).words == [GONE]
    node.check("10-a", "echo worse; exit 1")
    assert health.look_at_node(node.places, health.MINUTE, own=True).words == [GONE], "they ran just now"
    monkeypatch.setattr(health.time, "time", lambda: now + 55)
    health.look_at_node(node.places)
    late = health.look_at_node(node.places, health.MINUTE, own=True)
    assert late.words == [GONE, "10-a: worse"], "whoever asks meanwhile does not put the site's checks off"
    node.check("10-a", "exit 0")
    monkeypatch.setattr(health.time, "time", time.monotonic)
    node.gpus = seen(*TWO)
    assert health.look_at_node(node.places, health.BURST, own=True).words == [], "the clock was put back"


def test_what_checks_said_is_kept_where_no_gpu_answers(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.gpus = SILENT
    node.check("10-a", "echo bad; exit 1")
    node.asked("idle", "none")
    assert "10-a: bad" in health.look_at_node(node.places).words, "a prolog does not run them"
    looks = node.looks
    health.look_at_node(node.places, health.BURST)
    assert node.looks == looks, "a burst of jobs asks the driver once"
    assert "is missing" not in capsys.readouterr().out


def test_a_damaged_answer_or_setting_keeps_no_node_from_the_queue(node: Node) -> None:
    health.look_at_node(node.places)
    for path in (node.place / "run" / health.ANSWER, node.state / health.SETTINGS):
        path.write_text("{")
        assert health.look_at_node(node.places, health.BURST).sick == []


@pytest.mark.holds("a check that fails keeps no node from the queue")
def test_a_check_that_fails_keeps_no_node_from_the_queue(node: Node) -> None:
    Path(node.places.settings).write_text("{")
    assert node.asked("idle", "none") == []


NOW = int(time.time())


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (None, ""),
        (Burning(["x"], "root@nas", NOW), "it has not ended"),
        (Burning(["x"], "root@nas", NOW, NOW, "GPU 3 is 90 C (status 1)"), "GPU 3 is 90 C (status 1)"),
        (Burning(["x"], "root@nas", NOW, NOW, ""), ""),
    ],
)
@pytest.mark.holds("a node takes no work while its burn-in runs, nor after one that failed")
def test_a_node_takes_no_work_until_its_burn_in_has_passed(node: Node, record: Burning | None, words: str) -> None:
    if record is not None:
        burning.keep(str(node.state), record)
    found = [one.partition("Reason=")[2] for one in node.asked("idle", "none")]
    assert [one.rpartition(": ")[2] for one in found] == ([words] if words else [])
    assert all(one.startswith(f"{SICK} burn-in of 20") for one in found)


def test_a_record_that_cannot_be_read_has_not_passed(node: Node) -> None:
    (node.state / burning.RECORD).write_text("{")
    assert "is damaged" in node.asked("idle", "none")[0]


@pytest.mark.parametrize(("ago", "problem", "closed"), [(-5, "", False), (5, "", True), (-5, "it failed", True)])
@pytest.mark.holds("what a burn-in has proved mended does not close the node again")
def test_an_xid_before_a_burn_in_that_passed_is_settled(node: Node, ago: int, problem: str, closed: bool) -> None:
    """The kernel's log keeps it until the next boot, also where the GPU was reset."""
    begun = NOW - 60
    since = int(begun - (time.time() - time.monotonic()))
    node.gpus = seen(*TWO, xids=[{"address": "0000:01:00.0", "xid": 48, "count": 1, "seconds": since + ago}])
    burning.keep(str(node.state), Burning(["x"], "root@nas", begun, NOW, problem))
    assert bool(node.asked("idle", "none")) == closed


@pytest.mark.holds("a burn-in by a clock that was wrong has proved nothing")
def test_a_burn_in_by_a_clock_that_was_wrong_excuses_no_xid(node: Node) -> None:
    """A new node's clock may be years ahead until it has asked a time server."""
    node.gpus = seen(*TWO, xids=[{"address": "0000:01:00.0", "xid": 48, "count": 1, "seconds": time.monotonic()}])
    burning.keep(str(node.state), Burning(["x"], "root@nas", NOW + 10**8, NOW + 10**8, ""))
    assert "Xid 48" in node.asked("idle", "none")[0]


def test_stand_ins_for_gpus_need_no_driver(node: Node) -> None:
    node.gpus = SILENT
    Path(node.places.settings).write_text(json.dumps({"access": "granted", "gpus": {"GPU-a": ["/dev/nvidia0"]}}))
    assert node.asked("idle", "none") == []


def test_without_a_queue_the_timer_of_the_gate_looks(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    class Done:
        done: tuple[str, ...] = ()
        problems: tuple[str, ...] = ()

    printed: list[str] = []
    for module, name in ((gate_timer.reconcile, "reconcile"), (gate_timer.slice_limits, "apply")):
        monkeypatch.setattr(module, name, lambda *_: Done)
    monkeypatch.setattr(gate_timer.job_use, "look", lambda *_: None)
    monkeypatch.setattr(gate_timer, "print_outcome", lambda done, problems: printed.extend(done) or len(problems))
    node.check("10-a", "echo bad; exit 1")
    for _ in range(2):
        assert gate_timer.main(node.places) == 0
    assert (printed, node.looks) == (["takes no work: 10-a: bad"] * 2, 1)


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
