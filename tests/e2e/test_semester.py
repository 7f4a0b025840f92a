"""The end of a semester on real machines: homes backed up, verified and wiped, one brought back, and cuts."""

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Iterator
from datetime import date
from typing import Any

import pytest
import yaml

from tests.support.lab_cluster import MAKE_IMAGE, PATIENCE, Cluster
from tests.support.terminal import at_terminal
from tests.support.where import NFS, POWER

pytestmark = [pytest.mark.lab, pytest.mark.slow]

HOMES, BACKUPS = "/srv/storage/homes", "/srv/storage/backups"
LEAVING, STAYING = ("minji", "jiho"), "sora"
RESET = ("semester-reset", "--yes", "--term", "2026-2", "--grace", "5")


@pytest.fixture(scope="module")
def with_people(provisioned: Cluster) -> Cluster:
    """Three people with homes, saved; the term's last day has come, and one of them was extended."""
    saved = provisioned.site.parent / "people"
    if saved.exists() and "people" in provisioned.lab("status"):  # of an earlier session, with GPUADMIN_KEEP_LAB
        return provisioned
    shutil.rmtree(saved, ignore_errors=True)
    provisioned.fresh()
    settings = provisioned.site / "gpuadmin.yml"
    before = settings.read_text()
    settings.write_text(
        f"{before}\nterm:\n  name: 2026-2\n  deadline: 2026-01-31\n  next: {{name: 2027-1, deadline: 2099-06-30}}\n"
    )
    try:
        for name in (*LEAVING, STAYING):
            provisioned.add(name)
            files = f"echo {name} > thesis; mkdir -p data; head -c 300000 /dev/urandom > data/set"
            provisioned.person(name, "node1", files)
        provisioned.gpuadmin("extend-term", STAYING, "--yes")
        provisioned.lab("save", "people", "--replace")
        saved.mkdir()
        for name in ("users.yml", "gpuadmin.yml"):
            shutil.copy(provisioned.site / name, saved / name)
    finally:
        settings.write_text(before)
    return provisioned


@pytest.fixture
def people(with_people: Cluster) -> Iterator[Cluster]:
    """That cluster as it was."""
    settings = with_people.site / "gpuadmin.yml"
    before = settings.read_text()
    with_people.restore("people")
    for left in (with_people.site / "runs").glob("term-*"):
        shutil.rmtree(left)
    for name in ("users.yml", "gpuadmin.yml"):
        shutil.copy(with_people.site.parent / "people" / name, with_people.site / name)
    yield with_people
    settings.write_text(before)


def picture(cluster: Cluster) -> dict[str, Any]:
    """Who has a home, who has Docker data where, and who has an account."""
    return {
        "homes": sorted(cluster.admin("storage1", f"ls {HOMES}").split()),
        "docker": {node: sorted(cluster.admin(node, "ls /local/.docker").split()) for node in ("node1", "node2")},
        "accounts": sorted(re.findall(r"^(minji|jiho|sora):", cluster.admin("node1", "cat /etc/passwd"), re.MULTILINE)),
    }


END = {"homes": [STAYING], "docker": {"node1": [STAYING], "node2": [STAYING]}, "accounts": [STAYING]}


def check_end(cluster: Cluster) -> None:
    assert picture(cluster) == END
    # what is wiped is in the backup, and the one who stays never noticed
    (name,) = [one for one in cluster.admin("storage1", f"ls {BACKUPS}").split() if "reset" in one]
    for person in LEAVING:
        assert cluster.admin("storage1", f"cat {BACKUPS}/{name}/homes/{person}/thesis").strip() == person
    assert cluster.person(STAYING, "node1", "cat thesis").strip() == STAYING
    left = set(cluster.admin("storage1", f"ls -A {HOMES}").split())
    assert left - {".gpuadmin-restoring", ".gpuadmin-limits"} == {STAYING}
    for node in ("node1", "node2"):
        assert cluster.root_is_read_only(node)


