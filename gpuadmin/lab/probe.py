"""What this machine can be for a lab: tried, in about a second, before anything is made.

A container may have root's number and a mounted cgroup v2, and be allowed nothing. So each ability is used once, in
namespaces and files of its own that are gone afterwards. The standard library alone: `make` asks before there is an
environment, and tests ask as they are collected.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuadmin.lab.paths import cache_directory, state_directory
from gpuadmin.lab.programs import search_path

GIB = 1 << 30
#: Bytes that a lab of three hosts needs: with less, light hosts and virtual machines do not come up.
LIGHT_MEMORY, MACHINES_MEMORY = 3 * GIB // 2, 7 * GIB // 2
#: Bytes of disk: the least for an image and three hosts; what the demo and all tests write at most.
LEAST_SPACE = 4 * GIB
SPACE: Mapping[str, int] = {"demo": 8 * GIB, "test": 25 * GIB}
#: What init.sh does first, in a directory of its own.
_MOUNTS = """
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir proc sys cgroup bpf
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 cgroup
mount -t bpf bpf bpf
mknod null c 1 3
: <null
"""
_KVM_CREATE_VM = 0xAE01


def is_ubuntu() -> bool:
    """Whether this is Ubuntu by os-release(5), which a machine need not have."""
    try:
        return platform.freedesktop_os_release()["ID"] == "ubuntu"
    except (OSError, ValueError):
        return False


@dataclass(frozen=True)
class Machine:
    """What was found: ability → why this machine does not have it, "" where it does; memory and disk in bytes.

    `unwritable`: why the lab's directories cannot be written; `sudo`: how this user becomes root, "" where they cannot.
    """

    lacks: Mapping[str, str]
    memory: int
    space: int
    unwritable: str
    sudo: str

    def why_no_light(self, *, sized: bool = True) -> str:
        """Return why no light hosts can be made here, "" where they can. `sized`: three, with what is free now."""
        found = (self.lacks[name] for name in ("root", "cgroup v2", "mounts", "loop devices", "btrfs mounts"))
        return next(filter(None, found), "") or self._why_too_small(LIGHT_MEMORY, sized)

    def why_no_machines(self, *, sized: bool = True) -> str:
        """Return why no virtual machines can be made here, "" where they can. `sized`: as above."""
        if platform.machine() not in ("x86_64", "AMD64"):
            return f"the lab's virtual machines are x86-64, and this machine is {platform.machine()}"
        # their root is made in a user namespace
        if self.lacks["root"] and (why := self.lacks["user namespaces"]):
            return f"they need user namespaces ({why})"
        return self._why_too_small(MACHINES_MEMORY, sized)

    def _why_too_small(self, memory: int, sized: bool) -> str:
        if self.unwritable or not sized:
            return self.unwritable
        if self.memory < memory:
            return f"three hosts need {memory / GIB:.1f} GiB of memory, and {self.memory / GIB:.1f} GiB are free"
        if self.space < LEAST_SPACE:
            return f"three hosts need {LEAST_SPACE / GIB:.0f} GiB of disk, and {self.space / GIB:.1f} GiB are free"
        return ""

    def why_no_lab(self) -> str:
        """Return why this machine can have no lab at all, "" where it can have one."""
        light, machines = self.why_no_light(), self.why_no_machines()
        if not (light and machines):
            return ""
        return light if light == machines else f"no light hosts: {light}; no virtual machines: {machines}"

    def lines(self, purpose: str) -> Iterator[str]:
        """Yield what this machine can, what runs where, and what is left out, for `fast`, `demo` or `test`."""
        can = [name for name, why in self.lacks.items() if not why]
        cannot = [f"{name} ({why})" for name, why in self.lacks.items() if why]
        sizes = f"{self.memory / GIB:.1f} GiB of free memory, {self.space / GIB:.1f} GiB of free disk"
        yield f"This machine has {', '.join([*can, sizes])}."
        if cannot:
            yield f"It does not have {'; '.join(cannot)}."
        if self.lacks["root"]:
            yield f"Root: {self.sudo or 'no sudo that lets you become root'}."
        if purpose == "fast":
            return
        light, machines = self.why_no_light(), self.why_no_machines()
        slow = ", emulated and slow" if self.lacks["/dev/kvm"] else ""
        yield f"Light hosts (root and {LIGHT_MEMORY / GIB:.1f} GiB of memory): {f'no, {light}' if light else 'yes'}."
        needed = f"KVM, to be fast, and {MACHINES_MEMORY / GIB:.1f} GiB"
        yield f"Virtual machines ({needed}): {f'no, {machines}' if machines else f'yes{slow}'}."
        missing = f", and {self.space / GIB:.1f} GiB are free" if self.space < SPACE[purpose] else ""
        yield f"It takes up to {SPACE[purpose] / GIB:.0f} GiB of disk{missing}."


@cache
def look() -> Machine:
    """Try what a lab and its tests need of this machine. Nothing stays; asked again, the same is returned."""
    places = [cache_directory(), state_directory()]
    return Machine(
        lacks={name: attempt() for name, attempt in ATTEMPTS.items()},
        memory=_free_memory(),
        space=min(shutil.disk_usage(_find_existing(place)).free for place in places),
        unwritable=next(filter(None, map(_why_unwritable, places)), ""),
        sudo="" if os.geteuid() == 0 else _try_sudo(),
    )


def _run_command(*command: str) -> tuple[str, str]:
    """Run a command; return its output, and why it failed, by its last line. One that is missing was not tried."""
    try:
        done = subprocess.run(
            command, env={**os.environ, "PATH": search_path(), "LC_ALL": "C"}, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=20, check=False,
        )  # fmt: skip
    except FileNotFoundError:
        return "", ""
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", str(error)
    output = done.stdout.strip()
    words = done.stderr.strip() or output or f"{command[0]} ended with {done.returncode}"
    return output, "" if done.returncode == 0 else words.splitlines()[-1].removeprefix(f"{command[0]}: ")


def _try_root() -> str:
    return "" if os.geteuid() == 0 else "only root can make light hosts"


def _try_user_namespaces() -> str:
    return _run_command("unshare", "--user", "--map-root-user", "true")[1]


def _try_mounts() -> str:
    if os.geteuid() != 0:
        return "only root can mount"
    spaces = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup", "--propagation", "private", "--fork")
    with tempfile.TemporaryDirectory(prefix="gpuadmin-") as place:
        return _run_command("unshare", *spaces, "sh", "-euc", _MOUNTS, "sh", place)[1]


def _try_cgroup() -> str:
    top = cgroup_root()
    if top is None:
        return "cgroup v2 is not mounted"
    own = top / f"gpuadmin-probe-{os.getpid()}"
    try:
        own.mkdir()
        own.rmdir()
    except OSError as error:
        return f"no cgroup can be made in {top}: {error.strerror}"
    return ""


def cgroup_root() -> Path | None:
    """Return where this machine has cgroup v2: a systemd of a light host wants a tree of it."""
    with suppress(OSError):
        for line in Path("/proc/self/mountinfo").read_text(errors="replace").splitlines():
            left, _, right = line.partition(" - ")
            if right.startswith("cgroup2 "):
                return Path(left.split(" ")[4])
    return None


@contextmanager
def _loop_device(size: int) -> Iterator[tuple[str, str]]:
    """A loop device of a sparse file, and why there is none."""
    with tempfile.NamedTemporaryFile(prefix="gpuadmin-") as file:
        file.truncate(size)
        device, why = _run_command("losetup", "--find", "--show", file.name)
        try:
            yield device, why
        finally:
            if device:
                _run_command("losetup", "--detach", device)


def _try_loop_devices() -> str:
    if os.geteuid() != 0:
        return "only root can attach a file to one"
    with _loop_device(1 << 20) as (_, why):
        return why


def _try_btrfs() -> str:
    if os.geteuid() != 0:
        return "only root can mount"
    place = tempfile.gettempdir()
    if shutil.disk_usage(place).free < 32 << 20:  # mkfs would say "Operation not permitted"
        return f"{place} is too full to try: TMPDIR chooses another place"
    with _loop_device(128 << 20) as (device, why), tempfile.TemporaryDirectory(prefix="gpuadmin-") as place:
        if not device or shutil.which("mkfs.btrfs", path=search_path()) is None:
            return why
        script = 'mkfs.btrfs -q "$1"; mount -t btrfs "$1" "$2"'
        return _run_command(
            "unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", device, place
        )[1]


def _try_kvm() -> str:
    """Whether a virtual machine can be made; whether a kernel starts in it shows when there is one (accel.py)."""
    try:
        opened = os.open("/dev/kvm", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        return str(error.strerror)
    try:
        os.close(fcntl.ioctl(opened, _KVM_CREATE_VM, 0))
    except OSError as error:
        return str(error.strerror)
    finally:
        os.close(opened)
    return ""


#: What is tried, in the order in which it is shown. A test names what it needs of it: `needs("loop devices")`.
ATTEMPTS: Mapping[str, Callable[[], str]] = {
    "root": _try_root,
    "user namespaces": _try_user_namespaces,
    "mounts": _try_mounts,
    "loop devices": _try_loop_devices,
    "btrfs mounts": _try_btrfs,
    "cgroup v2": _try_cgroup,
    "/dev/kvm": _try_kvm,
}


def _free_memory() -> int:
    """Bytes that this process may still take: of the machine's and, in a container, of what it was given."""
    found = [sys.maxsize]
    with suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        found.append(
            sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("MemAvailable:", "SwapFree:")))
        )
    for limit, used in (
        ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
        ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
    ):
        with suppress(OSError, ValueError):  # `max`
            found.append(int(Path(limit).read_text()) - int(Path(used).read_text()))
    return min(found)


def _find_existing(place: Path) -> Path:
    return next(one for one in (place, *place.parents) if one.is_dir())


def _why_unwritable(place: Path) -> str:
    try:
        with tempfile.TemporaryFile(dir=_find_existing(place)):
            return ""
    except OSError as error:
        other = "XDG_CACHE_HOME and XDG_STATE_HOME choose other places"
        return f"{_find_existing(place)} cannot be written ({error.strerror}), and a lab is kept in {place}; {other}"


def _try_sudo() -> str:
    if shutil.which("sudo") is None:
        return ""
    # what is asked for is what would be run, where there is one: a rule may allow only that
    harmless = ("apt-get", "--version") if shutil.which("apt-get") else ("true",)
    if not _run_command("sudo", "-n", *harmless)[1]:
        return "sudo needs no password here"
    return "sudo asks for a password" if sys.stdin.isatty() else "sudo asks for a password, and there is no terminal"
