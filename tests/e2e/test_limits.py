"""Somebody's fork bomb and a shell that takes all memory: the admin gets in meanwhile, and others go on.

Whether a limit is in force is read in the kernel: systemd also says so where nothing is limited.
"""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.lab_cluster import Cluster
from tests.support.where import CONTROLLERS

pytestmark = [pytest.mark.lab, pytest.mark.virtual(CONTROLLERS), pytest.mark.slow]
NODE = "node1"
SLICES = "/sys/fs/cgroup/user.slice"
#: Takes 16 MiB at a time, and writes into all of it.
ALL_MEMORY = 'x = []\nwhile True: x.append(b"x" * (16 << 20))'
BOMB = "bomb() { bomb | bomb & }; bomb; sleep 1000"
ANSWERS = 120.0  # seconds for a login, on a machine that is emulated


def read(cluster: Cluster, uid: int, name: str) -> str:
    return cluster.admin(NODE, f"cat {SLICES}/user-{uid}.slice/{name}").strip()


def read_service(cluster: Cluster, name: str) -> str:
    return cluster.admin(NODE, f"cat {SLICES}/cron.service/{name}").strip()


def event(cluster: Cluster, uid: int, file: str, name: str) -> int:
    return int(dict(line.split() for line in read(cluster, uid, file).splitlines())[name])


def answers(cluster: Cluster) -> None:
    """The admin logs in anew and becomes root."""
    begun = time.monotonic()
    cluster.admin(NODE, "true")
    assert time.monotonic() - begun < ANSWERS


def uid_of(cluster: Cluster, name: str) -> int:
    return int(cluster.admin(NODE, f"id -u {name}"))


@pytest.fixture(autouse=True)
def settings(cluster: Cluster) -> Iterator[Path]:
    """The site's settings, which are as they were for whoever comes next."""
    path = cluster.site / "gpuadmin.yml"
    before = path.read_text()
    yield path
    path.write_text(before)


def own_limits(settings: Path, limits: str) -> None:
    settings.write_text(settings.read_text().replace("limits:\n", f"limits:\n  people: [{limits}]\n", 1))


def test_who_takes_too_much_is_stopped_and_nobody_else(cluster: Cluster, settings: Path) -> None:
    cluster.add("minji")
    cluster.add("jiho")
    minji, jiho = uid_of(cluster, "minji"), uid_of(cluster, "jiho")
    memory = int(cluster.admin(NODE, "awk '/MemTotal/ {print $2 * 1024}' /proc/meminfo"))
    tasks = int(cluster.admin(NODE, "cat /proc/sys/kernel/threads-max"))
    with cluster.session("jiho", NODE) as other:
        # what the site of a new cluster has
        assert int(read(cluster, jiho, "memory.max")) == memory * 80 // 100 // 65536 * 65536
        assert int(read(cluster, jiho, "pids.max")) == tasks // 10
        assert memory // 2 < int(cluster.admin(NODE, f"cat {SLICES}/memory.max")) < memory - (200 << 20)

        # what cron runs for people counts with what they run themselves; virtual machines have no packages but Debian's
        cluster.admin(NODE, "systemctl is-active -q cron || systemd-run -q --unit=cron.service sleep 600")
        assert read_service(cluster, "memory.max") == read(cluster, jiho, "memory.max")

        bomb = subprocess.Popen([*cluster.ssh_command("minji", NODE), BOMB], stderr=subprocess.DEVNULL)
        try:
            cluster.wait(
                lambda: cluster.ssh("admin", NODE, f"grep -qv 'max 0' {SLICES}/user-{minji}.slice/pids.events && echo"),
                seconds=600,
            )
            answers(cluster)
            assert int(read(cluster, minji, "pids.current")) <= int(read(cluster, minji, "pids.max"))
            # logind does not answer in time while so many processes come and go; the kernel asks nobody
            cluster.admin(NODE, f"echo 1 >{SLICES}/user-{minji}.slice/cgroup.kill")
        finally:
            bomb.kill()
            bomb.wait()
        events = f"{SLICES}/user-{minji}.slice/cgroup.events"
        gone = f"! test -e {events} || grep -q 'populated 0' {events}"
        cluster.wait(lambda: cluster.ssh("admin", NODE, f"({gone}) && echo"), seconds=600)

        with cluster.session("minji", NODE) as shell:  # her slice stays for what it has counted
            greedy = cluster.ssh("minji", NODE, f"python3 -c '{ALL_MEMORY}'")
            assert greedy.returncode != 0
            answers(cluster)
            assert event(cluster, minji, "memory.events", "oom_kill") > 0
            assert event(cluster, jiho, "memory.events", "oom_kill") == 0
            assert shell.poll() is None, "what is small stays"
            # a look that an emulated machine has no time for is cut off, and is made again
            end = time.monotonic() + 600
            while "because they reached their limit of" not in str(cluster.gpuadmin("diagnose", "minji", code=6)):
                assert time.monotonic() < end, "diagnose does not say whose limit it was"
        assert other.poll() is None
        assert cluster.admin(NODE, "pgrep -u jiho sleep").strip()

        # somebody's own limits reach what they run already
        own_limits(settings, "{names: [jiho], memory: 512M, tasks: 321}")
        cluster.gpuadmin("provision", "--limit", NODE, "--yes")
        assert (read(cluster, jiho, "memory.max"), read(cluster, jiho, "pids.max")) == (str(512 << 20), "321")
        assert other.poll() is None


