"""The account verbs when machines, networks and admins misbehave."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from tests.support.lab_cluster import GPUADMIN, Cluster
from tests.support.where import BOOT, NFS, POWER

pytestmark = pytest.mark.lab
SLOW = pytest.mark.slow


def many(cluster: Cluster, count: int) -> str:
    """A file of so many people."""
    path = cluster.site.parent / "many.csv"
    path.write_text("name,key\n" + "".join(f"user{n:03},{cluster.key(f'user{n:03}')}\n" for n in range(count)))
    return str(path)


def playbooks_of(cluster: Cluster) -> list[str]:
    """The playbooks that run for a site: their command line names its inventory."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            mine = any(str(cluster.site).encode() in word for word in words)
            if mine and any(word.endswith(b"ansible-playbook") for word in words[:2]):
                found.append(entry.name)
    return found


@contextmanager
def moment_of_writing(cluster: Cluster, host: str) -> Iterator[Callable[[], None]]:
    """Watch a host from now on; what is given waits until its root is open, as it is while accounts are written."""
    watching = subprocess.Popen(
        [GPUADMIN, "lab", "ssh", "--name", cluster.name, host, "sudo sh -c 'echo watching; "
         "until [ $(btrfs property get -ts / ro) = ro=false ]; do sleep 0.02; done; echo open'"],
        text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert watching.stdout is not None
    assert watching.stdout.readline() == "watching\n"

    def wait() -> None:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "open\n"

    try:
        yield wait
    finally:
        watching.kill()
        watching.communicate()


def test_a_node_that_is_down_is_healed_later(cluster: Cluster) -> None:
    cluster.admin("node2", "echo kept > /var/tmp/kept; sync")
    cluster.lab("power-cut", "node2")
    off = next(one for one in json.loads(cluster.lab("status", "--json"))["hosts"] if one["name"] == "node2")
    assert (off["running"], off["ssh"]) == (False, False)
    document = cluster.add("minji", code=4)
    states = {name: host["status"] for name, host in document["hosts"].items()}
    assert states == {"storage1": "changed", "node1": "changed", "node2": "unreachable"}
    assert document["hosts"]["node2"]["message"]
    cluster.person("minji", "node1", "true")
    cluster.lab("start", "node2")
    cluster.settle("node2")
    assert cluster.admin("node2", "cat /var/tmp/kept; systemctl is-system-running").split() == ["kept", "running"]
    healed = cluster.gpuadmin("sync-users", "--yes")
    assert healed["hosts"]["node2"]["status"] == "changed"
    cluster.person("minji", "node2", "true")


@pytest.mark.slow
@pytest.mark.virtual(NFS)
def test_homes_come_back_after_the_storage_host_was_away(cluster: Cluster) -> None:
    cluster.add("minji")
    assert cluster.person("minji", "node1", "findmnt -nt nfs4 -o FSTYPE -T ~").strip() == "nfs4"
    # `sync` after every line: what was said to be written before the cut must be there afterwards
    cluster.person(
        "minji",
        "node1",
        "nohup sh -c 'n=0; while [ $n -lt 400 ]; do n=$((n+1)); "
        "echo $n >> ~/log; sync ~/log; echo $n > /tmp/said; sleep 0.2; done' "
        ">/dev/null 2>&1 </dev/null &",
    )
    cluster.wait(lambda: cluster.ssh("admin", "node1", "test $(cat /tmp/said) -gt 5 && echo yes"))
    cluster.lab("power-cut", "storage1")
    time.sleep(5)  # what was under way comes to its end, or to none
    written = int(cluster.admin("node1", "cat /tmp/said"))
    # nobody who needs no home is held up
    assert cluster.ssh("admin", "node1", "uptime").returncode == 0
    cluster.lab("start", "storage1")
    cluster.wait(
        lambda: cluster.ssh("admin", "node1", f"test $(cat /tmp/said) -gt {written + 5} && echo yes"), seconds=200
    )
    lines = cluster.person("minji", "node2", "cat ~/log").split()
    assert lines == [str(n) for n in range(1, len(lines) + 1)]
    assert len(lines) > written


@pytest.mark.virtual(BOOT)
@SLOW
def test_a_node_boots_while_the_storage_host_is_away(cluster: Cluster) -> None:
    cluster.add("minji")
    cluster.lab("power-cut", "storage1")
    cluster.lab("power-cut", "node1")
    cluster.lab("start", "node1")
    assert "running" in cluster.admin("node1", "systemctl is-system-running --wait || true; echo; systemctl --failed")
    cluster.lab("start", "storage1")
    cluster.wait(lambda: cluster.ssh("minji", "node1", "ls -d ~"), seconds=200)


@pytest.mark.virtual(POWER)
@pytest.mark.parametrize("delay", [0.0, pytest.param(0.3, marks=SLOW), pytest.param(1.0, marks=SLOW)])
def test_power_cut_while_accounts_are_written(cluster: Cluster, delay: float) -> None:
    """Cut while the root is open: the node boots, its root is closed, and a sync makes everything whole."""
    people = many(cluster, 60)
    qemu = cluster.process("node1")
    with moment_of_writing(cluster, "node1") as wait:
        process = cluster.start("add-user", "--from", people, "--yes", "--json")
        wait()
        time.sleep(delay)  # the moment of the cut is the parameter
        os.kill(qemu, signal.SIGKILL)  # what `lab power-cut` does, without the time that a command takes to begin
    out, err = process.communicate(timeout=600)
    # a second later the accounts may have been written already
    assert process.returncode in ((4,) if delay < 0.5 else (0, 4)), (out + err)[-2000:]
    cluster.lab("start", "node1")
    assert cluster.root_is_read_only("node1")
    # the databases are whole, whatever was cut
    cluster.admin("node1", "pwck -r -q >/dev/null; test $? -le 2; grpck -r -q; getent passwd root gpuadmin >/dev/null")
    cluster.gpuadmin("sync-users", "--yes")
    rows = cluster.gpuadmin("list-users")["result"]["users"]
    assert len(rows) == 60
    assert {entry["status"] for row in rows for entry in row["hosts"].values()} == {"ok"}
    cluster.settle("node1")
    assert cluster.person("user059", "node1", "id -u").strip() == "20059"


def test_two_admins_at_once(cluster: Cluster) -> None:
    first = cluster.start("add-user", "minji", "--key", cluster.key("minji"), "--yes", "--json")
    lock = cluster.site / "runs" / ".lock"
    deadline = time.monotonic() + 60
    while not (lock.exists() and "add-user" in lock.read_text()):
        assert time.monotonic() < deadline
        time.sleep(0.05)  # the lock is a file: nothing tells that it is taken
    second = cluster.add("jiho", code=5)
    assert second["status"] == "refused"
    assert "runs add-user since" in second["result"]["error"]
    out, err = first.communicate(timeout=600)
    assert first.returncode == 0, out + err
    cluster.add("jiho")
    assert cluster.admin("node1", "id -u minji jiho").split() == ["20000", "20001"]


@pytest.mark.parametrize("number", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=SLOW)])
def test_the_controller_is_stopped_in_the_middle(cluster: Cluster, number: signal.Signals) -> None:
    people = many(cluster, 40)
    with moment_of_writing(cluster, "node1") as wait:
        process = cluster.start("add-user", "--from", people, "--yes", "--json")
        wait()
        process.send_signal(number)
    out, _ = process.communicate(timeout=120)
    if number == signal.SIGINT:
        assert process.returncode == 130
        assert json.loads(out)["status"] == "interrupted"
        assert playbooks_of(cluster) == []
    else:
        # killed, gpuadmin could not stop its playbook; its pseudo-terminal went with it, and so does the playbook
        deadline = time.monotonic() + 60
        while playbooks_of(cluster):
            assert time.monotonic() < deadline, "ansible-playbook outlived its controller"
            time.sleep(0.5)  # no children of this process: nothing tells of their end
    again = cluster.gpuadmin("add-user", "--from", people, "--yes")
    assert again["status"] == "ok"
    rows = cluster.gpuadmin("list-users")["result"]["users"]
    assert {entry["status"] for row in rows for entry in row["hosts"].values()} == {"ok"}
    assert all(cluster.root_is_read_only(node) for node in ("node1", "node2"))


