"""The base images: made once, kept in the cache under a key of what they were made from."""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from gpuadmin.lab import accel, builder, disk, rootfs
from gpuadmin.lab.commands import Command, require, run
from gpuadmin.lab.light import disk as light_disk
from gpuadmin.lab.mirror import mirror
from gpuadmin.lab.paths import cache_directory, guest_directory
from gpuadmin.lab.programs import LIGHT_DISK
from gpuadmin.lab.progress import Progress
from gpuadmin.lab.releases import DEFAULT, RELEASES


@dataclass(frozen=True)
class BaseImage:
    """A disk image that hosts' disks are layers above, and what it was made with."""

    key: str
    disk: Path


def image_key(mirror_uri: str | None, release: str = DEFAULT, *, machines: bool = False) -> str:
    """Given mirror and release, return a key of everything that goes into an image: 16 hexadecimal digits."""
    digest = hashlib.sha256()
    digest.update(repr(rootfs.mmdebstrap_command(Path("/"), mirror_uri, RELEASES[release], machines=machines)).encode())
    digest.update(repr(disk.LAYOUTS).encode())
    base = guest_directory()
    for path in sorted(base.rglob("*")):
        if path.is_file():
            digest.update(f"{path.relative_to(base)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def check_machine(wanted: Collection[tuple[str, str]], *, light: bool) -> None:
    """Raise an error if this machine lacks what it takes to make the images that the cache does not have. `wanted`:
    layouts and releases, all of them, so that none is missed after others took their minutes.
    """
    lacking = [
        RELEASES[release]
        for layout, release in wanted
        if not (
            _directory(release, machines=not light) / (_find_light_disk() if light else _of_layout(layout))
        ).exists()
    ]
    if lacking:
        rootfs.check_machine(*lacking, tools=LIGHT_DISK if light else ())


def _directory(release: str, *, machines: bool) -> Path:
    return cache_directory() / "images" / image_key(mirror(), release, machines=machines)


def _find_light_disk() -> str:
    return f"light-{light_disk.key()}.img"


def _of_layout(name: str) -> str:
    return f"{name}.qcow2"


def ensure_root(progress: Progress, release: str = DEFAULT, *, machines: bool = False) -> Path:
    """Return the root that disks begin with, and its kernel, making it if the cache does not have it.

    That of virtual machines (`machines`) has more installed than that of light hosts (`rootfs.MACHINES`).
    """
    uri, directory = mirror(), _directory(release, machines=machines)
    root = directory / "root"
    if not root.exists():
        rootfs.check_machine(RELEASES[release])
        with _lock_build(directory, progress):
            if not root.exists():
                with progress.phase(f"making the root file system of {RELEASES[release].title} (mmdebstrap)"):
                    _make_root(
                        root, lambda at: rootfs.mmdebstrap_command(at, uri, RELEASES[release], machines=machines)
                    )
    return root


def ensure(layout: disk.Layout, progress: Progress, release: str = DEFAULT) -> BaseImage:
    """Return the base image of a layout and release, making it if the cache does not have it."""
    root = ensure_root(progress, release, machines=True)
    target = root.parent / _of_layout(layout.name)
    if not target.exists():
        with _lock_build(root.parent, progress):
            with progress.phase("trying KVM"):
                chosen = accel.choose(root / "vmlinuz")
            if not target.exists():
                with (
                    progress.phase(f"making the {layout.name} disk image"),
                    _workplace(root.parent / "disk.part") as place,
                ):
                    builder.build(chosen, root, layout, place).rename(target)
    return BaseImage(root.parent.name, target)


def ensure_light(progress: Progress, release: str = DEFAULT) -> Path:
    """Return the disk that light hosts of a release begin with, making it if the cache does not have it."""
    target = _directory(release, machines=False) / _find_light_disk()
    if not target.exists():
        require(*LIGHT_DISK)  # guard: no disk of light hosts is made without what Slurm needs there
        root = ensure_root(progress, release)
        with _lock_build(root.parent, progress):
            if not target.exists():
                with progress.phase(f"making the light hosts' disk of {RELEASES[release].title}"):
                    light_disk.build(target, root / "root.tar")
    return target


def kernel() -> Path:
    """Return the guests' kernel, for a trial of KVM. It exists once an image was made."""
    found = sorted((cache_directory() / "images").glob("*/root/vmlinuz"))
    return found[0] if found else Path("/nonexistent")


def _make_root(root: Path, command: Callable[[Path], Command]) -> None:
    with _workplace(root.with_name("root.part")) as place:
        rootfs.write_files_tar(place / "files.tar")
        run(command(place), log=root.with_name("mmdebstrap.log"))
        place.rename(root)


@contextmanager
def _workplace(path: Path) -> Iterator[Path]:
    """An empty directory that is gone afterwards, unless it was renamed."""
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def _lock_build(directory: Path, progress: Progress) -> Iterator[None]:
    """Two labs that want the same image build it once."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with progress.phase("waiting for another lab that makes the image"):
                fcntl.flock(lock, fcntl.LOCK_EX)
        yield
