"""What a host says of itself every day: each part by itself, and unknown where it is not known."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import backup_set
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import gate
from ansible_collections.gpuadmin.node.plugins.module_utils.host import status
from ansible_collections.gpuadmin.node.plugins.module_utils.images.observe import report_image
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places, looking
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import occupants
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import queue

from gpuadmin.common.records.hosts import Newest
from tests.support.failing import raising
from tests.support.fake_slurm import slurm

pytestmark = pytest.mark.holds("a look that ends leaves the others what they look at")


@pytest.fixture(autouse=True)
def _without_timers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "run", lambda command: "")


HOMES = "10.0.0.1:/srv/storage/homes"


def mountinfo(*mounts: tuple[str, str, str]) -> str:
    return "".join(f"{n} 1 0:{n} / {point} rw - {kind} {source} rw\n" for n, (point, kind, source) in enumerate(mounts))


def test_the_disk_that_a_path_would_be_on(tmp_path: Path) -> None:
    found = status.disk(str(tmp_path / "not/there"), mountinfo(("/", "btrfs", "/dev/vda2")))
    space = os.statvfs("/")
    assert (found.mount, found.bytes) == ("/", space.f_blocks * space.f_frsize)
    assert 0 <= found.free <= found.bytes


@pytest.mark.holds("a disk's path is asked of no file server", "a link that leads to a file server is not asked")
@pytest.mark.parametrize("mount", [("/home", "nfs4", HOMES), ("/home", "autofs", "systemd-1"), None])
def test_a_file_server_is_not_asked(mount: tuple[str, str, str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("asked")

    monkeypatch.setattr(os, "statvfs", asked)
    monkeypatch.setattr(os.path, "realpath", asked)
    text = mountinfo(("/", "ext4", "/dev/sda"), mount) if mount else ""
    with pytest.raises(NodeError, match="is on no disk of this host"):
        status.disk("/home/minji", text)


@pytest.mark.holds("a disk's path is asked of no file server", "a link that leads to a file server is not asked")
def test_a_link_is_followed_to_its_disk(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "homes").symlink_to(tmp_path / "disk")
    mounts = mountinfo(("/", "ext4", "/dev/sda"), (str(tmp_path / "disk"), "btrfs", "/dev/sdb"))
    assert status.disk(str(tmp_path / "homes"), mounts).mount == str(tmp_path / "disk")
    away = mountinfo(("/", "ext4", "/dev/sda"), (str(tmp_path / "disk"), "nfs4", HOMES))
    with pytest.raises(NodeError, match="nfs4"):
        status.disk(str(tmp_path / "homes"), away)


def stored(directory: Path, name: str, verified: str | None) -> None:
    home = backup_set.Home(20000, 3, 10, "x", verified)
    (directory / name).mkdir()
    backup_set.store(
        backup_set.Backup(
            name, "2026-11-21T01:02:03Z", {"minji": home}, {"jiho": "away"}, {"backup1": "2026-11-21T02:00:00Z"},
            str(directory / name), "/srv/homes",
            uncopied={"backup1": {"minji": "is too large"}},
        )
    )  # fmt: skip


def test_the_newest_complete_backup(tmp_path: Path) -> None:
    directory = tmp_path / "backups"
    assert status.newest_backup(str(directory)) is None
    directory.mkdir(mode=0o700)
    assert status.newest_backup(str(directory)) is None
    stored(directory, "20261120T010203Z-daily", None)
    stored(directory, "20261121T010203Z-daily", "2026-11-21T03:00:00Z")
    (directory / "20261122T010203Z-daily").mkdir()  # it is being made
    assert status.newest_backup(str(directory)) == Newest(
        "20261121T010203Z-daily", "2026-11-21T01:02:03Z", 1, 1, 1, {"backup1": "2026-11-21T02:00:00Z"},
        {"backup1": ["minji"]},
    )  # fmt: skip


def test_gpus_that_cannot_be_seen_are_not_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NodeError, match="no PCI bus"):
        status.gpus(str(tmp_path / "pci"))
    monkeypatch.setattr(status.pci, "summary", lambda bus: [f"{bus} nvidia"])
    assert status.gpus(str(tmp_path)) == [f"{tmp_path} nvidia"]


def test_a_node_without_images_has_none(tmp_path: Path) -> None:
    assert report_image(Places(state=str(tmp_path))) is None
    (tmp_path / "images.json").write_text("{")
    with pytest.raises(NodeError, match="cannot be read"):
        report_image(Places(state=str(tmp_path)))


def test_a_part_that_is_not_known_leaves_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occupants, "people", raising(NodeError("it is not known who is logged in: no answer")))
    monkeypatch.setattr(occupants, "gpu_users", lambda first: ["minji"])
    monkeypatch.setattr(status, "gpus", lambda: [])
    monkeypatch.setattr(gate, "problems", lambda: ["ssh.service: /dev/nvidia1 can be opened, and is not granted"])
    (tmp_path / "open").mkdir(mode=0o755)
    found = status.collect(
        uid_first=20000, uid_last=49999, disks={"homes": str(tmp_path)}, backups=str(tmp_path / "open"), node=True,
        places=Places(state=str(tmp_path)),
    )  # fmt: skip
    assert set(found["unknown"]) == {"people", "backup"}
    assert "people" not in found
    assert (found["gpu_people"], found["gpus"], found["image"]) == (["minji"], [], None)
    assert found["gpu_gate"] == ["ssh.service: /dev/nvidia1 can be opened, and is not granted"]
    assert found["disks"]["homes"].path == str(tmp_path)


def test_a_host_that_is_no_node_has_no_people() -> None:
    found = status.collect(uid_first=20000, uid_last=49999, disks={})
    assert found == {"disks": {}, "timers": {}, "unknown": {}, "updates": None}


def test_each_look_mounts_the_disk_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that ends first unmounts; the other would find no image, and that is not what there is."""
    tops = []
    for process in (1, 2):
        monkeypatch.setattr("os.getpid", lambda process=process: process)
        tops.append(looking().top)
    assert len(set(tops)) == 2
    assert looking().own, "it ends with the process"


