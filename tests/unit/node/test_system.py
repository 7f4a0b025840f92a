"""What kind of host it is, whom it knows, and what is in it."""

import grp
import json
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import cgroups, hardware, lookup, people
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import copy_server, retention
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import KEY as PLAIN
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import valid_name
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants, jobs
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import parse_mountinfo
from ansible_collections.gpuadmin.node.plugins.module_utils.operations import host_facts
from ansible_collections.gpuadmin.node.plugins.module_utils.operations.host_facts import look_at, queue
from ansible_collections.gpuadmin.node.plugins.module_utils.system import (
    family,
    parse_dpkg_status,
    parse_os_release,
    units,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import Table, decode, encode, members, number
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ID=debian\nVERSION_CODENAME=trixie\n", "debian"),
        ('ID=linuxmint\nID_LIKE="ubuntu debian"\n', "debian"),
        ('ID="rocky"\nID_LIKE="rhel centos fedora"\n', "redhat"),
        ("ID=fedora\n", "redhat"),
        ("ID=arch\n", "archlinux"),
        ("ID=manjaro\nID_LIKE=arch\n", "archlinux"),
        ("# nothing\nID=alpine\n", None),
        ("", None),
    ],
)
def test_family(text: str, expected: str | None) -> None:
    assert family(parse_os_release(text)) == expected


def test_dpkg_status_counts_only_what_is_configured() -> None:
    text = (
        "Package: a\nStatus: install ok installed\nVersion: 1\n\n"
        "Package: b\nStatus: deinstall ok config-files\n\n"
        "Package: c\nStatus: install ok half-configured\n\n"
        "Package: d\nStatus: hold ok installed\nDescription: x\n Package: e\n"
    )
    assert parse_dpkg_status(text) == ["a", "d"]


def test_units_of_a_systemd_that_does_not_answer_are_not_none() -> None:
    assert units(("sh", "-c", "echo b.service active; echo; echo a.service; exit 1")) == ["a.service", "b.service"]
    with pytest.raises(NodeError, match="does not say what it has: Failed to list units: Connection timed out"):
        units(("sh", "-c", "echo Failed to list units: Connection timed out >&2; exit 1"))
    with pytest.raises(NodeError, match="No such file"):
        units(("/nonexistent/systemctl",))


KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEwH0f5bI8ZzvWgIbc5uK1h6H8l2fFrj1v6J2p7mWb2T"


@pytest.mark.parametrize(
    "name",
    [
        "../x", "-rf", "a b", "{{ x }}", "a\nb", "minji\n", "a" * 33, "김민지", "", "A", "1a", "a:b", ".", "a/b", "a.b",
        None, 5,
    ],
)  # fmt: skip
def test_names(name: object) -> None:
    assert not valid_name(name)


@pytest.mark.parametrize(
    "key", ["restrict " + KEY, KEY + "\n" + KEY, " " + KEY, "ssh-dss AAAAB3NzaC1kc3MAAACB", KEY + "\r", "# comment"]
)
def test_keys(key: str) -> None:
    assert not PLAIN.match(key)


def test_the_longest_name_and_a_comment_in_hangul_are_fine() -> None:
    assert valid_name("a" * 32)
    assert PLAIN.match(KEY + " 민지 @ home")


DISKS = {
    "blockdevices": [
        {"name": "sda", "type": "disk", "serial": "S1", "wwn": "0x5", "model": "SSD ", "size": 480103981056},
        {"name": "sdb", "type": "disk", "serial": None, "wwn": "0x6", "model": None, "size": "1000"},
        {"name": "sdc", "type": "disk", "serial": " ", "wwn": None, "model": "virtual", "size": 1},
        {"name": "loop0", "type": "loop", "serial": None, "wwn": None, "model": None, "size": 1},
    ]
}
NO_GPU: dict[str, Any] = {"pci": [], "nvml": None, "problem": None}


