"""The launcher of one light host: starts it in its namespaces, gives it a network, and hands ssh connections in.

It runs as long as the host does (`python -m gpuadmin.lab.light.host LAB HOST`); when it is killed, the kernel ends
the host with it. The host's sshd is reached through a port of 127.0.0.1, as that of a virtual machine: connections
are accepted here and made again inside the host's network.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import functools
import hashlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from gpuadmin.lab import state
from gpuadmin.lab.commands import run
from gpuadmin.lab.light.disk import HERE, root_subvolume
from gpuadmin.lab.probe import cgroup_root
from gpuadmin.lab.state import Host, Lab

BRIDGE = "cluster"
NAMESPACES = ("--mount", "--pid", "--uts", "--ipc", "--net", "--cgroup")
_CLONE_NEWNET = 0x40000000
#: How process 1 of a pid namespace ends that calls reboot(2) for a restart; any other end is switching off.
REBOOT = -signal.SIGHUP


def make_name(lab: Lab) -> str:
    """What a lab's things are called on this machine: another user, or checkout, may have one of the same name."""
    return f"gpuadmin-lab-{lab.name}-{hashlib.sha256(bytes(lab.directory)).hexdigest()[:8]}"


def find_cgroup(lab: Lab, host: Host) -> Path:
    """The cgroup of a host: all of its processes, and nothing else."""
    top = cgroup_root()
    if top is None:
        raise SystemExit("this machine has no cgroup v2, which a light host's systemd needs")
    return top / f"{make_name(lab)}-{host.name}"


def end(lab: Lab, host: Host) -> None:
    """End every process of a host at once, and remove its cgroups."""
    top = find_cgroup(lab, host)
    if not top.exists():
        return
    (top / "cgroup.kill").write_text("1")
    deadline = time.monotonic() + 30
    while "populated 1" in (top / "cgroup.events").read_text() and time.monotonic() < deadline:
        time.sleep(0.02)  # until the kernel has ended what was killed
    for directory, _, _ in os.walk(top, topdown=False):
        Path(directory).rmdir()


def _attach_loop(image: Path) -> str:
    return run(("losetup", "--find", "--show", str(image))).strip()


def start(lab: Lab, host: Host) -> subprocess.Popen[bytes]:
    """Start a host's process 1. The caller gives it its network."""
    end(lab, host)
    find_cgroup(lab, host).mkdir()
    storage = next((one for one in lab.hosts if one.kind == "storage"), None)
    # One host at a time: two loop devices of the storage host's data would be two file systems that differ.
    with (lab.directory / "light.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        disk = _attach_loop(lab.host_directory(host) / "disk.img")
        data = "" if storage is None else _shared_loop(lab.host_directory(storage) / "data.img")
        try:
            process = _launch(lab, host, disk, data)
            _wait_for_systemd(process)
            return process
        finally:
            # Each goes as soon as nothing of it is mounted any more, that is when the host (all hosts) ended.
            for device in filter(None, (disk, data)):
                run(("losetup", "--detach", device))


def _launch(lab: Lab, host: Host, disk: str, data: str) -> subprocess.Popen[bytes]:
    directory = lab.host_directory(host)
    command = (
        # into its cgroup first: --cgroup makes the one that it is in then the root of what it sees
        "sh", "-euc", 'echo 0 >"$1/cgroup.procs"; shift; exec "$@"', "sh", str(find_cgroup(lab, host)),
        "unshare", *NAMESPACES, "--propagation", "private", "--fork", "--kill-child=KILL",
        "sh", str(HERE / "init.sh"), str(directory), disk, host.name,
        data if host.kind == "storage" else "", "" if host.kind == "storage" else data, root_subvolume(host.kind),
        str(lab.count_gpus(host)), lab.data,
    )  # fmt: skip
    with (directory / "console.log").open("ab") as console:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.STDOUT)


def _shared_loop(image: Path) -> str:
    """The loop device that an image has, or a new one."""
    found = run(("losetup", "--noheadings", "--output", "NAME", "--associated", str(image))).split()
    return found[0] if found else _attach_loop(image)


def first_process(process: subprocess.Popen[bytes]) -> int | None:
    """Process 1 of a host, seen from outside."""
    try:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    except OSError:
        return None
    return int(children[0]) if children else None