def test_a_login_manager_that_is_frozen_holds_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even where Python itself waits in the kernel, as for a file server or a disk that is gone."""
    monkeypatch.setattr(occupants, "people", lambda *_: time.sleep(600))  # what hangs
    monkeypatch.setattr(occupants, "gpu_users", lambda first: [])
    monkeypatch.setattr(status, "gpus", lambda: [])
    begun = time.monotonic()
    places = Places(state=str(tmp_path))
    found = status.collect(uid_first=20000, uid_last=49999, disks={}, node=True, places=places, seconds=3)
    assert time.monotonic() - begun < 60
    assert found["unknown"] == {"people": "did not end within 3 seconds"}
    assert (found["gpus"], found["image"]) == ([], None)


def test_nodes_of_the_queue_that_take_no_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = "echo 'gpu1|idle|none'; echo 'gpu2|drained*|Prolog error'"
    slurm(tmp_path, monkeypatch, scontrol="echo 'at storage1 is UP'", sinfo=rows)
    ids: dict[str, Any] = {"uid_first": 1, "uid_last": 2, "disks": {}}
    found = status.collect(**ids, queue=True)
    assert found["queue"] == {"gpu2": "Prolog error"}
    has = (("gpu1", "gpu:h100:2"), ("gpu2", "(null)"), ("gpu3", "gpu:0"))
    (tmp_path / "types").write_text("".join(f"{node:<64}\x1f{gres:<256}\x1f\n" for node, gres in has))
    monkeypatch.setattr(queue, "TYPES", ("cat", str(tmp_path / "types")))
    assert status.collect(**ids, queue=True)["queue_without_gpus"] == ["gpu2", "gpu3"]
    slurm(tmp_path, monkeypatch, scontrol="echo down")
    away = status.collect(**ids, queue=True)
    assert away["unknown"] == dict.fromkeys(("queue", "queue_without_gpus"), "slurmctld does not answer")
    assert "queue" not in status.collect(**ids)


def test_timers_and_how_they_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = """Id=gpuadmin-timer-drift.service
Result=exit-code
ExecMainExitTimestampMonotonic=400000900

Id=gpuadmin-timer-idle.service
Result=success
ExecMainExitTimestampMonotonic=400000900

Id=gpuadmin-timer-report.service
Result=success
ExecMainExitTimestampMonotonic=0
"""
    when = "2025-11-29T07:06:40+00:00"
    monkeypatch.setattr(time, "time", lambda: 1_764_400_100.0)
    monkeypatch.setattr(time, "monotonic", lambda: 500.0)
    monkeypatch.setattr(status, "run", lambda command: shown)
    assert status.timers() == {"drift": f"{when} failed", "idle": when, "report": ""}
    monkeypatch.setattr(status, "run", lambda command: "")
    assert status.timers() == {}
