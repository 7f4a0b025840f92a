"""The verbs about images, from their command line to what Ansible would be asked, and what people are told."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.actions.shared import images
from gpuadmin.actions.shared.queue import make_mark
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.config.load import load_site
from gpuadmin.results import HostResult, RunResult
from tests.support.image_cluster import B, Cli, Cluster, cluster, manifest, node
from tests.support.sites import make_site

__all__ = ["cluster"]


def test_push(cli: Cli, cluster: Cluster) -> None:
    code, out, _ = cli("push-image", "b", "--yes", "--deadline", "90")
    assert code == 0
    assert "runs a; receives 6.0 MB as the difference to a" in out
    assert "in batches of 1, 1" in out
    (asked,) = cluster.changing
    assert (asked.playbook, asked.limit, asked.check) == ("push-image", "node1,node2", False)
    assert asked.variables["gpuadmin_batches"] == [1, 1]
    assert asked.variables["gpuadmin_deadline"] == 90
    assert asked.variables["gpuadmin_links"] == {}
    assert asked.variables["gpuadmin_chain_key"] == ""
    assert "재부팅" in asked.variables["gpuadmin_reason"]


def test_push_leaves_out_whoever_is_busy_and_stops_where_a_batch_failed(cli: Cli, cluster: Cluster) -> None:
    cluster.nodes["node1"] = node(people=["minji"])
    code, out, _ = cli("push-image", "b", "--yes")
    assert code == 0
    assert "node1 is left out: runs a; in use by minji" in out
    assert cluster.changing[0].limit == "node2"
    cluster.nodes = {"node1": node(), "node2": node()}
    cluster.answer = {"node1": HostResult("failed", message="sshd does not greet")}
    code, out, err = cli("push-image", "b", "--yes", "--json")
    assert code == 3
    assert json.loads(out)["result"]["untouched"] == ["node2"]
    assert "nothing was done there: the run ended after node1" in err
    assert "build a corrected image" in err


def test_push_says_where_the_time_went(cli: Cli, cluster: Cluster) -> None:
    last = {"stage": "confirmed", "time": 1000.0, "ended": 1064.5, "uptime": 41.5}
    reports = {"switch": {"seconds": {"fetch": 3.2, "record": 0.0}}, "node": {"last": last}}
    cluster.answer = {"node1": HostResult("changed", reports=reports), "node2": HostResult("unreachable")}
    _, out, err = cli("push-image", "b", "--yes", "--json")
    assert "Where the time went: boot 42 s, reboot 23 s, fetch 3 s" in err
    spent = {"fetch": 3.2, "record": 0.0, "reboot": 23.0, "boot": 41.5}
    assert json.loads(out)["result"]["seconds"] == {"node1": spent, "node2": {}}


def test_push_where_everybody_is_busy_or_done(cli: Cli, cluster: Cluster) -> None:
    cluster.nodes = {name: node(gpu_work=["minji"]) for name in ("node1", "node2")}
    code, _, err = cli("push-image", "b", "--yes")
    assert code == 5
    assert "--when-idle waits" in err
    done = {"bytes": 0, "parent": None, "held": True}
    cluster.nodes = {name: node(running="b", current="b", image="b", receives=done) for name in ("node1", "node2")}
    code, out, _ = cli("push-image", "b", "--yes")
    assert code == 0
    assert "Nothing to do" in out
    assert cluster.changing == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["c"], "the store has no complete image c"),
        (["../b"], "cannot name an image"),
        (["b", "--batch", "0"], "neither a number of nodes nor a percentage"),
        (["b", "--force", "--when-idle"], "give one of them"),
    ],
)
def test_push_of_what_there_is_not(cli: Cli, cluster: Cluster, arguments: list[str], words: str) -> None:
    code, _, err = cli("push-image", *arguments, "--yes")
    assert code == 2
    assert words in err
    assert cluster.changing == []


def test_a_full_image_goes_along_a_chain(cli: Cli, cluster: Cluster) -> None:
    whole = {"bytes": 5e8, "parent": None, "held": False}
    cluster.nodes = {name: node(receives=whole) for name in ("node1", "node2")}
    code, out, _ = cli("push-image", "b", "--yes", "--canary", "0")
    assert code == 0
    assert "the full image goes along node1 → node2" in out
    links = cluster.changing[0].variables["gpuadmin_links"]
    assert links["node1"]["next"]
    assert links["node2"]["previous"]
    for full in (False, True):
        cluster.asked.clear()
        cli("push-image", "b", "--yes", *(["--full"] if full else []))
        assert [one.variables["gpuadmin_full"] for one in cluster.asked] == [full, full], "asked, and sent"


def test_the_chains_key_is_made_anew_and_written_nowhere(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    whole = {"bytes": 5e8, "parent": None, "held": False}
    cluster.nodes = {name: node(receives=whole) for name in ("node1", "node2")}
    for _ in range(2):
        code, out, err = cli("push-image", "b", "--yes", "--canary", "0", "--json")
        assert code == 0
        assert "PRIVATE KEY" not in out + err
    keys = [changing.variables["gpuadmin_chain_key"] for changing in cluster.changing]
    assert all("BEGIN PRIVATE KEY" in key and "BEGIN CERTIFICATE" in key for key in keys)
    assert keys[0] != keys[1]
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any("runs" in path.parts for path in written)
    assert not [path for path in written if b"PRIVATE KEY" in path.read_bytes() and path.name != "image_signing_key"]


@pytest.mark.needs("ssh-keygen")
@pytest.mark.holds("a key has its public one, wherever it was cut")
def test_a_signing_key_that_was_cut_while_it_was_made_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its public one, no image was by one of the site's keys any more."""
    site, real = load_site(str(make_site(tmp_path / "site"))), subprocess.run

    def cut(command: list[str], **more: Any) -> None:
        real(command, **more)
        Path(f"{command[-1]}.pub").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", cut)
        with pytest.raises(KeyboardInterrupt):
            images.signing_key(site, make=True)
    images.signing_key(site, make=True)
    assert images.signers(site)
    assert not list(site.directory.glob("*.new*"))
    assert {"/image_signing_key", "/image_signing_key.new"} <= set((site.directory / ".gitignore").read_text().split())