def says(text: str, status: int = 0) -> Any:
    def command(argv: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(argv, status, text, "it does not work")

    return command


def tree(root: Path, files: dict[str, str]) -> str:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return str(root)


FILES = {
    "sys/class/dmi/id/product_serial": "ABC123\n", "sys/class/dmi/id/sys_vendor": "Maker\n",
    "sys/class/dmi/id/product_name": "Box 9\n", "sys/class/net/eth0/device/x": "",
    "sys/class/net/eth0/address": "00:50:00:00:00:01\n", "sys/class/net/br0/address": "00:50:00:00:00:02\n",
    "sys/class/net/eth1/device/x": "", "sys/class/net/eth1/address": "00:50:00:00:00:01\n",
    "sys/class/net/eth1/bonding_slave/perm_hwaddr": "00:50:00:00:00:03\n",
}  # fmt: skip


def test_a_machine(tmp_path: Path) -> None:
    gpu = {"uuid": "GPU-1", "name": "H100", "serial": "77"}
    seen = {"pci": [1], "nvml": {"gpus": [gpu]}, "problem": None}
    found = hardware.collect(tree(tmp_path, FILES), says(json.dumps(DISKS)), lambda: seen)
    assert found == {
        "found": {
            "chassis": [{"id": "ABC123", "words": "Maker Box 9"}],
            "network": [
                {"id": "00:50:00:00:00:01", "words": "network card eth0"},
                {"id": "00:50:00:00:00:03", "words": "network card eth1"},
            ],
            "disk": [{"id": "S1", "words": "SSD, 480 GB"}, {"id": "0x6", "words": "disk, 0 GB"}],
            "gpu": [{"id": "GPU-1", "words": "H100, serial 77"}],
        },
        "unknown": {},
    }


@pytest.mark.parametrize("virtual", [False, True])
def test_an_address_that_no_maker_gave(tmp_path: Path, virtual: bool) -> None:
    """A virtual function's, and a BMC's link's; a virtual machine has no others."""
    files = FILES | {
        "sys/class/net/ens1f0v0/device/x": "", "sys/class/net/ens1f0v0/address": "ea:11:22:33:44:55\n",
        "proc/cpuinfo": f"processor\t: 0\nflags\t\t: fpu vme{' hypervisor' if virtual else ''} lahf_lm\n",
    }  # fmt: skip
    found = hardware.collect(tree(tmp_path, files), says(json.dumps(DISKS)), lambda: NO_GPU)["found"]["network"]
    assert ("ea:11:22:33:44:55" in [one["id"] for one in found], len(found)) == (virtual, 2 + virtual)


@pytest.mark.parametrize(
    ("serial", "found"),
    [
        *((none, []) for none in (
            "", "0000", "None", "To be filled by O.E.M.", "Default string", "0123456789", "SYS-1234567890", "INVALID",
            "Chassis Serial Number", "System Serial Number", "(null string)", "Not Specified", "........", "<empty>",
        )),
        *((one, [one]) for one in ("ABC123", "S123456789012", "CN-0123456789-X", "NULL7", "SYS-12345678")),
    ],
)  # fmt: skip
def test_which_numbers_are_none(tmp_path: Path, serial: str, found: list[str]) -> None:
    files = FILES | {"sys/class/dmi/id/product_serial": serial}
    there = hardware.collect(tree(tmp_path, files), says(json.dumps(DISKS)), lambda: NO_GPU)["found"]["chassis"]
    assert [one["id"] for one in there] == found


@pytest.mark.holds("a GPU that does not answer has not vanished")
@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (NO_GPU, ""),
        ({"pci": [1], "nvml": None, "problem": "the driver is not loaded"}, "the driver is not loaded"),
        ({"pci": [1], "nvml": {"gpus": [{"problem": "lost"}]}}, "1 of its GPUs do not answer"),
        ({"pci": [1, 2], "nvml": {"gpus": [{"uuid": "GPU-1"}]}}, "1 of its GPUs do not answer"),
    ],
)
def test_gpus_that_do_not_answer_are_not_known(seen: dict[str, Any], why: str) -> None:
    assert hardware.of_gpus(seen)[1] == why