@pytest.mark.story("semester-reset", "extend-term", "restore-home", "list-backups")
def test_a_whole_semester(people: Cluster) -> None:
    people.person("minji", "node1", MAKE_IMAGE)
    people.person("minji", "node1", "docker run -d --restart always --name work tiny /bin/sleep 100000")
    people.person("minji", "node2", "setsid nohup sleep 100000 >/dev/null 2>&1 & echo '* * * * * true' > cron; true")
    people.person("minji", "node1", "mkdir -p /tmp/mine; echo x > /tmp/mine/file; echo y > /dev/shm/mine")
    sora = people.ssh(STAYING, "node1", "setsid nohup sleep 100001 >/dev/null 2>&1 & echo $!").stdout.strip()
    # homes are mounted and in use while they are wiped
    people.admin("node1", f"ls /home/{STAYING} >/dev/null 2>&1 || true")

    predicted = people.gpuadmin("semester-reset", "--check")["result"]["phases"]
    assert picture(people)["homes"] == sorted([*LEAVING, STAYING])
    with at_terminal(people.ssh_command("jiho", "node2")) as terminal:
        terminal.sees("jiho@node2")
        document = people.gpuadmin(*RESET)
        terminal.sees("2026-2 ends now. Sessions of accounts that end with it are closed")
        assert terminal.ends() != 0, "the connection was closed"
    report = document["result"]["report"]
    assert {one["name"]: one["home"] for one in report["leaving"]} == dict.fromkeys(LEAVING, "wiped")
    assert report["pending"] == {}
    actions, done = (
        [step["action"].partition(";")[0] for step in phases["wipe"]["plan"]["steps"]]
        for phases in (predicted, document["result"]["phases"])
    )
    assert "/dev/shm/mine (file of minji" in actions
    # logind itself removes what is there with her last session (logind.conf: RemoveIPC)
    assert done == [action for action in actions if not action.startswith("/dev/shm/")]
    check_end(people)
    for node in ("node1", "node2"):
        assert people.admin(node, "ps -eo uid= | sort -u | grep -cx 20000 || true").strip() == "0"
        assert people.admin(node, "pgrep -xc dockerd || true").strip() == "0"
    assert people.admin("node1", f"test -d /proc/{sora} && echo runs").strip() == "runs"
    assert people.admin("node1", "ls -d /tmp/mine /dev/shm/mine 2>/dev/null || true") == ""
    assert people.ssh("minji", "node1", "true").returncode == 255
    assert people.ssh(STAYING, "node2", "cat thesis").stdout.strip() == STAYING
    assert (people.site / "runs/term-2026-2/report.html").exists()
    settings = yaml.safe_load((people.site / "gpuadmin.yml").read_text())
    assert settings["term"] == {"name": "2027-1", "deadline": date(2099, 6, 30)}

    # she comes back next term, and so does her home
    people.gpuadmin("restore-home", "minji", "--yes")
    (kept,) = people.admin("storage1", "ls /srv/storage/homes/.gpuadmin-attic").split()
    assert kept.startswith("minji-20000-restored-")
    people.add("minji")
    people.gpuadmin("restore-home", "minji", "--in-place", "--yes")
    assert people.person("minji", "node2", "cat thesis; stat -c %U data/set").split() == ["minji", "minji"]
    backups = people.gpuadmin("list-backups", "jiho")["result"]["backups"]
    assert backups[0]["homes"]["jiho"]["verified"]


def entries(cluster: Cluster) -> list[tuple[str, str]]:
    """The event and the phase of each line of the journal, as far as they are whole."""
    path = cluster.site / "runs/term-2026-2/journal.jsonl"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [json.loads(line) for line in lines if line.endswith("\n")]
    return [(entry["event"], entry.get("phase", "")) for entry in whole]


def finished(cluster: Cluster) -> bool:
    """Whether the journal says that all seven phases are done."""
    return len({phase for event, phase in entries(cluster) if event == "done"}) == 7


def test_the_controller_is_killed_at_every_entry_of_the_journal(people: Cluster) -> None:
    """SIGKILL as soon as there is an entry that was not there before; --resume; and so on until all is done."""
    seen: set[tuple[str, str]] = set()
    kills = 0
    while not finished(people):
        process = people.start(*RESET, *(["--resume"] if seen else []), "--json")
        try:
            while process.poll() is None and set(entries(people)) <= seen:
                time.sleep(0.05)  # the journal is a file: nothing tells of a new line
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
                kills += 1
        finally:
            out, err = process.communicate()
        assert process.returncode in (0, -signal.SIGKILL), (kills, sorted(seen), out[-2000:], err[-2000:])
        seen |= set(entries(people))
        time.sleep(2)  # what it started ends, or goes on, without it
    assert kills >= 7, "in each of the seven phases"
    check_end(people)


@pytest.mark.virtual(POWER)
def test_hosts_lose_power_in_phases(people: Cluster) -> None:
    """One after the other, each as its phase begins; then --resume."""
    for number, (host, phase) in enumerate([("storage1", "backup"), ("storage1", "wipe"), ("node2", "wipe")]):
        before = entries(people).count(("begin", phase))
        process = people.start(*RESET, *(["--resume"] if number else []), "--json")
        while process.poll() is None and entries(people).count(("begin", phase)) == before:
            time.sleep(0.05)  # the journal is a file: nothing tells of a new line
        assert process.poll() is None, f"it ended before {phase}: {process.communicate()}"
        people.lab("power-cut", host)
        process.communicate(timeout=PATIENCE)
        people.lab("start", host)
        people.settle(host)
    if not finished(people):
        people.gpuadmin(*RESET, "--resume")
    check_end(people)


