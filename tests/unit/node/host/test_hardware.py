"""Serial numbers of a machine and of what is in it."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.host import hardware

from gpuadmin.common.records.audits import Hardware, Part

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
    assert found == Hardware(
        {
            "chassis": [Part("ABC123", "Maker Box 9")],
            "network": [
                Part("00:50:00:00:00:01", "network card eth0"),
                Part("00:50:00:00:00:03", "network card eth1"),
            ],
            "disk": [Part("S1", "SSD, 480 GB"), Part("0x6", "disk, 0 GB")],
            "gpu": [Part("GPU-1", "H100, serial 77")],
        },
        {},
    )


@pytest.mark.parametrize("virtual", [False, True])
def test_an_address_that_no_maker_gave(tmp_path: Path, virtual: bool) -> None:
    """A virtual function's, and a BMC's link's; a virtual machine has no others."""
    files = FILES | {
        "sys/class/net/ens1f0v0/device/x": "", "sys/class/net/ens1f0v0/address": "ea:11:22:33:44:55\n",
        "proc/cpuinfo": f"processor\t: 0\nflags\t\t: fpu vme{' hypervisor' if virtual else ''} lahf_lm\n",
    }  # fmt: skip
    found = hardware.collect(tree(tmp_path, files), says(json.dumps(DISKS)), lambda: NO_GPU).found["network"]
    assert ("ea:11:22:33:44:55" in [one.id for one in found], len(found)) == (virtual, 2 + virtual)


@pytest.mark.parametrize(
    "serial",
    [
        "", "0000", "None", "To be filled by O.E.M.", "Default string", "0123456789", "SYS-1234567890", "INVALID",
        "Chassis Serial Number", "System Serial Number", "(null string)", "Not Specified", "........", "<empty>",
    ],
)  # fmt: skip
def test_a_number_that_is_none(tmp_path: Path, serial: str) -> None:
    files = FILES | {"sys/class/dmi/id/product_serial": serial}
    found = hardware.collect(tree(tmp_path, files), says(json.dumps(DISKS)), lambda: NO_GPU)
    assert found.found["chassis"] == []


@pytest.mark.parametrize("serial", ["ABC123", "S123456789012", "CN-0123456789-X", "NULL7", "SYS-12345678"])
def test_a_number_that_is_one(tmp_path: Path, serial: str) -> None:
    files = FILES | {"sys/class/dmi/id/product_serial": serial}
    found = hardware.collect(tree(tmp_path, files), says(json.dumps(DISKS)), lambda: NO_GPU).found["chassis"]
    assert [one.id for one in found] == [serial]


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
    assert set(found.unknown) == {"chassis", "disk"}
    assert [one.id for one in found.found["network"]] == [
        "00:50:00:00:00:02", "00:50:00:00:00:01", "00:50:00:00:00:03",
    ]  # fmt: skip


def test_a_program_that_fails_leaves_disks_unknown(tmp_path: Path) -> None:
    for command in (says("", 1), says("{}"), says("not json")):
        found = hardware.collect(tree(tmp_path, FILES), command, lambda: NO_GPU)
        assert ("disk" in found.unknown, "disk" in found.found) == (True, False)
    with pytest.raises(NodeError):
        hardware.of_lsblk('{"blockdevices": [5]}')