def test_a_container_sees_no_disk_of_its_own(tmp_path: Path) -> None:
    root = tree(tmp_path, FILES | {"run/systemd/container": "x"})
    found = hardware.collect(root, says(json.dumps(DISKS)), lambda: NO_GPU)
    assert set(found["unknown"]) == {"chassis", "disk"}
    assert [one["id"] for one in found["found"]["network"]] == [
        "00:50:00:00:00:02", "00:50:00:00:00:01", "00:50:00:00:00:03",
    ]  # fmt: skip


def test_a_program_that_fails_leaves_disks_unknown(tmp_path: Path) -> None:
    for command in (says("", 1), says("{}"), says("not json")):
        found = hardware.collect(tree(tmp_path, FILES), command, lambda: NO_GPU)
        assert ("disk" in found["unknown"], "disk" in found["found"]) == (True, False)
    with pytest.raises(NodeError):
        hardware.of_lsblk('{"blockdevices": [5]}')


MOUNTS = """\
22 1 0:20 / / rw - btrfs /dev/vda2 rw
30 22 0:40 / /home rw - autofs systemd-1 rw
31 30 0:41 / /home rw - nfs4 10.77.0.10:/srv/storage/homes rw
"""


def test_look_at_does_not_look_into_mounts() -> None:
    seen = look_at("/home", parse_mountinfo(MOUNTS))
    assert seen == {
        "mounts": [
            {"source": "systemd-1", "fstype": "autofs"},
            {"source": "10.77.0.10:/srv/storage/homes", "fstype": "nfs4"},
        ],
        "fstype": "nfs4",
        "entries": [],
    }
    seen = look_at("/local/.docker", parse_mountinfo(MOUNTS))
    assert (seen["mounts"], seen["fstype"], seen["entries"]) == ([], "btrfs", [])


@pytest.mark.holds("a node does not leave the queue while a job without GPUs runs there")
def test_whose_jobs_run_and_who_has_gpus_of_an_admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job without GPUs has no grant. Slurm's own processes are root's; a Slurm that is not ours is not looked at."""
    step = tmp_path / "system.slice/gpu1_slurmstepd.scope/job_7/step_0"
    for name, pids in (("slurm", "1\n"), ("user/task_0", "2\n3\n")):
        (step / name).mkdir(parents=True)
        (step / name / "cgroup.procs").write_text(pids)
    owners = {1: 0, 2: 20002, 3: None}
    monkeypatch.setattr(cgroups, "owner_of", owners.get)
    monkeypatch.setattr(jobs, "name_of", lambda uid: {20002: "haeun"}[uid])
    monkeypatch.setattr(jobs.running, "__defaults__", ([str(tmp_path / "none"), str(tmp_path)],))
    now = int(time.time())
    for id, user, source, until in (
        ("a1", "minji", "admin", 99),
        ("slurm-4", "jiho", "slurm", 99),
        ("a2", "sora", "admin", -1),
    ):
        one = grants.Grant(id, user, 20001, ["0"], now - 9, now + until, "root", source=source)
        grants.write(one, str(tmp_path))
    found = queue(str(tmp_path))
    assert (found["people"], found["granted"], found["here"]) == (["jiho"], ["minji"], False)
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm/slurm.key").touch()
    found = queue(str(tmp_path))
    assert (found["people"], found["here"]) == (["haeun", "jiho"], True)


@pytest.mark.parametrize(("line", "members"), [("docker:x:990:jiho", ["jiho", "minji"]), ("users:x:100:jiho", [])])
def test_whose_first_group_is_docker_is_in_it(monkeypatch: pytest.MonkeyPatch, line: str, members: list[str]) -> None:
    """`useradd -g docker`: the group's line does not name them."""
    name, password, gid, named = line.split(":")

    def getgrnam(wanted: str) -> grp.struct_group:
        if wanted != name:
            raise KeyError(wanted)
        return grp.struct_group((name, password, int(gid), named.split(",")))

    passwd = "minji:x:1001:990::/home/minji:/bin/bash\njiho:x:1002:1002::/home/jiho:/bin/bash\n"
    monkeypatch.setattr(grp, "getgrnam", getgrnam)
    monkeypatch.setattr(host_facts, "table", lambda _place, kind: Table.parse(kind, passwd))
    assert host_facts.docker_members() == members


