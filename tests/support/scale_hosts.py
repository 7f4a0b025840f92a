"""Many cheap ssh hosts on one machine: for each a mount, pid and uts namespace, an overlay over one root, and an sshd.

They share the machine's kernel and network, so they are no stand-in for nodes (no systemd, no btrfs, no NFS): they
are for measuring how the cost of a run grows with people and hosts. Needs root. Whatever happens to this process,
the kernel ends every host with it; `stop` also removes what they wrote.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpuadmin.errors import GpuadminError
from gpuadmin.lab.mirror import mirror
from gpuadmin.lab.releases import DEFAULT, RELEASES

ADMIN = "gpuadmin"
PORT = 10022
_PACKAGES = ("openssh-server", "passwd", "procps", "python3", "sudo")

# The wiki's playbook calls these two; the hosts have neither btrfs nor systemd. Doing nothing costs the wiki nothing.
_STUB = "#!/bin/sh\nexit 0\n"

_CUSTOMIZE = f"""set -eu
root="$1"
echo '{ADMIN}:x:900:900::/var/home/{ADMIN}:/bin/bash' >> "$root/etc/passwd"
echo '{ADMIN}:*:20000:0:99999:7:::' >> "$root/etc/shadow"
echo '{ADMIN}:x:900:' >> "$root/etc/group"
install -d -m 0755 "$root/var/home" "$root/srv/storage" "$root/local" "$root/run/sshd"
install -d -m 0700 -o 900 -g 900 "$root/var/home/{ADMIN}" "$root/var/home/{ADMIN}/.ssh"
echo '{ADMIN} ALL=(ALL) NOPASSWD: ALL' > "$root/etc/sudoers.d/{ADMIN}"
chmod 0440 "$root/etc/sudoers.d/{ADMIN}"
rm -f "$root"/etc/ssh/ssh_host_*
printf '{_STUB.encode("unicode_escape").decode()}' > "$root/usr/local/sbin/btrfs"
cp "$root/usr/local/sbin/btrfs" "$root/usr/local/sbin/loginctl"
chmod 0755 "$root/usr/local/sbin/btrfs" "$root/usr/local/sbin/loginctl"
"""

_SSHD = """Port {port}
ListenAddress {address}
HostKey /run/host_key
AuthorizedKeysFile /run/authorized_keys
PasswordAuthentication no
UsePAM no
UseDNS no
StrictModes no
MaxSessions 50
MaxStartups 100
PidFile none
Subsystem sftp internal-sftp
"""

# What process 1 of a host does: $1 the root that all share, $2 the host's own directory, $3 its name.
_INIT = """set -eu
mount -t overlay overlay -o "lowerdir=$1,upperdir=$2/upper,workdir=$2/work" "$2/root"
cd "$2/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs srv/storage
mkdir run/sshd
cp "$2/host_key" "$2/authorized_keys" "$2/sshd_config" run/
chmod 0600 run/host_key
chmod 0644 run/authorized_keys
hostname "$3"
pivot_root . mnt
cd /
umount -l /mnt
exec /usr/sbin/sshd -D -f /run/sshd_config
"""


@dataclass(frozen=True)
class SshHost:
    """A running host: where its sshd answers, and its process on this machine."""

    name: str
    address: str
    directory: Path
    process: subprocess.Popen[bytes] = field(repr=False)
    port: int = PORT

    @property
    def root(self) -> Path:
        """The host's file system, seen from outside through its process 1."""
        return Path(f"/proc/{_first_child(self.process.pid)}/root")


@dataclass(frozen=True)
class Cluster:
    """Running hosts, and how to log in to them as the admin."""

    directory: Path
    hosts: tuple[SshHost, ...]
    key: Path
    known_hosts: str

    def ssh(self, host: SshHost, *command: str) -> str:
        """Run a command on a host as the admin; return what it printed."""
        known = self.directory / "known_hosts"
        line = (
            "ssh", "-i", str(self.key), "-p", str(host.port), "-o", f"UserKnownHostsFile={known}",
            "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", f"{ADMIN}@{host.address}", *command,
        )  # fmt: skip
        return subprocess.run(line, check=True, capture_output=True, text=True, timeout=60).stdout


