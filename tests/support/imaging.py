"""What tests about images share: a cluster with an image in its store, broken images, power cuts at a step."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from pathlib import Path
from typing import Any

from tests.support.lab_cluster import Cluster

#: In the lab's base image but not installed: what images differ by.
PACKAGE = "rsync"
GRUBENV = "grub-editenv /boot/grub/grubenv list"
FAULT = "/var/lib/gpuadmin-lab/fault"

#: What makes an image bad → the tasks that do it, in the root that is being built.
BROKEN = {
    "panics-without-init": ["rm -f /usr/sbin/init /usr/bin/sh"],
    "panics-in-userspace": [
        'printf \'[Unit]\\nDefaultDependencies=no\\n[Service]\\nExecStart=/bin/sh -c "echo c >/proc/sysrq-trigger"\\n'
        "[Install]\\nWantedBy=sysinit.target\\n' >/etc/systemd/system/crash.service",
        "systemctl enable crash.service",
    ],
    "hangs-as-init": [
        "printf '#!/bin/sh\\nwhile :; do sleep 100; done\\n' >/usr/sbin/hang; chmod 755 /usr/sbin/hang",
        "ln -sf hang /usr/sbin/init",
    ],
    "hangs-before-login": [
        "printf '[Unit]\\nDefaultDependencies=no\\nBefore=sysinit.target\\nAfter=local-fs.target\\n"
        "[Service]\\nType=oneshot\\nTimeoutStartSec=infinity\\nExecStart=/bin/sleep infinity\\n"
        "[Install]\\nWantedBy=sysinit.target\\n'"
        " >/etc/systemd/system/hang.service",
        "systemctl enable hang.service",
    ],
    "sshd-is-broken": ["echo 'NoSuchOption yes' >/etc/ssh/sshd_config.d/00-broken.conf"],
    "a-unit-fails": [
        "printf '[Service]\\nType=oneshot\\nExecStart=/bin/false\\n[Install]\\nWantedBy=multi-user.target\\n'"
        " >/etc/systemd/system/fails.service",
        "systemctl enable fails.service",
    ],
}


def build_broken(cluster: Cluster, name: str) -> None:
    """Put a broken image into the store, without a trial on the golden node."""
    tasks = [{"name": "Break it", "ansible.builtin.shell": command} for command in BROKEN[name]]
    playbook = cluster.site.parent / f"{name}.yml"
    playbook.write_text(json.dumps([{"hosts": "golden", "gather_facts": False, "tasks": tasks}]))
    cluster.gpuadmin("build-image", name, "--run", str(playbook), "--no-trial", "--yes")


def judged_at_once(cluster: Cluster, host: str) -> None:
    """A check that fails there is not tried again: what it finds stays so, and without KVM each round takes long.

    For how long they are tried again is tested in tests/unit/node/images/test_trial.py.
    """
    name = "/var/lib/gpuadmin/images.json"
    found = json.loads(cluster.admin(host, f"cat {name}"))
    quoted = shlex.quote(json.dumps({**found, "settle": 0}))
    cluster.admin(host, f"printf %s {quoted} >{name}; sync")


def running(cluster: Cluster, host: str) -> str:
    """The root that a host runs."""
    return cluster.admin(host, "findmnt -no FSROOT /").strip().removeprefix("/roots/")


def words(cluster: Cluster, host: str) -> dict[str, str]:
    """What stands in a host's grubenv."""
    return dict(line.split("=", 1) for line in cluster.admin(host, GRUBENV).splitlines() if "=" in line)


def identity(cluster: Cluster, host: str) -> str:
    """What makes a host that host."""
    return cluster.admin(host, "cat /etc/hostname /etc/machine-id; sha256sum /etc/ssh/ssh_host_*; cat /etc/fstab")


def node_report(cluster: Cluster, host: str) -> dict[str, Any]:
    """What list-images says of a host."""
    report: dict[str, Any] = cluster.gpuadmin("list-images")["result"]["nodes"][host]
    return report


def dpkg_verify(cluster: Cluster, host: str) -> str:
    """What differs from the packages; the lab's base image leaves documentation out."""
    output = cluster.admin(host, "dpkg --verify || true")
    return "\n".join(line for line in output.splitlines() if "/usr/share/" not in line)