PAGE = Path(__file__).resolve().parents[3] / "docs/security.md"


def test_the_page_says_what_holds() -> None:
    table = PAGE.read_text().partition("## Limits that are not settings")[2].partition("\n## ")[0]
    said = dict(re.findall(r"^\| ([^|]+) \| ([0-9]+)[^|]* \|", table, re.MULTILINE))
    assert {what: int(number) for what, number in said.items()} == {
        "a second copy stays after it came": retention.COPY_DAYS,
        "sets that the backup host takes in 24 hours": copy_server.PER_DAY,
    }


NOBODY = 2**31 - 7  # a uid that no host gives


def test_whom_this_host_knows_and_whom_it_does_not() -> None:
    assert lookup.system_lookup("root") == (0, 0)
    assert lookup.name_of(0) == "root"
    assert lookup.owner(0) == "root (uid 0)"
    assert lookup.system_lookup("gpuadmin-nobody-has-this") is None
    assert lookup.name_of(NOBODY) is None
    assert lookup.owner(NOBODY) == f"uid {NOBODY}"


@pytest.mark.parametrize(
    "given_",
    [
        [{"name": "root", "uid": 0}],
        [{"name": 5, "uid": 20000}],
        [{"name": "minji", "uid": 20000}, {"name": "minji", "uid": 20001}],
        [{"name": "minji", "uid": 20000}, {"name": "jiho", "uid": 20000}],
    ],
)
def test_people_who_cannot_be_told_apart_are_refused(given_: list[dict[str, Any]]) -> None:
    with pytest.raises(NodeError):
        people.parse(given_)


@given(st.binary(max_size=300))
def test_any_bytes_survive(data: bytes) -> None:
    assert encode(Table.parse("passwd", decode(data)).text()) == data


@given(st.text(alphabet="a:x#+-\n\r\x0c 1\u2028", max_size=60))
def test_any_lines_survive(text: str) -> None:
    assert Table.parse("group", text).text() == text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("root:x:0:\n", "root:x:0:\nnew:x:5:\n"),
        ("root:x:0:", "root:x:0:\nnew:x:5:\n"),
        ("root:x:0:\n+:::\n", "root:x:0:\nnew:x:5:\n+:::\n"),
        ("root:x:0:\r\n# c\n\nbroken\n", "root:x:0:\r\n# c\n\nbroken\nnew:x:5:\n"),
        ("", "new:x:5:\n"),
    ],
)
def test_append(before: str, after: str) -> None:
    table = Table.parse("group", before)
    table.set("new", ["new", "x", "5", ""])
    assert table.text() == after


def test_an_entry_that_would_break_the_file_is_refused() -> None:
    table = Table.parse("group", "")
    for fields in (["a", "x", "1"], ["a", "x", "1", "b\nroot::0:0:"], ["a", "x", "1", "b:c"]):
        with pytest.raises(ValueError, match="not a group entry"):
            table.set("a", fields)


def test_small_parts() -> None:
    assert members("a,,b\r") == ["a", "b"]
    assert [number(text) for text in ("0", "-1", "", "1 ", "٣", "99999999999")] == [0, None, None, None, None, None]
