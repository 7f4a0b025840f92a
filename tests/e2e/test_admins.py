"""Two admins at two machines, and one site."""

import shutil
import signal
import time

import pytest

from tests.support.lab_cluster import Cluster

pytestmark = pytest.mark.lab


@pytest.mark.story("runs", "provision")
def test_two_machines_change_one_site(cluster: Cluster) -> None:
    with cluster.settings(lambda text: f"{text}\nruns: {{shared: true}}\n"):
        other = Cluster(cluster.site.parent / "lees", cluster.name)
        shutil.rmtree(other.site, ignore_errors=True)
        shutil.copytree(cluster.site, other.site, ignore=shutil.ignore_patterns("runs"))
        try:
            # both at once: the second is told who, and changes nothing
            first = cluster.start("provision", "--yes", "--limit", "storage1")
            told = ""
            for _ in range(100):
                refused = other.start("sync-users", "--yes")
                _, told = refused.communicate(timeout=300)
                if "the site is locked" in told:
                    break
                time.sleep(0.2)
            assert "(provision, " in told
            assert "storage1 keeps its lock" in told
            assert refused.returncode == 5

            # killed in the middle: no lock is left, and the next one is told
            first.send_signal(signal.SIGKILL)
            first.communicate(timeout=300)
            time.sleep(3)
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
