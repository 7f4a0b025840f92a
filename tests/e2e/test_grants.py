"""GPUs for those who were granted one: two people on one node, ssh open. The GPUs are device nodes of cpu/cpuid."""

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest

from tests.support.lab_cluster import MAKE_IMAGE, Cluster

pytestmark = pytest.mark.lab
#: x86's cpuid: nodes that can be opened, read and held, of which a light host has no use of its own.
MAJOR = 203
VARIABLES = "gpu_stack_groups: [nvidia, drm, cpu/cpuid]\ngpu_stack_devices: {'0': [/dev/gpu-a], '1': [/dev/gpu-b]}\n"
READ = "head -c 16 /dev/gpu-{} 2>/dev/null | wc -c"


def opened(cluster: Cluster, name: str, where: str = "{}") -> list[str]:
    """Which GPUs this person can open; `where`: how their command is run."""
    words = [cluster.person(name, "node1", where.format(READ.format(one))).strip() for one in "ab"]
    return [one for one, word in zip("ab", words, strict=True) if word == "16"]


@pytest.fixture
def gated(cluster: Cluster) -> Iterator[Cluster]:
    cluster.add("minji")
    cluster.add("jiho")
    cluster.admin("node1", "modprobe cpuid 2>/dev/null; " + "; ".join(
        f"mknod -m 666 /dev/gpu-{name} c {MAJOR} {minor}" for minor, name in enumerate("ab")
    ))  # fmt: skip
    settings = cluster.site / "gpuadmin.yml"
    before = settings.read_text()
    settings.write_text(f"{before}\ngpus: {{access: granted}}\n")
    variables = cluster.site / "inventory/group_vars/gpu/test.yml"
    variables.parent.mkdir(parents=True, exist_ok=True)
    variables.write_text(VARIABLES)
    cluster.gpuadmin("provision", "--limit", "node1", "--yes")
    try:
        yield cluster
    finally:
        settings.write_text(before)
        cluster.gpuadmin("provision", "--limit", "node1", "--yes")
        variables.unlink()
        cluster.admin("node1", "rm -f /dev/gpu-a /dev/gpu-b")


@pytest.mark.story("grant", "revoke", "grants")
def test_a_gpu_is_given_and_taken_back(gated: Cluster) -> None:
    assert [opened(gated, name) for name in ("minji", "jiho")] == [[], []]
    gated.person("minji", "node1", MAKE_IMAGE)
    gated.person("minji", "node1", "docker run -d --name before --device /dev/gpu-a tiny /bin/sleep 600")
    until = (datetime.now() + timedelta(hours=2)).strftime("%Y-%m-%dT%H:%M")
    gated.gpuadmin("grant", "minji", "node1", "--gpu", "0", "--until", until, "--reason", "a deadline", "--yes")
    assert opened(gated, "minji") == ["a"]
    assert opened(gated, "minji", "systemd-run --user --quiet --wait --pipe sh -c '{}'") == ["a"]
    inside = "/bin/sh -c 'read x < /dev/gpu-a; echo $?'"
    assert gated.person("minji", "node1", f"docker exec before {inside}").strip() != ""
    assert opened(gated, "jiho") == []
    (row,) = gated.gpuadmin("grants")["result"]["hosts"]["node1"]["grants"]
    assert (row["user"], row["gpus"], row["reason"]) == ("minji", ["0"], "a deadline")
    refused = gated.gpuadmin("grant", "jiho", "node1", "--gpu", "0", "--hours", "1", "--yes", code=3)
    assert "granted to minji" in str(refused["hosts"]["node1"])
    # what ends takes nothing from a neighbour
    gated.gpuadmin("grant", "jiho", "node1", "--gpu", "1", "--hours", "1", "--yes")
    gated.gpuadmin("revoke", "minji", "--yes")
    assert [opened(gated, name) for name in ("minji", "jiho")] == [[], ["b"]]
    # and after a boot, by itself
    gated.admin("node1", "systemctl daemon-reload; systemctl daemon-reexec")
    assert [opened(gated, name) for name in ("minji", "jiho")] == [[], ["b"]]
