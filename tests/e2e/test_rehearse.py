"""A verb is run on the twin of a site first, and then, with the same plan, on the real hosts."""

import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuadmin.actions.rehearse import name_twin
from tests.support.lab_cluster import GPUADMIN, RELEASES, Cluster
from tests.support.labs import nothing_left

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]  # another lab beside the one that is there


@pytest.fixture
def rehearsed(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """A site says no release: whoever wants a twin that has them makes it first."""
    name = name_twin(cluster.name)
    releases = [word for one in RELEASES for word in ("--release", one)]
    make = ["lab", "up", "--like", str(cluster.site), "--name", name, "--site", str(tmp_path / "twin"), *releases]
    if releases:
        subprocess.run([GPUADMIN, *make], check=True)
    yield cluster
    subprocess.run([GPUADMIN, "lab", "down", "--purge", "--name", name], check=True)
    nothing_left(name)


def rehearse(cluster: Cluster, *words: str, answer: str = "") -> tuple[int, str]:
    """Run it as somebody does at a terminal, who answers so. Returns the exit code, and what was printed."""
    master, slave = pty.openpty()
    command = [GPUADMIN, "rehearse", "--site", str(cluster.site), *words]
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    os.close(slave)
    os.write(master, answer.encode())
    said = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the last program that had it has ended
            break
        if not part:
            break
        said += part
    os.close(master)
    return process.wait(), said.decode(errors="replace")


def test_a_person_is_added_to_the_twin_and_then_for_real(rehearsed: Cluster) -> None:
    add = ("add-user", "minji", "--key", rehearsed.key("minji"))
    code, said = rehearse(rehearsed, "--twin-only", *add)
    assert code == 0, said
    assert "it ended with 0" in said
    assert "minji" not in (rehearsed.site / "users.yml").read_text(), "the site knows nothing of it"
    assert rehearsed.ssh("admin", "node1", "id minji").returncode != 0

    code, said = rehearse(rehearsed, *add, answer="y\n")
    assert code == 0, said
    assert said.count("account minji, uid 20000") == 2, "the plan of the twin, and of the real hosts"
    assert rehearsed.admin("node1", "id -u minji").strip() == "20000"

    code, said = rehearse(rehearsed, "lock-user", "sora")
    assert code == 2
    assert "not registered: 'sora'" in said
    assert "Rehearsed on the twin" not in said

    code, said = rehearse(rehearsed, "add-user", "minji", "--uid", "20001")
    assert code != 0
    assert "Nothing was done on the real hosts" in said

    for host in rehearsed.hosts():
        read = "grep ^VERSION_ID= /etc/os-release"
        line = [GPUADMIN, "lab", "ssh", "--name", name_twin(rehearsed.name), host, read]
        twin = subprocess.run(line, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
        assert twin == rehearsed.admin(host, read)
