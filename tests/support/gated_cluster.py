"""A node of the lab whose GPUs are for those who were granted one, and people who try to open them.

The GPUs are those of `gpuadmin lab up --gpus 2`: they can be opened, read and held.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import yaml

from gpuadmin.lab.light.gpus import variables
from tests.support.lab_cluster import OPEN, Cluster

NODE = "node1"
STATE = "gated"
#: Prints the numbers of those that it can open, in any shell. A quote in it would need another one around it.
TRY = "for x in 0 1; do ( : < {0}$x ) 2>/dev/null && printf $x; done; echo"
PROBE = TRY.format("/dev/nvidia")
#: A processor's identification as a GPU's device (gpuadmin/lab/light/gpus.py), in the node's own root.
STAND_IN = (
    f"{OPEN}; echo cpuid > /etc/modules-load.d/gpus.conf; modprobe cpuid;"
    " echo 'c /dev/nvidia0 0666 root root - 203:0' > /etc/tmpfiles.d/gpus.conf; systemd-tmpfiles --create gpus.conf"
)


@contextmanager
def gated(cluster: Cluster) -> Iterator[Cluster]:
    """minji and jiho are on it. Set up once and saved."""

    def set_up() -> None:
        for name in ("minji", "jiho"):
            cluster.add(name)
        cluster.gpuadmin("provision", "--limit", NODE, "--yes")

    with cluster.settings(lambda text: f"{text}\ngpus: {{access: granted}}\n"):
        cluster.begin(STATE, set_up)
        yield cluster


def open_again(cluster: Cluster) -> None:
    """GPUs are everybody's again."""
    with cluster.settings(lambda text: text.replace("access: granted", "access: open")):
        cluster.gpuadmin("provision", "--limit", NODE, "--yes")


def opened(cluster: Cluster, name: str, where: str = "{}", node: str = NODE) -> str:
    """The numbers of the GPUs that this person can open; `where`: how their command is run."""
    return cluster.person(name, node, where.format(PROBE)).strip()


def make_gpu(cluster: Cluster, *nodes: str) -> None:
    """Give virtual machines a GPU each that can be opened and held, as light hosts have them; also after each boot."""
    inventory = cluster.site / "inventory/hosts.yml"
    tree = yaml.safe_load(inventory.read_text())
    for node in nodes:
        cluster.admin(node, STAND_IN)
        tree["all"]["children"]["gpu"]["hosts"][node] |= variables(1)
    inventory.write_text(yaml.safe_dump(tree))


class Kept:
    """A shell of a person's that stays: the same process answers each time."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._process = subprocess.Popen(
            [*cluster.ssh_command(name, NODE), "sh"], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self.ask("true")

    def ask(self, command: str) -> str:
        """What it prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{{ {command}; }} 2>&1; echo; echo .\n")
        self._process.stdin.flush()
        lines, late = list[str](), threading.Timer(120, self._process.kill)
        late.start()  # what hangs is an error
        for line in self._process.stdout:
            if line == ".\n":
                late.cancel()
                return "".join(lines).strip()
            lines.append(line)
        raise AssertionError(f"the shell has ended: {''.join(lines)}")

    def end(self) -> None:
        """As when its window is closed."""
        self._process.kill()
        self._process.communicate()


@contextmanager
def kept(cluster: Cluster, name: str) -> Iterator[Kept]:
    found = Kept(cluster, name)
    try:
        yield found
    finally:
        found.end()
