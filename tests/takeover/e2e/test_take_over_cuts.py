"""Power cuts while a cluster that exists is taken over: a person's uid changes, and homes go to the storage host."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpuadmin.lab import state
from tests.support import by_hand, independent
from tests.support.by_hand import expiry, facts
from tests.support.lab_cluster import LAB, PATIENCE, REPOSITORY, Cluster
from tests.support.where import POWER

pytestmark = [pytest.mark.lab, pytest.mark.slow, pytest.mark.virtual(POWER)]
NODE, STORAGE = "plain1", "storage1"
BEFORE, MINJI = 20005, 20001
UNIT = "Starting gpuadmin-renumber.service"
COLOURS = re.compile(r"\x1b\[[0-9;]*m")  # what systemd writes to a console
HOME, MOVED = "/home/minji", "/srv/storage/homes/minji"
FILES = (
    "mkdir -p work/deep many; echo one > work/deep/file; ln work/deep/file linked; truncate -s 1G sparse; "
    'ln -s /etc/shadow out; touch work/$(printf "a\\nb"); head -c 20000000 /dev/urandom > data; mkfifo pipe; '
    "cd many; for d in $(seq 60); do mkdir $d; (cd $d; touch $(seq 200)); done; sync"
)


@pytest.fixture(scope="module")
def grown() -> Iterator[Cluster]:
    """A storage host, and a node on which minji has worked with another uid than users.yml says."""
    found = Cluster(REPOSITORY / ".cache" / "e2e-cuts" / "site", f"{LAB}-cuts")
    try:
        found.lab("up", "--nodes", "0", "--ordinary", "1", "--site", str(found.site))
        by_hand.register(found, {"minji": MINJI})
        by_hand.account(found, NODE, "minji", BEFORE)
        found.person("minji", NODE, FILES)
        by_hand.bring_independent(found, STORAGE, NODE)
        found.gpuadmin("provision", "--limit", STORAGE, "--yes")
        found.admin(STORAGE, "sync")
        yield found
    finally:
        found.end_commands()
        found.lab("down", "--purge")


def of(uid: int, found: dict[str, Any]) -> dict[str, Any]:
    """The same tree with nothing said of its owner, whose all of it is."""
    assert {(one.pop("uid"), one.pop("gid")) for one in found.values()} == {(uid, uid)}
    return found


def cut(cluster: Cluster, host: str, when: str, after: float, *verb: str) -> None:
    """Start a verb; take a host's power so many seconds after a command of root's succeeds on it; give it back."""
    qemu = cluster.process(host)
    wait = f"sudo timeout 600 sh -c 'echo waits; until {when}; do sleep 0.05; done; echo now'"
    with subprocess.Popen(
        [*cluster.ssh_command("admin", host), wait], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "waits\n"
        process = cluster.start(*verb, "--yes", "--json")
        assert watching.stdout.readline() == "now\n", process.communicate()  # a verb that failed never gets there
        time.sleep(after)  # the moment of the cut
        os.kill(qemu, signal.SIGKILL)  # what `lab power-cut` does, without the time that a command takes to begin
        watching.kill()
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode in (3, 4), (out + err)[-2000:]
    cluster.lab("start", host)
    cluster.settle(host)


def cut_boots(cluster: Cluster, host: str, *after: float) -> None:
    """Renumber; take a host's power so many seconds after its boot has begun to change ids, and give it back, each
    time. The verb waits for the host all the while."""
    lab = state.load(cluster.name)
    assert lab is not None
    console = lab.host_directory(next(one for one in lab.hosts if one.name == host)) / "console.log"

    def count_boots() -> int:
        return COLOURS.sub("", console.read_text(errors="replace")).count(UNIT)

    before = count_boots()
    process = cluster.start("renumber", "--yes", "--force", "--json")
    for number, seconds in enumerate(after, start=1):
        end = time.monotonic() + PATIENCE
        while count_boots() < before + number:
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)  # the host is not to be reached by ssh then
        time.sleep(seconds)  # the moment of the cut
        os.kill(cluster.process(host), signal.SIGKILL)
        before = count_boots() - number
        cluster.lab("start", host)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, (out + err)[-2000:]


def test_power_is_cut_while_a_uid_changes_and_while_a_home_moves(grown: Cluster) -> None:
    cluster = grown
    before = of(BEFORE, facts(cluster, NODE, HOME))
    cut_boots(cluster, NODE, 0.3, 1.5)
    assert expiry(cluster, NODE, "minji") == ""
    assert independent.differences(before, of(MINJI, facts(cluster, NODE, HOME))) == []
    assert cluster.person("minji", NODE, "id -u; cat linked").split() == [str(MINJI), "one"]
    assert cluster.gpuadmin("renumber", "--yes")["result"] == {}
    before = facts(cluster, NODE, HOME)

    # the storage host while it copies, the node when her account is closed, the storage host once more
    moving = "systemctl -q is-active gpuadmin-move-homes.service"
    closed = 'grep -Eq "^minji:([^:]*:){6}1:" /etc/shadow'
    for host, when in ((STORAGE, moving), (NODE, closed), (STORAGE, moving)):
        cut(cluster, host, when, 1.0, "move-homes")
        where = HOME if cluster.ssh("admin", NODE, f"test -e {HOME}").returncode == 0 else f"/home.before{HOME[5:]}"
        assert independent.differences(before, facts(cluster, NODE, where)) == [], "the node has it whole"
    cluster.gpuadmin("move-homes", "--yes")
    for host, where in ((STORAGE, MOVED), (NODE, "/home.before/minji")):
        assert independent.differences(before, facts(cluster, host, where)) == []
    assert cluster.gpuadmin("move-homes", "--yes")["hosts"] == {}, "nothing is left to do"
    assert expiry(cluster, NODE, "minji") == ""
