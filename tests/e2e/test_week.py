"""A week of a cluster on which nobody's laptop is on: what the monitor host does by itself, with a real gpuadmin.

The clock of light hosts is this machine's, so nobody moves it. What is moved is when a timer was last due: as after
a month without power, systemd finds by the timer's own calendar that its time has passed, and starts the unit. All else
is systemd's, the account's, and the program's from its wheel. An admin's machine sets it up, and is off then.
"""

import json
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path

import pytest
import yaml

from tests.support import monitor_program
from tests.support.lab_cluster import Cluster
from tests.support.monitor_program import AS, HOME, HOST, fire, log
from tests.support.monitored import INTERVAL, monitor_host, within
from tests.support.queued_cluster import CONTROLLER, SLURM, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow, pytest.mark.long]  # light hosts, which have GPUs

DEADLINE = date.today() + timedelta(days=7)
SETTINGS = f"""
timers: {{verbs: [drift, idle, notify, report, windows]}}
mail: {{host: 127.0.0.1, sender: gpu@example.org, directory: ~/mails, report: [prof@example.org]}}
metrics: {{interval: {INTERVAL}}}
term: {{name: 2026-2, deadline: {DEADLINE}}}
"""
FILES = (*monitor_program.FILES, "announcements.jsonl", "health.d")
FAN = "#!/bin/sh\ntest ! -e /var/tmp/loud || { echo 'fan 3 stands still'; exit 1; }\n"


def mails(cluster: Cluster) -> str:
    """All mails so far."""
    return cluster.admin(HOST, f"cat {HOME}/mails/*.eml 2>/dev/null || true")


@pytest.fixture
def week(with_queue: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """A cluster with a queue, a monitor host and timers, whose site is in a repository there."""
    key = monitor_program.make_key(with_queue)
    admins = monitor_program.DECLARED.format(key=key)
    users = with_queue.site / "users.yml"
    with (
        with_queue.site_file("health.d/10-fan", FAN, 0o755),
        with_queue.site_file("announcements.jsonl", ""),
        monitor_host(with_queue),
        queued(with_queue, f"{SLURM}\n{SETTINGS}{admins}") as cluster,
    ):
        registry = yaml.safe_load(users.read_text())
        for user in registry["users"]:
            user |= {"email": f"{user['name']}@example.org", "expires": DEADLINE}
        users.write_text(yaml.safe_dump(registry))
        cluster.gpuadmin("sync-users", "--yes")
        monitor_program.set_up(cluster, tmp_path, *FILES)
        monitor_program.keep(cluster, "site/metrics_secret", (cluster.site / "metrics_secret").read_text())
        yield cluster


def test_a_week_without_an_admin(week: Cluster, tmp_path: Path) -> None:
    begin, until = (time.strftime("%Y-%m-%d %H:%M", time.localtime(time.time() + one)) for one in (-60, 3600))
    words = ("--from", begin, "--until", until, "--reason", "new kernel", "--mail-dir", str(tmp_path / "mails"))
    process = week.start("maintain", *words, "--yes", "node2", "--", "reboot", "node2")
    assert process.wait(timeout=600) == 0
    monitor_program.push(week, *FILES)
    week.admin(HOST, "systemctl stop gpuadmin-timer-windows.timer")  # until Thursday
    # from here on the laptop is off

    # Monday: people are reminded of the term's end, once; the month's report is mailed, once
    assert fire(week, "notify") == "0", log(week, "notify")
    assert fire(week, "notify") == "0"
    assert fire(week, "report") == "0", log(week, "report")
    assert fire(week, "report") == "0"
    sent = mails(week)
    assert [sent.count(f"To: {who}@example.org") for who in ("minji", "jiho", "prof")] == [1, 1, 1]

    # Tuesday: somebody changes a host, and it is found
    fire(week, "drift")  # in the lab hosts have other addresses there than from an admin's machine
    assert "/tmp: has mode" not in log(week, "drift")
    assert "health.d" not in log(week, "drift")
    week.admin("node1", "chmod 755 /tmp")
    assert fire(week, "drift") == "6"
    assert "node1: /tmp: has mode 755" in log(week, "drift")
    week.admin("node1", "chmod 1777 /tmp")

    # Wednesday: a node is sick; it takes no more jobs
    week.admin("node1", "touch /var/tmp/loud")
    reason = "sinfo --noheader --nodes=node1 --format=%E | grep -F"
    week.wait(
        lambda: week.ssh("admin", CONTROLLER, f"{reason} 'gpuadmin sick: 10-fan: fan 3 stands still'"), seconds=150
    )
    assert fire(week, "idle") == "0", log(week, "idle")

    # Thursday: the window's time has come; it is held, its verb is run, and it is over
    boot = week.admin("node2", "cat /proc/sys/kernel/random/boot_id")
    assert "점검: node2" in week.admin("node2", "cat /run/motd.d/gpuadmin-announcements")
    week.admin(HOST, "systemctl start gpuadmin-timer-windows.timer")  # which begins it by itself
    over = f"sh -c 'grep -l over {HOME}/site/runs/*-maintain-*/result.json'"
    within(900, lambda: week.ssh("admin", HOST, f"sudo {over}").stdout)
    assert week.admin("node2", "cat /proc/sys/kernel/random/boot_id") != boot
    assert not week.ssh("admin", "node2", "ls /run/motd.d/gpuadmin-announcements").stdout
    assert "gpuadmin-window" not in week.admin(CONTROLLER, "scontrol show reservation")
    week.person("minji", "node2", "gpu get 1 --node node2 --hours 2")
    assert fire(week, "windows") == "0", "nothing is due any more"
    assert not week.admin(HOST, f"{AS} git -C {HOME}/site status --porcelain -uno").strip(), (
        "what is pushed can be pulled"
    )

    # Sunday: the laptop is on again, and knows it all
    assert [one["state"] for one in week.gpuadmin("maintain")["result"]["announcements"]] == ["done"]
    runs = {run["verb"] for run in week.gpuadmin("runs")["result"]["runs"] if run["who"].startswith("gpuadmin-timers@")}
    assert runs >= {"notify", "report", "drift", "reboot", "maintain"}, json.dumps(sorted(runs))
    timers = week.gpuadmin("status")["result"]["hosts"][HOST]["timers"]
    assert {one for one, ended in timers.items() if ended.endswith("failed")} == {"drift"}