def test_a_node_is_away_and_comes_back(people: Cluster) -> None:
    people.person("minji", "node2", "true")
    people.lab("power-cut", "node2")
    document = people.gpuadmin(*RESET, code=4)
    assert "node2" in document["result"]["phases"]["lock"]["pending"]
    people.gpuadmin(*RESET, "--resume", "--leave-pending")
    assert people.admin("storage1", f"ls {HOMES}").split() == [STAYING]
    people.lab("start", "node2")
    people.settle("node2")
    people.gpuadmin(*RESET, "--resume")
    check_end(people)


@pytest.mark.virtual(NFS)
def test_what_nfs_clients_see(people: Cluster) -> None:
    """Homes are wiped under mounted clients: no stale handle for those who stay, an empty place for those who left."""
    people.person(STAYING, "node1", "exec 3>open-file; sleep 1")
    people.admin("node1", "stat /home/minji /home/jiho /home/sora >/dev/null")
    keep = people.start(*RESET, "--json")
    failed = []
    while keep.poll() is None:
        done = people.ssh(STAYING, "node1", "date >> diary && cat thesis && ls data")
        if done.returncode != 0 or STAYING not in done.stdout:
            failed.append(done.stderr)
        time.sleep(1)  # somebody at work does a thing a second
    _out, err = keep.communicate()
    assert keep.returncode == 0, err
    assert failed == []
    assert "Stale" not in people.admin("node1", "ls -la /home; ls /home/sora 2>&1 || true; dmesg | tail -50")
    assert "No such file" in people.admin("node1", "ls /home/minji 2>&1 || true")


@pytest.mark.story("backup")
def test_a_second_copy_on_another_host(people: Cluster) -> None:
    """node2 also holds the second copies, on its own btrfs."""
    inventory = people.site / "inventory/hosts.yml"
    settings = people.site / "gpuadmin.yml"
    before = inventory.read_text(), settings.read_text()
    inventory.write_text(re.sub(r"    backup: {hosts: {}}", "    backup:\n      hosts:\n        node2: {}", before[0]))
    settings.write_text(before[1] + "\nbackups: {copies: /local/backups}\n")
    try:
        people.gpuadmin("provision", "--yes", "--limit", "storage1,node2")
        people.gpuadmin("backup", "--yes")
        # the storage host loses its own backups: what is restored comes from there
        lose = f"set -e; for one in {BACKUPS}/2*; do btrfs subvolume delete $one/homes >/dev/null; rm -r $one; done"
        people.admin("storage1", lose)
        assert people.admin("storage1", f"ls {BACKUPS}") == ""
        document = people.gpuadmin("restore-home", "minji", "--yes")
        assert "take it from the second copy" in document["hosts"]["storage1"]["changed"][0]
        target = document["result"]["restored"]["target"]
        assert people.admin("storage1", f"cat {target}/thesis; rm -r {target}").split() == ["minji"]
        people.person("minji", "node1", "echo more >> thesis")
        document = people.gpuadmin(*RESET)
        copies = document["result"]["report"]["backup"]["copies"]
        assert list(copies) == ["node2"]
        name = document["result"]["decision"]["backup"]
        assert people.admin("node2", f"cat /local/backups/{name}/homes/minji/thesis").split() == ["minji", "more"]
        refused = people.admin(
            "storage1",
            "ssh -F none -i /var/lib/gpuadmin/backup_key -o UserKnownHostsFile=/var/lib/gpuadmin/backup_known_hosts "
            "root@$(grep -o '^[^ ]*' /var/lib/gpuadmin/backup_known_hosts) cat /etc/shadow 2>&1 || true",
        )
        assert "not understood" in refused
        # the timer's backup goes there, too
        for unit in ("gpuadmin-backup", "gpuadmin-second-copy"):  # the second waits for the one that the first began
            people.admin("storage1", f"systemctl start {unit}.service")
        assert people.admin("node2", "ls /local/backups").count("-daily") == 1
    finally:
        inventory.write_text(before[0])
        settings.write_text(before[1])


def test_a_full_disk_wipes_nothing(people: Cluster) -> None:
    # until nothing fits, not even the smallest
    fill = "for size in 1G 100M 10M 1M 4K; do while fallocate -l $size full/$((++n)) 2>/dev/null; do :; done; done"
    people.admin("storage1", f"cd /srv/storage; mkdir full; {fill}")
    document = people.gpuadmin(*RESET, code=3)
    assert "wipe" not in document["result"]["phases"]
    people.admin("storage1", "rm -r /srv/storage/full; sync")
    assert picture(people)["homes"] == sorted([*LEAVING, STAYING])
    people.gpuadmin(*RESET, "--resume")
    check_end(people)


def test_it_is_taken_back_before_the_wipe(people: Cluster) -> None:
    for phase in ("announce", "lock", "end-sessions"):
        people.gpuadmin("semester-reset", "--yes", "--phase", phase, "--grace", "0")
    assert people.ssh("minji", "node1", "true").returncode == 255
    people.gpuadmin("semester-reset", "--abort", "--yes")
    assert people.person("minji", "node1", "cat thesis").strip() == "minji"