def test_sessions_without_logind_end_alone(cluster: Cluster) -> None:
    """They stay in sshd's own service, which has one person's memory for all of them."""
    cluster.add("minji")
    minji = uid_of(cluster, "minji")
    ssh = "/sys/fs/cgroup/system.slice/ssh.service"
    memory = int(cluster.admin(NODE, "awk '/MemTotal/ {print $2 * 1024}' /proc/meminfo"))
    together = int(cluster.admin(NODE, f"cat {SLICES}/memory.max"))
    assert int(cluster.admin(NODE, f"cat {ssh}/memory.max")) == min(memory * 80 // 100 // 65536 * 65536, together)
    listens = "systemctl show --property=MainPID,NRestarts ssh.service"
    before = cluster.admin(NODE, listens)
    cluster.admin(NODE, "systemctl mask --runtime --now systemd-logind.service")
    try:
        assert "ssh.service" in cluster.person("minji", NODE, "cat /proc/self/cgroup")
        assert cluster.ssh("minji", NODE, f"python3 -c '{ALL_MEMORY}'").returncode != 0
        answers(cluster)
        assert "oom_kill 0" not in cluster.admin(NODE, f"cat {ssh}/memory.events")
        assert cluster.admin(NODE, listens) == before, "sshd went on"

        bomb = subprocess.Popen([*cluster.ssh_command("minji", NODE), BOMB], stderr=subprocess.DEVNULL)
        try:
            most = int(cluster.admin(NODE, "cat /proc/sys/kernel/threads-max")) // 10
            full = f"[ $(cat {ssh}/pids.current) -gt {most * 9 // 10} ] && echo so"
            cluster.wait(lambda: cluster.ssh("admin", NODE, full), seconds=600)
            answers(cluster)
            assert int(cluster.admin(NODE, "ps --no-headers -Lu minji | wc -l")) <= most
            # all at once: to look at one process after the other takes longer than they take to fork
            cluster.admin(NODE, f"python3 -c 'import os; os.setuid({minji}); os.kill(-1, 9)'")
        finally:
            bomb.kill()
            bomb.wait()
        cluster.wait(lambda: cluster.ssh("admin", NODE, "! pgrep -u minji >/dev/null && echo none"), seconds=600)
        assert cluster.admin(NODE, listens) == before, "sshd went on"
    finally:
        cluster.admin(NODE, "systemctl unmask --runtime systemd-logind.service; systemctl start systemd-logind")


def test_people_together_do_not_take_what_root_needs(cluster: Cluster, settings: Path) -> None:
    """Limits of one person alone would let two of them, or one without limits, fill the node."""
    cluster.add("minji")
    own_limits(settings, "{names: [minji], memory: unlimited}")
    cluster.gpuadmin("provision", "--limit", NODE, "--yes")
    with cluster.session("minji", NODE) as shell:
        assert read(cluster, uid_of(cluster, "minji"), "memory.max") == "max"
        assert cluster.ssh("minji", NODE, f"python3 -c '{ALL_MEMORY}'").returncode != 0
        answers(cluster)
        assert shell.poll() is None
        kills = cluster.admin(NODE, "cat /sys/fs/cgroup/system.slice/memory.events")
        assert "oom_kill 0" in kills