def test_build(cli: Cli, cluster: Cluster) -> None:
    code, out, _ = cli("build-image", "c", "--install", "rsync", "--yes")
    assert code == 0
    assert "install rsync" in out
    assert "as its difference to a" in out
    (asked,) = cluster.changing
    assert asked.limit == "node1"
    assert asked.variables["gpuadmin_phases"] == ["main", "finish", "seal"]
    assert asked.variables["gpuadmin_parents"] == ["a"]
    assert asked.variables["gpuadmin_protocol"] == 2


def test_build_with_a_playbook_of_ones_own(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    playbook = tmp_path / "mine.yml"
    playbook.write_text("- hosts: golden\n")
    code, out, err = cli("build-image", "c", "--run", str(playbook), "--yes", "--json")
    assert code == 0
    assert json.loads(out)["result"] == {"image": "c"}, "one document, though there were three runs"
    assert err.count("Build the image c") == 1, "and one plan"
    first, own, last = cluster.changing
    assert first.variables["gpuadmin_phases"] == ["main"]
    assert (own.playbook, own.limit) == (playbook, "node1")
    assert "chroot /run/gpuadmin/build" in own.variables["ansible_become_exe"]
    assert last.variables["gpuadmin_phases"] == ["finish", "seal"]


def test_a_playbook_of_ones_own_that_fails_ends_the_build(cli: Cli, cluster: Cluster, tmp_path: Path) -> None:
    playbook = tmp_path / "mine.yml"
    playbook.write_text("- hosts: golden\n")
    cluster.answer = {"node1": HostResult("failed", message="no")}
    code, _, _ = cli("build-image", "c", "--run", str(playbook), "--yes")
    assert code == 3
    assert len(cluster.changing) == 1


def test_rollback(cli: Cli, cluster: Cluster) -> None:
    cluster.nodes = {"node1": node(rollback="z"), "node2": node(trial="b")}
    code, out, _ = cli("rollback-image", "--yes")
    assert code == 0
    assert "reboot from a into z" in out
    assert "call off the switch to b" in out
    assert cluster.changing[0].variables["gpuadmin_switch_action"] == "rollback"


def test_list_show_and_verify(cli: Cli, cluster: Cluster) -> None:
    cluster.nodes["node2"] = node(drift=["its root is writable"])
    code, out, _ = cli("list-images")
    assert code == 0
    assert "node2 runs a; its root is writable" in out
    cluster.answer = {"storage1": HostResult("ok", reports={"store": cluster.store, "verified": {"b": ["bad"]}})}
    code, out, _ = cli("list-images", "b")
    assert code == 0
    assert "+ rsync 3" in out
    code, out, _ = cli("list-images", "b", "--verify")
    assert code == 1
    assert "b: bad" in out


def test_prune(cli: Cli, cluster: Cluster) -> None:
    cluster.store["c"] = {"manifest": {**manifest("c", B, None), "created": 2.0}, "text": "", "problem": None}
    cluster.nodes["node2"] = node(prunable={"roots": ["old"], "images": []})
    cluster.answer["storage1"] = HostResult("changed")
    code, out, _ = cli("prune-images", "--keep", "1", "--yes")
    assert code == 0
    assert "delete the image b from the store" in out
    assert "delete the root old" in out
    assert cluster.changing[0].variables["gpuadmin_delete_images"] == ["b"]


JOB = {"id": "4", "user": "minji", "group": "people", "gpus": 1, "nodes": "node1", "place": 0, "asked": 1, "start": 2,
       "end": 1795608428, "why": ""}  # fmt: skip


@pytest.fixture
def queue(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, HostResult]:
    """The nodes take jobs of a queue; what it says is in `storage1`."""
    settings = tmp_path / "site/gpuadmin.yml"
    settings.write_text(f"{settings.read_text()}\nslurm: {{}}\n")
    (tmp_path / "site/inventory/queue.yml").write_text("slurm: {hosts: {storage1: {}}}\n")
    says = {"storage1": HostResult("ok", reports={"queue": {"jobs": [JOB], "nodes": []}})}

    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        return RunResult(says) if invocation.playbook == "queue" else cluster.run(invocation, **callbacks)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    return says


@pytest.mark.holds(
    "whoever has a job of the queue on a node keeps it from a new image",
    "an image is not booted where the queue does not say whose jobs are there",
)
def test_a_push_waits_for_jobs_of_the_queue(
    cli: Cli, cluster: Cluster, queue: dict[str, HostResult], tmp_path: Path
) -> None:
    code, out, err = cli("push-image", "b", "--yes")
    assert code == 0, err
    assert "node1 is left out: runs a; in use by minji (job 4, until" in out
    (run,) = cluster.changing
    assert run.limit == "node2"
    assert run.variables["gpuadmin_away"]["mark"] == make_mark("push-image", tmp_path / "site")
    cluster.asked.clear()
    queue["storage1"] = HostResult("failed", message="slurmctld does not answer")
    assert cli("push-image", "b", "--yes")[0] == 5
    assert cluster.changing == []
    assert cli("push-image", "b", "--no-reboot", "--yes")[0] == 0
    assert "gpuadmin_away" not in cluster.changing[0].variables, "what only prepares takes no node away"


@pytest.mark.holds("no node gets a slurmd that is newer than its controller")
def test_an_image_with_a_newer_slurmd_is_refused(cli: Cli, cluster: Cluster, queue: dict[str, HostResult]) -> None:
    def says(version: list[int] | None, slurmd: str) -> tuple[int, str]:
        report = {"jobs": [], "nodes": [], "version": version}
        queue["storage1"] = HostResult("ok", reports={"queue": report})
        cluster.store["b"]["manifest"]["packages"] = {"slurmd": slurmd}
        code, _, err = cli("push-image", "b", "--yes")
        return code, " ".join(err.split())

    code, err = says([24, 11], "25.11.2-1")
    assert code == 5
    assert "its slurmd is 25.11.2-1, and the queue's controller is of 24.11: upgrade slurmdbd and slurmctld" in err
    assert cluster.changing == []
    for version, slurmd in (([24, 11], "24.11.9-1"), ([24, 11], "23.11.4-1"), (None, "25.11.2-1"), ([24, 11], "odd")):
        assert says(version, slurmd)[0] == 0, (version, slurmd)


def test_what_an_interrupted_push_has_drained_takes_jobs_again(
    cli: Cli, cluster: Cluster, queue: dict[str, HostResult], tmp_path: Path
) -> None:
    """It came to its end on the node, and nobody was there to tell the queue."""
    mark = make_mark("push-image", tmp_path / "site")
    drained = [{"name": one, "state": "drained", "reason": why} for one, why in
               (("node1", f"{mark} by root@ctl"), ("node2", "fan is loud"))]  # fmt: skip
    queue["storage1"] = HostResult("ok", reports={"queue": {"jobs": [], "nodes": drained}})
    held = {"bytes": 0, "parent": None, "held": True}
    cluster.nodes = {name: node(running="b", current="b", image="b", receives=held) for name in ("node1", "node2")}
    code, out, err = cli("push-image", "b", "--yes")
    assert code == 0, err
    assert f"takes jobs of the queue again ({mark} by root@ctl)" in out
    (run,) = cluster.changing
    assert (run.playbook, run.limit) == ("drain", "storage1")
    assert run.variables["gpuadmin_drain"] == {"nodes": ["node1"], "resume": True, "mark": mark}
