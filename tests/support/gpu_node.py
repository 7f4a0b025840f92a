"""A node with GPUs that are described in a file, without hardware."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Places

from tests.support import fake_nvml

MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  {0}  Sun Jul 20 00:00:00 UTC 2025\nGCC version: gcc 14\n"

DIRECTORY = "usr/lib/x86_64-linux-gnu"


class Node:
    """A node's root. What it has: GPUs on the bus, a loaded module, the fake library with a version in its name."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.bus = root / "sys/bus/pci/devices"
        self.log = root / "kmsg"
        self.description = root / "nvml"
        self.bus.mkdir(parents=True)
        self.log.write_text("")
        monkeypatch.setenv(fake_nvml.VARIABLE, str(self.description))
        self.places = Places(str(root), str(self.bus), (), str(self.log), str(root / "run/gpus.lock"))

    def gpu(self, address: str, driver: str | None = "nvidia", **attributes: str) -> None:
        at = self.bus / address
        at.mkdir()
        known = {"vendor": "0x10de", "device": "0x2330", "class": "0x030200", **attributes}
        for name, value in known.items():
            (at / name).write_text(f"{value}\n")
        if driver is not None:
            drivers = self.root / "sys/bus/pci/drivers" / driver
            drivers.mkdir(parents=True, exist_ok=True)
            (at / "driver").symlink_to(drivers)

    def module(self, version: str | None = "550.163.01") -> None:
        if version is not None:
            self.file("proc/driver/nvidia/version", MODULE.format(version))
            self.file("sys/module/nvidia/version", f"{version}\n")
            self.file("dev/nvidiactl", "")

    def library(self, version: str = "550.163.01") -> None:
        directory = self.root / DIRECTORY
        directory.mkdir(parents=True, exist_ok=True)
        # a copy: the file that the link leads to has the version in its name
        (directory / f"libnvidia-ml.so.{version}").write_bytes(fake_nvml.library().read_bytes())
        (directory / fake_nvml.NAME).symlink_to(f"libnvidia-ml.so.{version}")

    def file(self, name: str, text: str) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def describe(self, *changes: tuple[str, str | None], gpu: int | None = None) -> None:
        self.description.write_text(fake_nvml.described(*changes, gpu=gpu))

    def whole(self, *changes: tuple[str, str | None], gpu: int | None = None) -> None:
        """Two GPUs on the bus, their driver, and what it says of them: with the changes."""
        for address in ("0000:01:00.0", "0000:41:00.0"):
            self.gpu(address)
        self.module()
        self.library()
        self.describe(*changes, gpu=gpu)


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)
