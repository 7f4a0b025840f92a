"""What a host says of itself."""

import grp
import time
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import cgroups
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.host import facts
from ansible_collections.gpuadmin.node.plugins.module_utils.host.facts import look_at, queue
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import parse_mountinfo
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import Table

MOUNTS = """\
22 1 0:20 / / rw - btrfs /dev/vda2 rw
30 22 0:40 / /home rw - autofs systemd-1 rw
31 30 0:41 / /home rw - nfs4 10.77.0.10:/srv/storage/homes rw
"""


def test_look_at_does_not_look_into_mounts() -> None:
    seen = look_at("/home", parse_mountinfo(MOUNTS))
    assert seen == {
        "mounts": [
            {"source": "systemd-1", "fstype": "autofs"},
            {"source": "10.77.0.10:/srv/storage/homes", "fstype": "nfs4"},
        ],
        "fstype": "nfs4",
        "entries": [],
    }


def test_a_host_that_serves_what_it_had_copies_of(tmp_path: Path) -> None:
    state, exports = tmp_path / "promoted.json", tmp_path / "exports"
    found = []
    for path in (state, exports):
        found.append(facts.serves_promoted(str(tmp_path), str(exports)))
        path.touch()
    assert [*found, facts.serves_promoted(str(tmp_path), str(exports))] == [False, False, True]


def test_look_at_what_is_not_there_yet() -> None:
    seen = look_at("/local/.docker", parse_mountinfo(MOUNTS))
    assert (seen["mounts"], seen["fstype"], seen["entries"]) == ([], "btrfs", [])


@pytest.mark.root
@pytest.mark.holds("a node does not leave the queue while a job without GPUs runs there")
def test_whose_jobs_run_and_who_has_gpus_of_an_admin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job without GPUs has no grant. Slurm's own processes are root's; a Slurm that is not ours is not looked at."""
    step = tmp_path / "system.slice/gpu1_slurmstepd.scope/job_7/step_0"
    for name, pids in (("slurm", "1\n"), ("user/task_0", "2\n3\n")):
        (step / name).mkdir(parents=True)
        (step / name / "cgroup.procs").write_text(pids)
    owners = {1: 0, 2: 20002, 3: None}
    monkeypatch.setattr(cgroups, "find_owner", owners.get)
    monkeypatch.setattr(grants, "find_name", lambda uid: {20002: "haeun"}[uid])
    monkeypatch.setattr(grants.running, "__defaults__", ([str(tmp_path / "none"), str(tmp_path)],))
    now = int(time.time())
    for id, user, source, until in (
        ("a1", "minji", "admin", 99),
        ("slurm-4", "jiho", "slurm", 99),
        ("a2", "sora", "admin", -1),
    ):
        one = grants.Grant(id, user, 20001, ["0"], now - 9, now + until, "root", source=source)
        grants.write(one, str(tmp_path))
    found = queue(str(tmp_path))
    assert (found["people"], found["granted"], found["here"]) == (["jiho"], ["minji"], False)
    (tmp_path / "slurm").mkdir()
    (tmp_path / "slurm/slurm.key").touch()
    found = queue(str(tmp_path))
    assert (found["people"], found["here"]) == (["haeun", "jiho"], True)


@pytest.mark.parametrize(("line", "members"), [("docker:x:990:jiho", ["jiho", "minji"]), ("users:x:100:jiho", [])])
def test_whose_first_group_is_docker_is_in_it(monkeypatch: pytest.MonkeyPatch, line: str, members: list[str]) -> None:
    """`useradd -g docker`: the group's line does not name them."""
    name, password, gid, named = line.split(":")

    def getgrnam(wanted: str) -> grp.struct_group:
        if wanted != name:
            raise KeyError(wanted)
        return grp.struct_group((name, password, int(gid), named.split(",")))

    passwd = "minji:x:1001:990::/home/minji:/bin/bash\njiho:x:1002:1002::/home/jiho:/bin/bash\n"
    monkeypatch.setattr(grp, "getgrnam", getgrnam)
    monkeypatch.setattr(facts, "table", lambda _place, kind: Table.parse(kind, passwd))
    assert facts.docker_members() == members
