"""Two admins at two machines, and one site."""

import shutil
import signal
import time

import pytest

from tests.support.lab_cluster import Cluster
from tests.support.monitored import asked, watched, within

__all__ = ["watched"]

pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.mark.story("runs", "provision")
def test_two_machines_change_one_site(cluster: Cluster) -> None:
    with cluster.settings(lambda text: f"{text}\nruns: {{shared: true}}\n"):
        other = Cluster(cluster.site.parent / "lees", cluster.name)
        shutil.rmtree(other.site, ignore_errors=True)
        shutil.copytree(cluster.site, other.site, ignore=shutil.ignore_patterns("runs"))
        try:
            # both at once: the second is told who, and changes nothing
            first = cluster.start("provision", "--yes", "--limit", "storage1")
            file = "$(find /var /home /root -path '*/.local/state/gpuadmin-site/lock' 2>/dev/null)"
            held = f"grep -l provision {file} /dev/null | xargs -r grep -L ended; true"
            within(120, lambda: cluster.admin("storage1", held).strip())
            refused = other.start("sync-users", "--yes")
            _, told = refused.communicate(timeout=300)
            assert "(provision, " in told
            assert "storage1 keeps its lock" in told
            assert refused.returncode == 5

            # killed in the middle: no lock is left, and the next one is told
            first.send_signal(signal.SIGKILL)
            first.communicate(timeout=300)
            time.sleep(3)  # sshd notices that it is gone
            second = other.start("sync-users", "--yes")
            out, err = second.communicate(timeout=600)
            assert second.returncode == 0, out + err
            assert "(provision, " in err
            assert "was cut off" in err

            # each machine has the runs of both; the killed one's record came when its machine was used again
            for where in (cluster, other, cluster):
                found = where.gpuadmin("runs")["result"]["runs"]
            verbs = {run["verb"]: run["status"] for run in found[:2]}
            assert verbs == {"sync-users": "ok", "provision": "unfinished"}
            assert [run["id"] for run in found[:2]] == [
                run["id"] for run in other.gpuadmin("runs")["result"]["runs"][:2]
            ]

            # a storage host that is stopped in the middle of all: asked, and refused without a terminal
            hanging = "echo 'import time; time.sleep(600)' > /var/lib/gpuadmin/lib/gpuadmin_node/cli.py"
            aside = "mv /var/lib/gpuadmin/lib /var/lib/gpuadmin/lib.away"
            cluster.admin("storage1", f"{aside}; mkdir -p /var/lib/gpuadmin/lib/gpuadmin_node; {hanging}")
            try:
                begun = time.monotonic()
                hangs = other.start("sync-users", "--yes")
                _, err = hangs.communicate(timeout=300)
                assert "the site's lock cannot be taken: storage1" in err
                assert hangs.returncode == 5
                assert time.monotonic() - begun < 60
            finally:
                cluster.admin(
                    "storage1", "rm -r /var/lib/gpuadmin/lib; mv /var/lib/gpuadmin/lib.away /var/lib/gpuadmin/lib"
                )
        finally:
            other.end_commands()


#: In place of gpuadmin on the monitor host: what it was called with, and by whom; it ends as it is told.
PROGRAM = """#!/bin/sh
echo "$(id -un) $HOME $*" >> /var/lib/gpuadmin-timers/calls
[ "$1" = runs ] || exit $(cat /var/lib/gpuadmin-timers/code)
"""
PLACE = "/var/lib/gpuadmin-timers/gpuadmin"
TIMERS = "\ntimers: {verbs: [drift, idle], program: /var/lib/gpuadmin-timers/gpuadmin}\nruns: {shared: false}\n"


@pytest.mark.story("provision", "status")
def test_the_monitor_host_acts_by_itself(watched: Cluster) -> None:
    host = "storage1"
    with watched.settings(lambda text: f"{text}{TIMERS}"):
        watched.gpuadmin("provision", "--yes", "--limit", host)
        again = watched.gpuadmin("provision", "--yes", "--limit", host)
        assert not [one for one in again["hosts"][host]["changed"] if "timer" in one]
        listed = watched.admin(host, "systemctl list-timers --all --no-legend 'gpuadmin-timer-*'")
        assert listed.count("gpuadmin-timer-") == 4, "a timer and its service in each line"
        place = "/var/lib/gpuadmin-timers"
        watched.admin(host, f"install -d -o gpuadmin-timers -m 700 {place}; umask 022; echo 0 > {place}/code")
        watched.admin(host, f"cat > {PLACE} <<'END'\n{PROGRAM}END\nchmod 755 {PLACE}")

        # its day has come: systemd starts it, as the account, with the site that is there
        watched.admin(host, "systemctl start gpuadmin-timer-idle.service")
        calls = watched.admin(host, f"cat {place}/calls").splitlines()
        assert calls[0] == f"gpuadmin-timers {place} idle --act --yes --site {place}/site"
        assert calls[1].startswith(f"gpuadmin-timers {place} runs ")

        # one that finds that hosts differ did not succeed, and is not tried again at once
        watched.admin(host, f"echo 6 > {place}/code; systemctl start gpuadmin-timer-drift.service || true")
        assert watched.admin(host, "systemctl is-failed gpuadmin-timer-drift.service").strip() == "failed"
        timers = watched.gpuadmin("status")["result"]["hosts"][host]["timers"]
        assert set(timers) == {"drift", "idle"}
        assert timers["drift"].endswith(" failed")
        assert not timers["idle"].endswith("failed")

        def alerts() -> list[str]:
            return [str(one["name"]) for one in asked(watched, 'ALERTS{alertname="TimerFailed"}')]

        within(120, lambda: alerts() == ["gpuadmin-timer-drift.service"])

    # a site that does not name them has them no more
    watched.gpuadmin("provision", "--yes", "--limit", host)
    assert not watched.admin(host, "systemctl list-timers --all --no-legend 'gpuadmin-timer-*'").strip()
