"""A root with kernels, modules and libraries of a GPU driver."""

from __future__ import annotations

from pathlib import Path

from tests.support.gpu_node import DIRECTORY

OLD, NEW = "6.12.41+deb13-cloud-amd64", "6.12.57+deb13-cloud-amd64"

VERSION = "550.163.01"


class Root:
    """A root with kernels, modules and libraries; nothing of it runs."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def kernel(self, name: str) -> None:
        (self.path / "usr/lib/modules" / name / "kernel").mkdir(parents=True)
        (self.path / "usr/lib/modules" / name / "modules.dep").write_text("kernel/fs/nfs/nfs.ko.xz:\n")

    def module(self, kernel: str, text: str, file: str = "updates/dkms/nvidia-current.ko") -> None:
        """A module as a kernel would have it: what modinfo reads is a section of an ELF file."""
        base = self.path / "usr/lib/modules" / kernel
        (base / file).parent.mkdir(parents=True, exist_ok=True)
        (base / file).write_text(text)
        with (base / "modules.dep").open("a") as stream:
            stream.write(f"{file}: kernel/drivers/gpu/drm/drm.ko.xz\n")

    def library(self, version: str, name: str = "libnvidia-ml.so.1") -> None:
        """As Debian has it: a link to /etc/alternatives, which is absolute, and so on to the file."""
        real = self.path / DIRECTORY / "nvidia/current"
        real.mkdir(parents=True, exist_ok=True)
        alternatives = self.path / "etc/alternatives"
        alternatives.mkdir(parents=True, exist_ok=True)
        file = f"{name.removesuffix('.1')}.{version}"
        (real / file).write_text("")
        for link, target in (
            (self.path / DIRECTORY / name, f"/etc/alternatives/nvidia--{name}"),
            (alternatives / f"nvidia--{name}", f"/{DIRECTORY}/nvidia/current/{name}"),
            (real / name, file),
        ):
            link.unlink(missing_ok=True)
            link.symlink_to(target)


def read(path: str) -> str | None:
    return Path(path).read_text() or None


def whole(root: Root) -> None:
    for kernel in (OLD, NEW):
        root.module(kernel, VERSION)
    root.library(VERSION)
    root.library(VERSION, "libcuda.so.1")
