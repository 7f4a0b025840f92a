"""Runs commands: the one place where the lab starts a process and waits for it."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from gpuadmin.common.text import the_page
from gpuadmin.errors import GpuadminError

Command = tuple[str, ...]

#: tool → (Debian/Ubuntu, Fedora, Arch) package that has it.
PACKAGES: Mapping[str, tuple[str, str, str]] = {
    "qemu-system-x86_64": ("qemu-system-x86", "qemu-system-x86-core", "qemu-system-x86"),
    "qemu-img": ("qemu-utils", "qemu-img", "qemu-img"),
    "mmdebstrap": ("mmdebstrap", "mmdebstrap", "mmdebstrap (AUR)"),
    "tar": ("tar", "tar", "tar"),
    "ssh": ("openssh-client", "openssh-clients", "openssh"),
    "ssh-keygen": ("openssh-client", "openssh-clients", "openssh"),
    "newuidmap": ("uidmap", "shadow-utils", "shadow"),
    "unshare": ("util-linux", "util-linux", "util-linux"),
    "losetup": ("mount", "util-linux", "util-linux"),
    "mkfs.btrfs": ("btrfs-progs", "btrfs-progs", "btrfs-progs"),
    "btrfs": ("btrfs-progs", "btrfs-progs", "btrfs-progs"),
    "ip": ("iproute2", "iproute", "iproute2"),
    "OVMF": ("ovmf", "edk2-ovmf", "edk2-ovmf"),
    "ubuntu-keyring": ("ubuntu-keyring", "ubu-keyring", "ubuntu-keyring"),
    "debian-archive-keyring": ("debian-archive-keyring", "debian-keyring", "debian-archive-keyring"),
}

#: Those of them that only some options of the lab need.
OPTIONAL = frozenset({"OVMF"})

#: Those of them that light hosts need.
LIGHT = ("unshare", "losetup", "mkfs.btrfs", "btrfs", "ip")


def require_linux() -> None:
    """Raise GpuadminError on another system, where nothing of a lab runs."""
    if platform.system() != "Linux":
        raise GpuadminError(
            "the lab needs Linux: it makes and runs its hosts with what only Linux has",
            hint=f"run this on a machine with Linux, or in a virtual machine with it; {the_page('lab')}",
        )


def require(*tools: str) -> None:
    """Given tool names, raise an error that names the packages of those that are missing."""
    if lacking := missing(*tools):
        raise missing_error(lacking)


def missing(*tools: str) -> list[str]:
    """Given tool names, return those that this machine does not have."""
    return [tool for tool in tools if shutil.which(tool, path=search_path()) is None]


def missing_error(lacking: Sequence[str]) -> GpuadminError:
    """Given tools that this machine lacks, return the error that says how to get them."""
    columns = zip(*(PACKAGES[tool] for tool in lacking), strict=True)
    debian, fedora, arch = (" ".join(dict.fromkeys(column)) for column in columns)
    return GpuadminError(
        f"the lab needs {', '.join(lacking)}, which this machine does not have",
        hint=f"Debian, Ubuntu: apt install {debian}; Fedora: dnf install {fedora}; Arch: {arch}",
    )


def search_path() -> str:
    """Return $PATH with the sbin directories, which a plain user's PATH lacks on Debian."""
    return os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"))


def pasteable(command: Sequence[str]) -> str:
    """Given a command, return it so that it can be pasted into a shell."""
    return shlex.join(command)


def run(
    command: Sequence[str], *, log: Path | None = None, cwd: Path | None = None, timeout: float | None = None
) -> str:
    """Run a command and return its output, errors included.

    With `log`, that goes to the end of that file instead, and the result is empty. Raises GpuadminError with the
    command and the end of its output if it fails or exceeds `timeout` (seconds).
    """
    environment = {**os.environ, "PATH": search_path(), "LC_ALL": "C.UTF-8"}
    with log.open("ab") if log else tempfile.TemporaryFile() as sink:
        begin = sink.tell()
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT
            )
        except FileNotFoundError as error:
            if command[0] in PACKAGES:
                raise missing_error([command[0]]) from error
            raise GpuadminError(f"cannot run {command[0]}: not found") from error
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired as error:
            raise GpuadminError(f"took longer than {timeout:.0f} s: {pasteable(command)}") from error
        finally:
            _end(process)
        output = "" if log else _read(sink, begin)
    if status != 0:
        if log:
            last = tail(log)
            with log.open("a") as stream:  # some commands take pages
                stream.write(f"This command failed with status {status}:\n  {pasteable(command)}\n")
            raise GpuadminError(f"{command[0]} failed with status {status}:\n{last}\n(all of it: {log})")
        raise GpuadminError(
            f"this command failed with status {status}:\n  {pasteable(command)}\n{output.strip()[-2000:]}"
        )
    return output


def _read(file: IO[bytes], begin: int) -> str:
    file.seek(begin)
    return file.read().decode(errors="replace")


def _end(process: subprocess.Popen[bytes], limit: float = 20.0) -> None:
    """End a command that still runs, and let it clean up: mmdebstrap has things mounted."""
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(limit)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def tail(path: Path, lines: int = 15) -> str:
    """Given a text file, return its last lines, or nothing if it cannot be read."""
    try:
        text = path.read_text(errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])
