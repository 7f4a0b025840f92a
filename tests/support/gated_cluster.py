"""A node of the lab whose GPUs are for those who were granted one, and people who try to open them.

The GPUs are device nodes of cpu/cpuid, of which a light host has no use of its own: they can be opened, read and held.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.lab_cluster import Cluster

NODE = "node1"
MAJOR = 203
VARIABLES = "gpu_stack_groups: [nvidia, drm, cpu/cpuid]\ngpu_stack_devices: {'0': [/dev/gpu-a], '1': [/dev/gpu-b]}\n"
#: Prints the letters of those that it can open, in any shell. A quote in it would need another one around it.
TRY = "for x in a b; do ( : < {0}$x ) 2>/dev/null && printf $x; done; echo"
PROBE = TRY.format("/dev/gpu-")


@contextmanager
def gated(cluster: Cluster) -> Iterator[Cluster]:
    """minji and jiho are on it. Afterwards GPUs are everybody's again."""
    cluster.add("minji")
    cluster.add("jiho")
    make = "; ".join(f"mknod -m 666 /dev/gpu-{name} c {MAJOR} {minor}" for minor, name in enumerate("ab"))
    cluster.admin(NODE, f"modprobe cpuid 2>/dev/null; {make}")
    settings = cluster.site / "gpuadmin.yml"
    before = settings.read_text()
    settings.write_text(f"{before}\ngpus: {{access: granted}}\n")
    variables = cluster.site / "inventory/group_vars/gpu/test.yml"
    variables.parent.mkdir(parents=True, exist_ok=True)
    variables.write_text(VARIABLES)
    try:
        cluster.gpuadmin("provision", "--limit", NODE, "--yes")
        yield cluster
    finally:
        settings.write_text(before)
        cluster.gpuadmin("provision", "--limit", NODE, "--yes")
        assert opened(cluster, "minji") == "ab", "open means open, also for what ran before"
        variables.unlink()
        cluster.admin(NODE, "rm -f /dev/gpu-a /dev/gpu-b")


def opened(cluster: Cluster, name: str, where: str = "{}") -> str:
    """The letters of the GPUs that this person can open; `where`: how their command is run."""
    return cluster.person(name, NODE, where.format(PROBE)).strip()


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
        lines = []
        for line in self._process.stdout:
            if line == ".\n":
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
