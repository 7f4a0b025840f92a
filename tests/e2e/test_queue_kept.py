"""What everybody has used outlives the database that has it; and limits follow jobs."""

import json
import time

import pytest

from tests.support.gated_cluster import NODE
from tests.support.lab_cluster import Cluster
from tests.support.queued_cluster import CONTROLLER, queued

pytestmark = [pytest.mark.lab, pytest.mark.root, pytest.mark.slow]
HOMES = "/srv/storage/homes"
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
    """By the words of docs/slurm.md."""
    dump, place = "systemctl start gpuadmin-slurm-dump.service", "/srv/storage/queue"
    with queued(cluster):
        _history(cluster)
        jobs = _jobs(cluster)
        cluster.admin(CONTROLLER, dump)
        made = cluster.gpuadmin("backup", "--yes")["result"]
        assert made["problems"] == {}
        name = made["backup"]["name"]
        assert made["backup"]["homes"]["_slurm"]["verified"]
        # a dump that fails keeps the last one, and a backup names it when it is old; then the database is gone
        cluster.admin(CONTROLLER, f"systemctl stop slurmdbd; {SQL} 'DROP DATABASE slurm_acct_db'; ! {dump}")
        cluster.admin(CONTROLLER, f"touch -d '2 days ago' {HOMES}/_slurm/*")
        process = cluster.start("backup", "--yes", "--label", "old", "--json")
        without = json.loads(process.communicate()[0])["result"]["backup"]
        assert "minji" in without["homes"]
        assert "accounting" in without["problems"]["'_slurm/slurm_acct_db.sql.gz'"]
        cluster.gpuadmin("restore-home", "_slurm", "--from", name, "--to", place, "--yes")
        cluster.admin(
            CONTROLLER,
            f"cd {place} && gzip -dc slurm_acct_db.sql.gz | tail -n 2 | grep -q 'Dump completed' && "
            "mariadb -e 'DROP DATABASE IF EXISTS slurm_acct_db; CREATE DATABASE slurm_acct_db' && "
            "gzip -dc slurm_acct_db.sql.gz | setpriv --reuid=slurm --regid=slurm --clear-groups "
            "mariadb --user=slurm slurm_acct_db && systemctl restart slurmdbd slurmctld",
        )
        assert _jobs(cluster) == jobs
        # the queue goes on, and is saved again
        _history(cluster)
        assert len(_jobs(cluster)) == len(jobs) + 1
        cluster.admin(CONTROLLER, dump)