@pytest.mark.virtual(NFS)
@SLOW
def test_nothing_is_made_where_the_homes_are_not_mounted(cluster: Cluster) -> None:
    cluster.admin("storage1", "exportfs -ua; systemctl stop nfs-server; umount /srv/storage")
    document = cluster.add("minji", code=3)
    assert document["hosts"] == {}, "it is refused before anything is done"
    assert "storage1 (/srv/storage/homes is on the root file system" in document["result"]["error"]
    assert cluster.admin("storage1", "ls -A /srv/storage").split() == []
    cluster.admin("storage1", "mount /srv/storage; systemctl start nfs-server; exportfs -ra")
    cluster.add("minji")
    cluster.person("minji", "node1", "touch ~/here")


@SLOW
def test_somebody_elses_home_is_left_alone(cluster: Cluster) -> None:
    home = "/srv/storage/homes/minji"
    cluster.admin("storage1", f"install -d -o 4242 -m 0700 {home}; echo x > {home}/thesis")
    document = cluster.add("minji", code=3)
    assert "4242" in document["hosts"]["storage1"]["message"]
    assert cluster.admin("storage1", f"stat -c %u {home}; cat {home}/thesis").split() == ["4242", "x"]


@SLOW
def test_passwords_leave_no_trace(cluster: Cluster) -> None:
    """With a sudo password: it is asked for, used, and in no file and no argument."""
    cluster.admin(
        "node1",
        "btrfs property set -ts / ro false; echo gpuadmin:correct-horse | chpasswd; "
        "sed -i 's/NOPASSWD://' /etc/sudoers.d/gpuadmin; sync; btrfs property set -ts / ro true",
    )
    assert cluster.ssh("admin", "node1", "sudo -n true").returncode != 0
    options = ["--site", str(cluster.site), "--limit", "node1", "--ask-become-pass", "--yes"]
    child = pexpect.spawn(GPUADMIN, ["sync-users", *options], timeout=200)
    child.expect("sudo password")
    child.sendline("correct-horse")
    output = ""
    while child.isalive():
        output += subprocess.run(["ps", "axww", "-o", "args"], check=True, capture_output=True, text=True).stdout
        time.sleep(0.5)  # between two looks at all processes
    assert child.exitstatus == 0, child.read()
    assert "ansible-playbook" in output
    assert "correct-horse" not in output
    for path in (cluster.site / "runs").rglob("*"):
        assert not path.is_file() or b"correct-horse" not in path.read_bytes()