class Whole:
    """What a host is before it goes through something; held against what it is afterwards."""

    def __init__(self, cluster: Cluster, host: str = "node2") -> None:
        self.cluster, self.host = cluster, host
        self.identity, self.verified = identity(cluster, host), dpkg_verify(cluster, host)

    def check(self, *roots: str) -> None:
        """It runs one of these roots, which is what boots by itself, and is itself, sound, with its people."""
        root = running(self.cluster, self.host)
        assert root.partition("+")[0] in roots
        assert words(self.cluster, self.host)["current"] == root
        assert identity(self.cluster, self.host) == self.identity
        assert self.cluster.root_is_read_only(self.host)
        assert dpkg_verify(self.cluster, self.host) == self.verified
        failed = self.cluster.admin(self.host, "systemctl --failed --no-legend").strip()
        assert failed == "", failed
        assert self.cluster.person("minji", self.host, "id -un").strip() == "minji"

    def complete(self) -> None:
        """A further push completes, and leaves no debris."""
        self.cluster.gpuadmin("push-image", "one", "--yes")
        self.check("one")
        mount = "mkdir -p /run/top; mount -o subvolid=5 LABEL=gpuadmin /run/top"
        left = self.cluster.admin(self.host, f"{mount}; ls /run/top/incoming; ls /run/top/roots; umount /run/top")
        assert left.split() == ["base", running(self.cluster, self.host)]


def prepare(cluster: Cluster, *options: str) -> None:
    """Save the lab as `imaged`: the image `one`, with a package more, is built.

    The golden node runs it, unless ``options``, which build-image gets as well, spare it the trial.
    """
    cluster.fresh()
    cluster.gpuadmin("prepare-root", "--yes")
    cluster.add("minji")
    cluster.gpuadmin("build-image", "one", "--install", PACKAGE, *options, "--yes")
    cluster.save("imaged")


def restore(cluster: Cluster, state: str = "imaged") -> Cluster:
    """Put the lab back to `imaged`, with minji on it, or to another state that was made from that."""
    cluster.restore(state)
    return cluster


def has_package(cluster: Cluster, host: str) -> bool:
    """Whether the package that images differ by is installed."""
    return (
        PACKAGE
        in cluster.admin(host, "dpkg-query -Wf '${db:Status-Status} ${Package}\\n' | sed -n 's/^installed //p'").split()
    )


def cut_power_at(cluster: Cluster, host: str, point: str) -> None:
    """Push `one`, cut a host's power at a point of the switch, and start it again; return when it is up whole."""
    since = arm(cluster, host, point)
    push = cluster.start("push-image", "one", "--yes", "--json")
    try:
        wait_for_fault(cluster, host, point, push, since)
        cluster.lab("power-cut", host)
    finally:
        cluster.end_commands()
    start_again(cluster, host)


def cut_power(cluster: Cluster, host: str) -> None:
    """Cut a host's power where it is held, and start it again; return when it is up whole."""
    cluster.lab("power-cut", host)
    start_again(cluster, host)


def start_again(cluster: Cluster, host: str) -> None:
    """Start a host whose power was cut at a point; return when it is up whole, and nothing is armed any more."""
    cluster.lab("start", host)
    disarm(cluster, host)
    cluster.settle(host)


def arm(cluster: Cluster, host: str, point: str, action: str = "hold") -> int:
    """Stop the work on a host at a point: hold it there, or kill it. Returns how long the host's console is now."""
    cluster.admin(host, f"echo '{point} {action}' >{FAULT}; sync")
    return console_of(cluster, host).stat().st_size


def disarm(cluster: Cluster, host: str) -> None:
    cluster.admin(host, f"rm -f {FAULT}; sync")


def wait_for_fault(cluster: Cluster, host: str, point: str, process: subprocess.Popen[str] | None, since: int) -> None:
    """Wait until a host says on its console, after the first ``since`` bytes, that it is at a point.

    ``process`` is what leads it there, if anything does, and must not end before.
    """
    console = console_of(cluster, host)
    end = time.monotonic() + 600
    while f"gpuadmin-fault: {point}".encode() not in console.read_bytes()[since:]:
        assert process is None or process.poll() is None, f"push ended before {point}: {process.communicate()}"
        assert time.monotonic() < end, f"{host} did not come to {point} in 600 s"
        time.sleep(0.5)  # the console is a file: nothing tells of a new line


def console_of(cluster: Cluster, host: str) -> Path:
    directory = Path(json.loads(cluster.lab("status", "--json"))["directory"])
    return directory / "hosts" / host / "console.log"
