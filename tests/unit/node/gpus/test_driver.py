"""The driver's files: which versions are here, whether they agree, and what is missing in words."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import driver, pci

from tests.support.gpu_node import DIRECTORY, Node

OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build  (dvs-builder@U16)\n"
KERNEL = "6.12.48+deb13-amd64"


def missing(node: Node) -> list[str]:
    return driver.missing(driver.look(str(node.root), KERNEL), pci.devices(str(node.bus), ()))


def built(node: Node, line: str) -> None:
    node.file(f"usr/lib/modules/{KERNEL}/modules.dep", f"kernel/drivers/nvme/host/nvme.ko.xz:\n{line}\n")
    node.file(f"usr/lib/modules/{KERNEL}/{line.partition(':')[0]}", "")


@pytest.mark.needs("cc")
def test_a_driver_that_is_whole(node: Node) -> None:
    node.whole()
    built(node, "updates/dkms/nvidia-current.ko.xz:")
    found = driver.look(str(node.root), KERNEL)
    path = str(node.root / DIRECTORY / "libnvidia-ml.so.1")
    assert found == driver.Driver("550.163.01", KERNEL, False, True, False, path, "550.163.01", True)
    assert missing(node) == []


@pytest.mark.parametrize(
    ("text", "version", "is_open"),
    [
        (OPEN, "570.86.15", True),
        ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19\n", "535.104.05", False),
        ("something else\n", None, False),
    ],
)
def test_the_loaded_modules_version(node: Node, text: str, version: str | None, is_open: bool) -> None:
    node.file("proc/driver/nvidia/version", text)
    found = driver.look(str(node.root), KERNEL)
    assert (found.module, found.open_module) == (version, is_open)


@pytest.mark.parametrize(
    ("line", "has"),
    [
        ("updates/dkms/nvidia.ko: kernel/x.ko", True),
        ("updates/dkms/nvidia-current.ko.zst:", True),
        ("kernel/drivers/video/nvidia.ko.xz: kernel/drivers/acpi/video.ko.xz", True),
        ("kernel/drivers/usb/typec/altmodes/typec_nvidia.ko.xz: x", False),
        ("kernel/drivers/net/x.ko: updates/dkms/nvidia.ko", False),
    ],
)
def test_a_kernel_has_the_module(node: Node, line: str, has: bool) -> None:
    built(node, line)
    assert driver.has_module(str(node.root), KERNEL) == has


def test_libraries_where_debian_puts_them(node: Node) -> None:
    """Debian's alternatives: a link to a link to the file."""
    real = node.root / DIRECTORY / "nvidia/current"
    real.mkdir(parents=True)
    (real / "libnvidia-ml.so.550.163.01").touch()
    (real / "libnvidia-ml.so.1").symlink_to("libnvidia-ml.so.550.163.01")
    (node.root / DIRECTORY / "libnvidia-ml.so.1").symlink_to("nvidia/current/libnvidia-ml.so.1")
    found = driver.look(str(node.root), KERNEL)
    assert (found.library, found.libraries) == (str(node.root / DIRECTORY / "libnvidia-ml.so.1"), "550.163.01")


def test_a_library_that_does_not_say_its_version(tmp_path: Path) -> None:
    (tmp_path / "libnvidia-ml.so.1").touch()
    assert driver.library_version(str(tmp_path / "libnvidia-ml.so.1")) is None


def test_nothing_is_missing_where_there_is_no_gpu(node: Node) -> None:
    assert missing(node) == []


@pytest.mark.needs("cc")
def test_what_is_missing_in_words(node: Node) -> None:
    node.gpu("0000:01:00.0", None)
    assert missing(node) == [
        f"the module nvidia is not loaded, and kernel {KERNEL} has none: install the driver for this kernel",
        "libnvidia-ml.so.1 is not installed: install the driver's libraries",
    ]
    built(node, "updates/dkms/nvidia.ko:")
    assert missing(node)[0].endswith(f"but kernel {KERNEL} has it: modprobe nvidia, and dmesg says why it did not")
    node.gpu("0000:02:00.0", "nouveau")
    assert missing(node)[0].startswith("0000:02:00.0: its driver is nouveau: keep nouveau out")
    node.module("550.163.01")
    node.library("550.90.07")
    assert "the loaded module is 550.163.01, the libraries are 550.90.07: reboot" in "\n".join(missing(node))
    assert "0000:01:00.0: the driver has not taken it: dmesg says why" in missing(node)
    (node.root / "dev/nvidiactl").unlink()
    assert missing(node)[-1].startswith("/dev/nvidiactl is missing")


def test_a_gpu_of_a_virtual_machine(node: Node) -> None:
    node.gpu("0000:01:00.0", "vfio-pci")
    found = missing(node)
    assert found[0] == "0000:01:00.0: its driver is vfio-pci: it is given to a virtual machine"
    assert not any("not loaded" in line for line in found)
