"""Makes the guests' root file system, as a tar, with mmdebstrap: in a user namespace, no root needed."""

from __future__ import annotations

import getpass
import io
import os
import tarfile
from collections.abc import Sequence
from pathlib import Path

from gpuadmin.errors import GpuadminError
from gpuadmin.lab import probe
from gpuadmin.lab.commands import Command, missing_error
from gpuadmin.lab.paths import guest_directory
from gpuadmin.lab.programs import missing_tools
from gpuadmin.lab.releases import Release

ARCHITECTURE = "amd64"
#: Installed in every guest. Small, because everything may run under software emulation.
INSTALLED = (
    "btrfs-progs", "busybox-static", "ca-certificates", "dbus", "e2fsprogs", "fdisk", "grub-common", "grub-pc-bin",
    "initramfs-tools", "iproute2", "kmod", "libpam-systemd", "linux-image-cloud-amd64", "openssh-server",
    "procps", "python3", "python3-apt", "sudo", "systemd", "systemd-sysv", "udev", "zstd",
)  # fmt: skip

#: What else virtual machines have, disabled until a role wants it: installing these takes apt ten minutes and more
#: under software emulation. On light hosts the roles install them.
MACHINES = (
    "dbus-user-session", "docker-cli", "docker.io", "iptables", "nfs-common", "nfs-kernel-server", "polkitd",
    "prometheus-node-exporter", "rootlesskit", "slirp4netns", "uidmap",
)  # fmt: skip

#: What the builder VM needs besides the tar; customize.sh leaves it in /boot/builder.
BUILDER_FILES = ("vmlinuz", "initrd", "boot.img", "core-node.img", "core-ordinary.img", "bootx64.efi")

_EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")


def check_machine(*releases: Release, tools: Sequence[str] = ()) -> None:
    """Raise an error that says what to do if this machine lacks what the images of releases are made with, or one of
    these tools beside."""
    as_root = os.geteuid() == 0
    mapping = () if as_root else ("newuidmap",)
    wanted = ("mmdebstrap", "tar", "qemu-system-x86_64", "qemu-img", *mapping, *tools)
    distributions = [one.distribution for one in releases]
    keys = [one.package for one in distributions if not Path(one.keyring).exists()]
    if lacking := [*missing_tools(wanted), *dict.fromkeys(keys)]:
        raise missing_error(lacking)
    if as_root:
        return
    if why := probe.look().lacks["user namespaces"]:
        raise GpuadminError(
            f"mmdebstrap needs a user namespace to work without root, and none can be made: {why}",
            hint="sysctl kernel.apparmor_restrict_unprivileged_userns=0 allows them on Ubuntu; or begin as root",
        )
    user = getpass.getuser()
    for file in (Path("/etc/subuid"), Path("/etc/subgid")):
        lines = file.read_text().splitlines() if file.exists() else []
        if not any(line.startswith((f"{user}:", f"{os.geteuid()}:")) for line in lines):
            raise GpuadminError(
                f"{file} gives {user} no range, and mmdebstrap needs one to work without root",
                hint=f"sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 {user}",
            )


def downloaded_packages() -> tuple[str, ...]:
    """Return the packages that are downloaded into the image but not installed (packages.txt)."""
    text = (Path(__file__).parent / "packages.txt").read_text()
    return tuple(line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#"))


def customize_hook(release: Release) -> str:
    """Return the shell text of the customize hook.

    It is given to mmdebstrap as text and not as a file: in its user namespace a file below a home directory
    that is 0700 cannot be read.
    """
    text = (guest_directory() / "customize.sh").read_text()
    return text.replace("@PACKAGES@", " ".join(release.named(downloaded_packages())))


def mmdebstrap_command(directory: Path, mirror: str | None, release: Release, *, machines: bool = False) -> Command:
    """Given a working directory and a mirror of Debian, return the command that makes root.tar.

    `mirror`: None for mmdebstrap's default. `machines`: the root of virtual machines, which has more installed.
    """
    installed = release.named((*INSTALLED, *(MACHINES if machines else ())))
    source = release.source(mirror)
    files = directory / "files.tar"
    downloads = (f"--customize-hook=download /boot/builder/{name} {directory / name}" for name in BUILDER_FILES)
    return (
        "mmdebstrap",
        "--variant=minbase",
        f"--architectures={ARCHITECTURE}",
        f"--include={','.join(installed)}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _EXCLUDED),
        "--skip=cleanup/apt",
        "--format=tar",
        f"--essential-hook=tar-in {files} /",
        f"--customize-hook={customize_hook(release)}",
        *(() if source else (f"--keyring={release.distribution.keyring}",)),  # Ubuntu's apt does not look there
        *release.options,
        *downloads,
        release.suite,
        str(directory / "root.tar"),
        *source,
    )


def write_files_tar(target: Path) -> None:
    """Write guest/files as a tar owned by root, with the modes that its files need."""
    base = guest_directory() / "files"
    with tarfile.open(target, "w", format=tarfile.USTAR_FORMAT) as archive:
        for path in sorted(base.rglob("*")):
            name = str(path.relative_to(base))
            if path.is_file():
                add_file(archive, name, path.read_bytes(), mode=file_mode(name))


def file_mode(name: str) -> int:
    """Given a path below guest/files, return its mode: a wheel does not keep modes, so they are decided here."""
    if name.startswith(("etc/initramfs-tools/hooks/", "etc/initramfs-tools/scripts/")):
        return 0o755
    return 0o440 if name.startswith("etc/sudoers.d/") else 0o644


def add_file(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int, uid: int = 0) -> None:
    """Add one regular file to an open tar. Its time is the epoch that SOURCE_DATE_EPOCH says, else 0."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.uid, entry.gid = len(content), mode, uid, uid
    entry.mtime = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
    archive.addfile(entry, io.BytesIO(content))
