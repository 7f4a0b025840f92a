"""What is wrong with a host itself."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import home, host, sessions
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject


def test_local_disks_once_each_and_no_file_server() -> None:
    text = (
        "1 0 0:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:1 /var /var rw - ext4 /dev/sda1 rw\n"
        "3 1 0:3 / /proc rw - proc proc rw\n4 1 0:4 / /home rw - nfs4 storage1:/homes rw\n"
        "5 1 0:5 / /not/there rw - ext4 /dev/sdb1 rw\n"
    )
    assert [one["mount"] for one in host.disks(Subject(), text)] == ["/"]


def test_a_disk_that_a_person_makes_up(tmp_path: Path) -> None:
    # FUSE: free space, source and place are theirs to choose, and so many of them hide the host's own
    theirs = "".join(f"{n} 1 0:{n} / {tmp_path} rw - fuse /dev/sd{n} rw\n" for n in range(10, 40))
    text = f"{theirs}1 0 0:1 / / rw - ext4 /dev/sda1 rw\n"
    assert [one["mount"] for one in host.disks(Subject(), text)] == ["/"]


def test_names_that_are_found_and_not() -> None:
    found = host.names(Subject(servers=("127.0.0.1", "nothing.invalid", "x" * 300)))
    assert found["127.0.0.1"]["problem"] is None
    assert found["nothing.invalid"]["problem"]
    assert found["x" * 300]["problem"]


@pytest.mark.parametrize(("asks", "name"), [(True, "run/reboot-required"), (False, "run/other")])
def test_a_reboot_that_is_due(tmp_path: Path, asks: bool, name: str) -> None:
    for one, text in ((name, ""), ("proc/uptime", "12.5 3\n")):
        (tmp_path / one).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / one).write_text(text)
    found = host.reboot(Subject(root=str(tmp_path)))
    assert (found["asked"], found["uptime"]) == (asks, 12)


def test_what_homes_are_on_is_known_without_asking_a_server() -> None:
    text = "1 0 0:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:2 / /home ro - nfs4 storage1:/homes ro,hard\n"
    found = home.mount(Subject(), text)
    assert (found["type"], found["network"], found["read_only"]) == ("nfs4", True, True)


def test_a_link_in_place_of_a_home_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/minji").symlink_to("/root")
    found = home.home(Subject(name="minji", root=str(tmp_path)))
    assert (found["kind"], "keys" in found) == ("link", False)


def test_what_the_kernel_counts_of_a_person(tmp_path: Path) -> None:
    directory = tmp_path / "user.slice/user-20000.slice"
    directory.mkdir(parents=True)
    for name, text in (("pids.current", "7\n"), ("pids.max", "max\n"), ("memory.events", "low 0\noom_kill 3\n")):
        (directory / name).write_text(text)
    assert sessions.count_slice(20000, str(tmp_path)) == {"tasks": 7, "memory_oom_kill": 3}
    assert not sessions.cgroup_alive(20000, "docker.service", str(tmp_path))


@pytest.mark.parametrize(
    ("files", "service"),
    [
        ((), None),
        (("usr/lib/systemd/system/systemd-timesyncd.service",), "systemd-timesyncd"),
        # systemd brings its own along; the one that starts, or runs, is what keeps the clock
        (("usr/lib/systemd/system/chronyd.service", "etc/systemd/system/sysinit.target.wants/systemd-timesyncd.service",
          "usr/lib/systemd/system/systemd-timesyncd.service"), "systemd-timesyncd"),
        (("etc/systemd/system/sysinit.target.wants/systemd-timesyncd.service",
          "sys/fs/cgroup/system.slice/chrony.service/cgroup.procs"), "chrony"),
    ],
)  # fmt: skip
def test_what_keeps_the_clock(tmp_path: Path, files: tuple[str, ...], service: str | None) -> None:
    for name in files:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert host.time_service(str(tmp_path)) == service


@pytest.mark.root
def test_what_is_somebody_else_s_in_a_home(tmp_path: Path) -> None:
    (tmp_path / "its").mkdir()
    for name in (".cache", ".local", ".thesis"):
        (tmp_path / "its" / name).mkdir()
    (tmp_path / "its/.config").symlink_to("/etc")
    for name in ("", ".local", ".config"):
        os.chown(tmp_path / "its" / name, 20000, 20000, follow_symlinks=False)
    assert [one["name"] for one in home.list_foreign_files(str(tmp_path / "its"), 20000)] == [".cache"]
    assert home.list_foreign_files(str(tmp_path / "gone"), 20000) == []


def test_where_everybody_writes(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o1777)
    assert host.temporary(Subject(root=str(tmp_path))) == {"/tmp": 0o1777, "/var/tmp": None}