def _wait_for_systemd(process: subprocess.Popen[bytes], limit: float = 60.0) -> int:
    deadline = time.monotonic() + limit
    while process.poll() is None and time.monotonic() < deadline:
        pid = first_process(process)
        if pid is not None and Path(f"/proc/{pid}/comm").read_text().strip() == "systemd":
            return pid
        time.sleep(0.02)  # until its first process has become systemd
    process.kill()
    raise SystemExit("systemd did not begin")


def switch(lab: Lab) -> str:
    """The network namespace of the lab's own network, with a bridge in it; made if there is none."""
    name = make_name(lab)
    if not Path("/run/netns", name).exists():
        run(("ip", "netns", "add", name))
        run(("ip", "-n", name, "link", "add", BRIDGE, "type", "bridge"))
        run(("ip", "-n", name, "link", "set", BRIDGE, "up"))
    return name


def remove_switch(lab: Lab) -> None:
    """Take the lab's own network away."""
    name = make_name(lab)
    if Path("/run/netns", name).exists():
        run(("ip", "netns", "delete", name))


def connect(lab: Lab, host: Host, pid: int) -> None:
    """Plug a host in: `pid` is its process 1."""
    name, outside = switch(lab), f"p-{host.address.rpartition('.')[2]}"  # at most 15 characters, whatever its name
    # what an earlier start left plugged in goes with its namespace, which an open connection may keep for a moment
    if f" {outside}@" in run(("ip", "-n", name, "-oneline", "link", "show")):
        run(("ip", "-n", name, "link", "delete", outside))
    run(("ip", "-n", name, "link", "add", outside, "type", "veth", "peer", "name", "eth0",
         "address", host.cluster_mac, "netns", str(pid)))  # fmt: skip
    run(("ip", "-n", name, "link", "set", outside, "master", BRIDGE, "up"))


class Forwarder:
    """Takes connections to 127.0.0.1:PORT and makes each again, to port 22 inside a host's network."""

    def __init__(self, port: int, pid: int) -> None:
        self._listener = socket.create_server(("127.0.0.1", port), backlog=64)
        #: The host's process 1: another one after a reboot, with another network.
        self.pid = pid
        threading.Thread(target=self._serve_power, daemon=True).start()

    def _serve_power(self) -> None:
        entered = None
        while True:
            outer, _ = self._listener.accept()
            try:
                if entered != self.pid:
                    entered = _enter_network(self.pid)
                inner = socket.create_connection(("127.0.0.1", 22), timeout=10)
            except OSError:  # it is on its way down or up
                outer.close()
                continue
            inner.settimeout(None)
            for source, target in ((outer, inner), (inner, outer)):
                threading.Thread(target=_copy_stream, args=(source, target), daemon=True).start()


def _enter_network(pid: int) -> int:
    """Put this thread into a process's network: a socket belongs to the namespace that its thread was in when made."""
    with Path(f"/proc/{pid}/ns/net").open("rb") as inside:
        if ctypes.CDLL(None, use_errno=True).setns(inside.fileno(), _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    return pid


def _copy_stream(source: socket.socket, target: socket.socket) -> None:
    try:
        while part := source.recv(1 << 16):
            target.sendall(part)
    except OSError:
        pass
    with contextlib.suppress(OSError):
        target.shutdown(socket.SHUT_WR)


def main(lab_name: str, host_name: str) -> int:
    """Run a host to its end: until it is switched off, through as many reboots as it makes."""
    lab = state.existing(lab_name)
    host = lab.host(host_name)
    pid_file = lab.host_directory(host) / "light.pid"
    process = start(lab, host)
    # Only now: whoever finds this file finds a host that can be ended.
    part = pid_file.with_suffix(".part")
    part.write_text(f"{os.getpid()}\n")
    part.rename(pid_file)
    forwarder: Forwarder | None = None
    while (pid := first_process(process)) is not None:
        connect(lab, host, pid)
        if forwarder is None:
            forwarder = Forwarder(host.ssh_port, pid)
        forwarder.pid = pid
        signal.signal(signal.SIGTERM, functools.partial(_power_off, pid))
        status = process.wait()
        end(lab, host)
        if status != REBOOT:
            pid_file.unlink(missing_ok=True)
            return 0
        process = start(lab, host)
    return 1


def _power_off(pid: int, *_: object) -> None:
    with contextlib.suppress(ProcessLookupError):  # it ends already
        os.kill(pid, signal.SIGRTMIN + 4)  # systemd's word for power off


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
