"""Slurm's accounts: what is run, and what is not before the cluster has registered."""

import json
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.operations import slurm_accounts

from gpuadmin.common.records.queue import Group
from tests.support.fake_slurm import slurm

DOCUMENT = slurm_accounts.Document(
    users=json.dumps([{"name": "minji"}, {"name": "jiho", "locked": True}]), groups=[Group("people", 10, 24, 20)]
)
#: sacctmgr, whose cluster has registered where the file is there.
SACCTMGR = """case "$*" in
*'show cluster'*) [ -e {0}/registered ] && echo 'lab|10.0.0.9' || echo 'lab|' ;;
*'show assoc'*) printf 'people||10|\\npeople|jiho|1|\\n' ;;
*'show qos'*) printf 'exception||||\\npeople|DenyOnLimit||1-00:00:00|20\\n' ;;
*) echo "$*" >>{0}/called ;;
esac"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    slurm(tmp_path, monkeypatch, sacctmgr=SACCTMGR.format(tmp_path), scancel=f'echo "scancel $*" >>{tmp_path}/called')
    monkeypatch.setattr(slurm_accounts, "REGISTERED", 0.1)
    return tmp_path


def test_who_is_new_and_who_is_locked(place: Path) -> None:
    (place / "registered").touch()
    slurm_accounts.operate(DOCUMENT, False)
    assert (place / "called").read_text().splitlines() == [
        "-i modify user where name=jiho account=people set maxsubmitjobs=0",
        "scancel --user=jiho",
        "-i add user minji account=people qos=people defaultqos=people",
    ]


@pytest.mark.holds("what Slurm refuses of one keeps nobody else from their account")
def test_what_is_refused_is_told_and_ends_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody's old group stays as long as a job of theirs runs in it."""
    (place / "registered").touch()
    slurm(place, monkeypatch, scancel="echo 'scancel: error: no' >&2; exit 1")
    with pytest.raises(NodeError, match="no"):
        slurm_accounts.operate(DOCUMENT, False)
    assert "add user minji" in (place / "called").read_text()


def test_only_what_has_not_begun_is_taken_from_who_is_locked(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What has begun is used by jobs, which end meanwhile; and where slurmctld does not say, people are locked."""
    (place / "registered").touch()
    ends = {"end_time": {"number": 4_000_000_000}, "node_list": "gpu1", "users": "jiho"}
    found = [
        {"name": f"gpu-book-jiho-{number}", "start_time": {"number": begin}, **ends}
        for number, begin in ((1, 1), (2, 3_000_000_000))
    ]
    (place / "reserved").write_text(json.dumps({"reservations": found}))
    answers = f'ping) echo "at nas is UP";; *reservation) cat {place}/reserved'
    slurm(place, monkeypatch, scontrol=f'case "$*" in {answers};; *) echo "$*" >>{place}/called;; esac')
    slurm_accounts.operate(DOCUMENT, False)
    assert (place / "called").read_text().splitlines()[1:3] == [
        "scancel --user=jiho",
        "delete ReservationName=gpu-book-jiho-2",
    ]


def test_a_check_says_it_and_does_nothing(place: Path) -> None:
    (place / "registered").touch()
    result = slurm_accounts.operate(DOCUMENT, True).result()
    assert "Slurm: scancel --user=jiho" in str(result)
    assert not (place / "called").exists()


def test_nobody_is_added_before_the_cluster_has_registered(place: Path) -> None:
    with pytest.raises(NodeError, match="slurmctld has not registered"):
        slurm_accounts.operate(DOCUMENT, False)
    assert not (place / "called").exists()


def test_where_slurm_is_not_set_up_yet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NodeError, match="gpuadmin provision"):
        slurm_accounts.operate(DOCUMENT, False)
    assert "add user minji" in str(slurm_accounts.operate(DOCUMENT, True).result())
