"""What everybody has used outlives the database that has it; and limits follow jobs."""

import json
import time

import pytest

from tests.support.gated_cluster import NODE
from tests.support.lab_cluster import Cluster
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
BACKUPS = "/srv/storage/backups"
SQL = "mariadb -BNe"
SACCT = "sacct -anXP --starttime=2020-01-01 --state=CD --endtime=now --format=jobid,user,alloctres"


def _jobs(cluster: Cluster) -> list[str]:
    """What sacct says of ended jobs: number, person, GPUs."""
    return sorted(cluster.admin(CONTROLLER, SACCT).splitlines())


def _history(cluster: Cluster) -> None:
    """A job of minji's is in the accounting."""
    before = len(_jobs(cluster))
    cluster.person("minji", NODE, "srun --gres=gpu:1 -D / true")
    more = f"test $({SACCT} | wc -l) -gt {before} && echo more"
    cluster.wait(lambda: cluster.ssh("admin", CONTROLLER, f"sudo bash -c '{more}'"), seconds=60)


def _limit(cluster: Cluster) -> int:
    """What minji's slice may take of the node's memory, as systemd has been told; light hosts limit no memory."""
    return int(cluster.admin(NODE, "systemctl show --property=MemoryMax --value user-$(id -u minji).slice"))


def test_a_job_raises_its_persons_limits(cluster: Cluster) -> None:
    with queued(cluster):
        base = _limit(cluster)
        job = "sbatch --parsable --gres=gpu:1 --mem={} --nodelist=node1 -D / -o /dev/null --wrap 'sleep 600'"
        small, large = (cluster.person("minji", NODE, job.format(memory)).strip() for memory in ("100M", "1G"))
        both = base + (100 << 20) + (1 << 30)
        for ends, limit in (("true", both), (f"scancel {small}", base + (1 << 30)), (f"scancel {large}", base)):
            cluster.person("minji", NODE, ends)
            end = time.monotonic() + 60
            while _limit(cluster) != limit:
                assert time.monotonic() < end, f"{_limit(cluster)} is not {limit} after {ends}"
                time.sleep(1)  # slurmd tells nobody when an epilog has ended
        left = "find /run/systemd/system.control -name '50-MemoryMax.conf'"
        assert cluster.admin(NODE, left) == "", "it would hide what the site says later"


def test_the_accounting_comes_back_from_a_backup(cluster: Cluster) -> None:
    with queued(cluster):
        _history(cluster)
        jobs = _jobs(cluster)
        made = cluster.gpuadmin("backup", "--yes")["result"]
        assert made["problems"] == {}
        name = made["backup"]["name"]
        assert made["backup"]["homes"]["_slurm"]["verified"]
        # a dump that fails, or is killed, or finds no room is a set's problem: the good one stays, and is found
        cluster.admin(
            CONTROLLER, "systemctl stop slurmdbd slurmctld; systemctl kill -s KILL mariadb; systemctl stop mariadb"
        )
        process = cluster.start("backup", "--yes", "--label", "dead", "--json")
        without = json.loads(process.communicate()[0])["result"]["backup"]
        assert "_slurm" not in without["homes"]
        assert "minji" in without["homes"]
        assert "accounting" in without["problems"]["_slurm"]
        # the database is gone, and comes back
        cluster.admin(
            CONTROLLER,
            f"systemctl start mariadb; {SQL} 'DROP DATABASE slurm_acct_db'; systemctl start slurmdbd slurmctld",
        )
        assert "slurm_acct_db" in str(cluster.gpuadmin("restore-queue", "--check"))
        restored = cluster.gpuadmin("restore-queue", "--yes")["result"]["restored"]
        assert restored["backup"] == name
        assert _jobs(cluster) == jobs
        # what was there meanwhile is kept beside it, and the queue goes on
        assert restored["aside"] in cluster.admin(CONTROLLER, f"{SQL} 'SHOW DATABASES'").split()
        _history(cluster)
        assert len(_jobs(cluster)) == len(jobs) + 1
        # a backup that is damaged replaces nothing
        now = _jobs(cluster)
        again = cluster.gpuadmin("backup", "--yes", "--label", "again")["result"]["backup"]
        cluster.admin(
            CONTROLLER,
            f"f=$(find {BACKUPS}/{again['name']}/nested -name '*.gz'); test $(echo $f | wc -w) = 1; "
            "printf X | dd of=$f bs=1 seek=2000 conv=notrunc status=none",
        )
        said = str(cluster.gpuadmin("restore-queue", "--yes", "--from", again["name"], code=3))
        assert "damaged" in said
        assert _jobs(cluster) == now
