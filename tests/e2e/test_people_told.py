"""What people are told, from the first guide to the day the building loses power: as they read it on the hosts."""

import json
import subprocess
from collections.abc import Iterator
from datetime import date, timedelta
from email import message_from_bytes
from email.policy import default
from pathlib import Path
from typing import Any

import pytest

from tests.support.lab_cluster import Cluster

pytestmark = pytest.mark.lab
UNTIL = ("--until", str(date.today() + timedelta(days=1)))  # the run may go past midnight
MAIL = {"host": "127.0.0.1", "port": 9, "security": "none", "sender": "gpu@example.org"}


def boot_id(cluster: Cluster, host: str) -> str:
    return cluster.admin(host, "cat /proc/sys/kernel/random/boot_id")


def at_login(cluster: Cluster, host: str) -> str:
    """What pam_motd shows there to whoever logs in."""
    return cluster.admin(host, "cat /run/motd.d/gpuadmin* 2>/dev/null || true")


def switch(cluster: Cluster, *arguments: str, code: int = 0) -> dict[str, Any]:
    result: dict[str, Any] = cluster.gpuadmin(*arguments, "--yes", code=code)["result"]
    return result


@pytest.fixture
def told(minji: Cluster) -> Iterator[Cluster]:
    """With minji, who has an address; mails go into files."""
    minji.gpuadmin("change-user", "minji", "--email", "minji@example.org", "--yes")
    try:
        with (
            minji.site_file("inventory/group_vars/all/test.yml", "power_grace: 5\n"),
            minji.settings(lambda text: f"{text}\nmail: {json.dumps(MAIL)}\n"),
        ):
            yield minji
    finally:
        for name in ("announcements.jsonl", "mails.jsonl"):
            (minji.site / name).unlink(missing_ok=True)


@pytest.mark.long
@pytest.mark.story("user-guide", "call-for-applications", "announce")
def test_pages_and_announcements(told: Cluster, tmp_path: Path) -> None:
    told.gpuadmin("list-gpus", code=0)
    guide = told.gpuadmin("user-guide", "--output", str(tmp_path / "public"))["result"]
    assert set(guide["pages"]) == {"ko", "en"}
    assert all("Host node1 node2\n" in page for page in guide["pages"].values())
    assert (tmp_path / "public/user-guide.ko.html").read_text().startswith("<!DOCTYPE html>")
    call = told.gpuadmin("call-for-applications", "--language", "ko")["result"]["pages"]["ko"]
    assert "계정 신청을 받습니다" in call

    mails = tmp_path / "mails"
    told.gpuadmin(
        "announce", "--ko", "정전\n9시부터", "--en", "No power\nfrom 9", *UNTIL, "--mail-dir", str(mails), "--yes"
    )  # fmt: skip
    (mail,) = (message_from_bytes(path.read_bytes(), policy=default) for path in mails.glob("*.eml"))
    assert mail["To"] == "minji@example.org"
    assert "9시부터" in told.admin("node1", "cat /run/motd.d/gpuadmin-announcements")
    # the node has it again after a boot, and takes it away by itself when its time is over
    told.admin("node1", "rm /run/motd.d/gpuadmin-announcements; systemctl start gpuadmin-announcements.service")
    assert "No power" in at_login(told, "node1")
    told.admin("node2", "systemctl is-active gpuadmin-announcements.timer")
    name = told.gpuadmin("announce", "--list")["result"]["announcements"][0]["id"]
    told.gpuadmin("announce", "--take-back", name, "--yes")
    assert [at_login(told, node) for node in ("node1", "node2")] == ["", ""]


@pytest.mark.story("reboot", "shutdown")
def test_off_and_on(told: Cluster) -> None:
    """Storage last, and back first; a node with somebody on it stays; a host that is off is a row with what to do."""
    before = {host: boot_id(told, host) for host in told.hosts()}
    with told.session("minji", "node1") as person:
        result = switch(told, "reboot", "gpu")
        assert "in use by minji" in result["refused"]["node1"]
        assert result["steps"] == [["node2"]]
        assert boot_id(told, "node1") == before["node1"]
        assert boot_id(told, "node2") != before["node2"]
        result = switch(told, "reboot", "all", "--force")
        assert result["steps"] == [["node1", "node2"], ["storage1"], ["node1", "node2"]]
        assert {host for host in before if boot_id(told, host) == before[host]} == set()
        assert person.wait(120) != 0, "her session ended with the node"
    assert told.person("minji", "node1", "findmnt -no FSTYPE -T ~ | tail -n 1").strip() == told.nfs

    # logind lists a session for a moment after its end, and who is on a node keeps it on
    told.wait(lambda: told.ssh("admin", "node1", "! loginctl list-sessions --no-legend | grep -w minji"), differs="-")
    document = told.gpuadmin("shutdown", "all", "--yes")
    assert document["result"]["steps"] == [["node1", "node2"], ["storage1"]], document["result"]["refused"]
    assert {host["status"] for host in document["hosts"].values()} == {"changed"}
    told.wait(lambda: status(told), differs="up", seconds=300)
    document = told.gpuadmin("shutdown", "all", "--yes", code=4)
    assert set(document["result"]["unknown"]) == set(before), "nothing is left to do, and nobody knows more"


def status(cluster: Cluster) -> subprocess.CompletedProcess[str]:
    """`up` as long as any host of the lab runs."""
    running = [one for one in json.loads(cluster.lab("status", "--json"))["hosts"] if one["pid"] is not None]
    return subprocess.CompletedProcess([], 0, "up" if running else "off", "")