@contextmanager
def cluster(names: Sequence[str]) -> Iterator[Cluster]:
    """Start hosts of these names, and end them. Raises GpuadminError if that needs more rights or tools."""
    if os.geteuid() != 0:
        raise GpuadminError("cheap ssh hosts need root", hint="sudo, or leave the tests of mark `scale` out")
    lower = root_file_system()
    shm = Path("/dev/shm")
    directory = Path(tempfile.mkdtemp(prefix="gpuadmin-scale-", dir=shm if shm.is_dir() else None))
    started: list[SshHost] = []
    try:
        key, host_key = directory / "id_ed25519", directory / "host_key"
        for path in (key, host_key):
            subprocess.run(
                ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)), check=True, timeout=30
            )
        network = _free_network()
        for index, name in enumerate(names):
            started.append(_start(lower, directory, name, f"{network}.{index + 1}"))
        _wait(started)
        public = host_key.with_suffix(".pub").read_text().strip()
        known_hosts = "".join(f"[{host.address}]:{host.port} {public}\n" for host in started)
        (directory / "known_hosts").write_text(known_hosts)
        yield Cluster(directory, tuple(started), key, known_hosts)
    finally:
        stop(started)
        shutil.rmtree(directory, ignore_errors=True)


def stop(hosts: Sequence[SshHost]) -> None:
    """End hosts: with its process 1, a pid namespace and its mounts are gone."""
    for host in hosts:
        try:
            # its parent, unshare, then reaps it and ends too
            os.kill(_first_child(host.process.pid), signal.SIGKILL)
        except (OSError, IndexError):
            host.process.kill()
    for host in hosts:
        host.process.wait(timeout=30)


def _start(lower: Path, base: Path, name: str, address: str) -> SshHost:
    directory = base / name
    for part in ("upper", "work", "root"):
        (directory / part).mkdir(parents=True)
    shutil.copy(base / "host_key", directory / "host_key")
    shutil.copy(base / "id_ed25519.pub", directory / "authorized_keys")
    (directory / "sshd_config").write_text(_SSHD.format(port=PORT, address=address))
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            (
                "setpriv", "--pdeathsig", "KILL",
                "unshare", "--mount", "--pid", "--uts", "--fork", "--kill-child=KILL",
                "sh", "-c", _INIT, "sh", str(lower), str(directory), name,
            ),
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
    return SshHost(name, address, directory, process)


def _wait(hosts: Sequence[SshHost], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    for host in hosts:
        while True:
            try:
                socket.create_connection((host.address, host.port), timeout=1).close()
                break
            except OSError:
                if host.process.poll() is not None or time.monotonic() > deadline:
                    log = (host.directory / "log").read_text(errors="replace").strip()
                    raise GpuadminError(f"the cheap host {host.name} did not start: {log or 'no answer'}") from None
                time.sleep(0.05)  # sshd does not tell when it listens


def _free_network() -> str:
    """The first three numbers of addresses in 127/8 that nobody listens on."""
    for third in range(os.getpid() % 200, 255):
        with socket.socket() as probe:
            try:
                probe.bind((f"127.1.{third}.1", PORT))
            except OSError:
                continue
            return f"127.1.{third}"
    raise GpuadminError("no free addresses below 127.1")


def _first_child(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def root_file_system() -> Path:
    """The Debian root that all hosts share; made once, and again when what it is made from changes."""
    recipe = "\n".join((RELEASES[DEFAULT].suite, *_PACKAGES, _CUSTOMIZE))
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpuadmin" / "scale"
    target = cache / hashlib.sha256(recipe.encode()).hexdigest()[:16]
    if target.is_dir():
        return target
    if shutil.which("mmdebstrap") is None:
        raise GpuadminError("cheap ssh hosts need mmdebstrap", hint="Debian, Ubuntu: apt install mmdebstrap")
    cache.mkdir(parents=True, exist_ok=True)
    # tests run side by side, and several may be the first
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            _make_root(cache, target)
    return target


def _make_root(cache: Path, target: Path) -> None:
    temporary = Path(tempfile.mkdtemp(prefix=".making-", dir=cache))
    release = RELEASES[DEFAULT]
    try:
        done = subprocess.run(
            (
                "mmdebstrap", "--variant=minbase", f"--include={','.join(_PACKAGES)}", "--format=directory",
                f"--keyring={release.distribution.keyring}",
                '--aptopt=APT::Install-Recommends "false"', f"--customize-hook={_CUSTOMIZE}",
                *(f"--dpkgopt=path-exclude=/usr/share/{part}/*" for part in ("doc", "info", "locale", "man")),
                release.suite, str(temporary / "root"), *release.source(mirror()),
            ),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            raise GpuadminError(f"mmdebstrap failed:\n{done.stderr.strip()[-2000:]}")
        (temporary / "root").rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
