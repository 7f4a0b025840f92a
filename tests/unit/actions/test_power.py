"""reboot and shutdown, from the command line to what hosts are asked, in which order, and what stops it."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from gpuadmin.actions.shared import power as action
from gpuadmin.actions.shared.queue import make_mark
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.common.waiting import FULL
from gpuadmin.errors import ConfigError
from gpuadmin.power import Target, choose_idle, decide, parse_time
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Cli
from tests.support.sites import make_site

FREE: dict[str, Any] = {"people": [], "clients": [], "jobs": [], "unknown": {}, "claims": []}
GPU1, GPU2 = (Target(f"gpu{number}", f"10.0.0.{number}", people=True, serves=False) for number in (1, 2))
NAS = Target("nas", "10.0.0.9", people=False, serves=True)
MON = Target("mon", "10.0.0.8", people=False, serves=False)
ALL = (NAS, GPU1, MON, GPU2)
BOTH = {"clients": ["10.0.0.1", "10.0.0.2"]}


def steps(which: Any, targets: Any = ALL, waits: bool = False, **reports: Any) -> tuple[list[Any], dict[str, str]]:
    """What is decided: (hosts, step) in their order, and why the others stay. `None` is a host that is away."""
    known = {one.name: FREE | (reports.get(one.name) or {}) for one in targets}
    known = {name: found for name, found in known.items() if name not in reports or reports[name] is not None}
    decision = decide(which, targets, known, waits=waits)
    return [(step.hosts, step.step) for step in decision.steps], dict(decision.refused)


def test_the_order() -> None:
    nodes, others = ("gpu1", "gpu2"), ("gpu1", "mon", "gpu2")
    assert steps("shutdown", nas=BOTH) == ([(others, "switch"), (("nas",), "switch")], {})
    order = [(nodes, "release"), (("nas",), "switch"), (others, "switch")]
    assert steps("reboot", nas=BOTH) == (order, {})
    assert steps("reboot", (GPU1, MON)) == ([(("gpu1", "mon"), "switch")], {})
    assert steps("reboot", (NAS,)) == ([(("nas",), "switch")], {})
    assert steps("shutdown", (NAS,)) == ([(("nas",), "switch")], {})


@pytest.mark.holds(
    "storage stays where nobody knows who mounts it", "storage stays while somebody mounts it who stays up"
)
@pytest.mark.parametrize("which", ["reboot", "shutdown"])
def test_storage_stays_while_somebody_mounts_it(which: Any) -> None:
    found, refused = steps(which, (NAS, GPU1), nas=BOTH)
    assert refused == {"nas": "mounted by 10.0.0.2, which would stay up: name them, too"}
    assert found == [(("gpu1",), "switch")]
    _, refused = steps(which, nas=BOTH, gpu2={"people": ["minji"]})
    assert set(refused) == {"gpu2", "nas"}, "a node that stays mounts it"
    _, refused = steps(which, nas={"clients": None, "unknown": {"clients": "not known"}}, waits=True)
    assert refused == {"nas": "not known"}
    found, refused = steps(which, nas={"clients": ["10.0.0.1"]}, gpu2=None)
    assert refused == {"gpu2": "it does not answer; is it off already?"}
    assert found[-1 if which == "shutdown" else 1] == (("nas",), "switch"), "who is off mounts nothing"


@pytest.mark.parametrize(
    ("report", "waits", "reason"),
    [
        ({"people": ["minji"]}, False, "in use by minji (--when-idle waits, --at and --force do not)"),
        ({"people": ["minji"]}, True, None),
        ({"people": None, "unknown": {"people": "no bus"}}, False, "nobody knows who is on it: no bus"),
        ({"jobs": ["gpuadmin-image-switch"]}, True, "busy with gpuadmin-image-switch"),
        ({"jobs": None, "unknown": {"jobs": "no bus"}}, True, "no bus"),
    ],
)
def test_what_keeps_a_node(report: dict[str, Any], waits: bool, reason: str | None) -> None:
    _, refused = steps("reboot", (GPU1,), waits=waits, gpu1=report)
    assert refused.get("gpu1") == reason


def test_a_time() -> None:
    now = datetime(2026, 11, 27, 17, 0, 30)
    assert parse_time("17:30", now) == datetime(2026, 11, 27, 17, 30)
    assert parse_time("17:00", now) == datetime(2026, 11, 28, 17, 0)
    assert parse_time("2026-11-28 02:00", now) == parse_time("2026-11-28T02:00", now) == datetime(2026, 11, 28, 2, 0)
    for wrong in ("25:00", "soon", "2026-11-27 16:00", "2026-11-29 02:00", ""):
        with pytest.raises(ConfigError, match="--at"):
            parse_time(wrong, now)


class Cluster:
    """Answers for Ansible: what hosts say, and how each step goes."""

    def __init__(self) -> None:
        self.asked: list[Invocation] = []
        self.reports = {name: dict(FREE) for name in ("storage1", "node1", "node2")}
        self.bad: dict[tuple[str, str], HostResult] = {}

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        tasks = invocation.variables.get("gpuadmin_power_tasks", "main")
        hosts = (invocation.limit or "").split(",")
        if tasks == "look":
            away = HostResult("unreachable", message="timed out")
            said = {name: HostResult("ok", reports={"power": report}) for name, report in self.reports.items()}
            return RunResult({name: self.bad.get((name, "look"), said.get(name, away)) for name in hosts})
        self.asked.append(invocation)
        step = invocation.variables.get("gpuadmin_power_step", tasks)
        return RunResult({name: self.bad.get((name, step), HostResult("changed")) for name in hosts})

    @property
    def order(self) -> list[tuple[str, str]]:
        return [
            (one.limit or "", one.variables.get("gpuadmin_power_step", one.variables.get("gpuadmin_power_tasks", "")))
            for one in self.asked
        ]


QUEUE = {"jobs": [{"id": "4", "user": "minji", "group": "people", "gpus": 1, "nodes": "node1", "place": 0, "asked": 1,
                   "start": 2, "end": 1795608428, "why": ""}],
         "nodes": [{"name": "node1", "state": "mixed", "reason": ""},
                   {"name": "node2", "state": "drained", "reason": "fan is loud"}]}  # fmt: skip


@pytest.fixture
def queue(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, HostResult]:
    """minji has a job on node1, and an admin has drained node2. What the queue says is in `says`."""
    settings = tmp_path / "site/gpuadmin.yml"
    settings.write_text(f"{settings.read_text()}\nslurm: {{}}\n")
    (tmp_path / "site/inventory/queue.yml").write_text("slurm: {hosts: {storage1: {}}}\n")
    says = {"storage1": HostResult("ok", reports={"queue": QUEUE})}

    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        return RunResult(says) if invocation.playbook == "queue" else cluster.run(invocation, **callbacks)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    return says


@pytest.mark.holds("whoever has a job of the queue on a node is on it")
def test_a_node_with_a_job_waits_for_it(
    cluster: Cluster, queue: dict[str, HostResult], cli: Cli, tmp_path: Path
) -> None:
    code, out, _ = cli("reboot", "node1", "--yes")
    assert code == 5
    assert "in use by minji (job 4, until" in out
    code, out, err = cli("reboot", "gpu", "--when-idle", "--yes")
    assert code == 0, err
    assert "takes no further job of the queue until it is as it should be; there now: minji (job 4" in out
    assert "node2 takes no jobs of the queue, and takes none afterwards: fan is loud" in out
    away = cluster.asked[0].variables["gpuadmin_away"]
    assert (away["mark"], away["force"], away["waits"]) == (make_mark("reboot", tmp_path / "site"), False, 2880)
    assert away["reason"].startswith("by ")


@pytest.mark.holds("a node goes only where the queue says whose jobs are there")
def test_a_queue_that_does_not_answer_keeps_its_nodes(cluster: Cluster, queue: dict[str, HostResult], cli: Cli) -> None:
    queue["storage1"] = HostResult("failed", message="slurmctld does not answer")
    code, out, _ = cli("reboot", "node1", "--when-idle", "--yes")
    assert code == 5
    assert "slurmctld does not answer (--force goes on)" in out
    assert cluster.asked == []
    assert cli("reboot", "node1", "--force", "--yes")[0] == 0
    assert cluster.asked[0].variables["gpuadmin_away"]["force"] is True


@pytest.mark.holds("what another clone of the site has drained is not this one's")
def test_what_another_clone_of_the_site_has_drained_is_not_this_one_s(
    cluster: Cluster, queue: dict[str, HostResult], cli: Cli, tmp_path: Path
) -> None:
    """Its admin may be in the middle of a reboot there."""
    for site, line in (("site", "until it is as it should be"), ("clone", "and takes none afterwards")):
        reason = f"{make_mark('reboot', tmp_path / site)} by root@ctl"
        drained = {"name": "node2", "state": "drained", "reason": reason}
        queue["storage1"] = HostResult("ok", reports={"queue": {"jobs": [], "nodes": [drained]}})
        code, out, err = cli("reboot", "node2", "--yes")
        assert code == 0, err
        assert line in out, site


def test_a_full_node_is_taken_away_like_any_other(cluster: Cluster, queue: dict[str, HostResult], cli: Cli) -> None:
    """Once there is room it would take jobs, in the middle of the reboot."""
    full = {"name": "node2", "state": "drained", "reason": f"{FULL} /local"}
    queue["storage1"] = HostResult("ok", reports={"queue": {"jobs": [], "nodes": [full]}})
    code, out, err = cli("reboot", "node2", "--yes")
    assert (code, "until it is as it should be" in out, "takes none afterwards" in out) == (0, True, False), err


def test_a_node_that_a_failed_reboot_leaves_drained_is_named(
    cluster: Cluster, queue: dict[str, HostResult], cli: Cli, tmp_path: Path
) -> None:
    reason = f"{make_mark('reboot', tmp_path / 'site')} by root@ctl"
    drained = {"name": "node2", "state": "drained", "reason": reason}
    queue["storage1"] = HostResult("ok", reports={"queue": {"jobs": [], "nodes": [drained]}})
    cluster.bad[("node2", "switch")] = HostResult("failed", message="is not back")
    code, _, err = cli("reboot", "node2", "--yes")
    assert code == 3
    assert "node2 takes no jobs of the queue now" in err
    assert "gpuadmin resume node2" in err


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cluster:
    fake = Cluster()
    fake.reports["storage1"]["clients"] = ["127.0.0.1"]  # the address of both nodes
    monkeypatch.setattr("gpuadmin.ansible.runner.run", fake.run)
    monkeypatch.setenv("GPUADMIN_SITE", str(make_site(tmp_path / "site")))
    return fake


def test_everything_goes_in_order(cluster: Cluster, cli: Cli) -> None:
    code, out, err = cli("reboot", "all", "--yes")
    assert code == 0, err
    assert cluster.order == [("node1,node2", "release"), ("storage1", "switch"), ("node1,node2", "switch")]
    assert "2. reboots when nobody mounts it, and is back" in out
    assert [one.variables["gpuadmin_force"] for one in cluster.asked] == [False, False, True]
    assert "재부팅" in cluster.asked[0].variables["gpuadmin_reason"]
    cluster.asked.clear()
    code, out, err = cli("shutdown", "gpu", "storage1", "--when-idle", "--yes")
    assert code == 0, err
    assert cluster.order == [("node1,node2", "switch"), ("storage1", "switch")]
    assert "gpuadmin power on switches on those that have a bmc; others by hand, storage first" in out
    assert cluster.asked[0].variables["gpuadmin_when_idle"] is True
    assert cluster.asked[0].variables["gpuadmin_power_action"] == "shutdown"


@pytest.mark.holds("no step of a shutdown follows one that failed")
@pytest.mark.parametrize("verb", ["reboot", "shutdown"])
def test_no_step_follows_one_that_failed(cluster: Cluster, cli: Cli, verb: str) -> None:
    first = "release" if verb == "reboot" else "switch"
    cluster.bad[("node2", first)] = HostResult("failed", message="/home is still mounted")
    code, _, err = cli(verb, "all", "--yes")
    assert code == 3
    assert cluster.order == [("node1,node2", first)]
    assert "Not touched: storage1" in err
    assert "no later step was begun" in err


def test_who_is_left_out(cluster: Cluster, cli: Cli) -> None:
    cluster.reports["node1"]["people"] = ["minji"]
    del cluster.reports["node2"]
    code, out, err = cli("reboot", "gpu", "--yes")
    assert code == 5
    assert (out + err).count("in use by minji") == 1
    code, out, _ = cli("reboot", "node2", "--yes")
    assert code == 4, "nobody refuses: it does not answer"
    assert "Not known: node2" in out
    cluster.reports["node2"] = dict(FREE)
    code, out, _ = cli("reboot", "gpu", "--yes")
    assert code == 0
    assert cluster.order == [("node2", "switch")]
    assert "node1 is left out: in use by minji" in out


def test_only_nodes_go_because_nobody_is_on_them() -> None:
    """Not the monitor host, nor one that serves besides, nor storage, however many are asked for."""
    serving = Target("gpu0", "10.0.0.7", people=True, serves=True)
    targets = (*ALL, serving)
    decision = decide("shutdown", targets, {one.name: FREE for one in targets}, waits=False)
    assert {"mon", "gpu0", "nas"} <= {*decision.hosts}
    found = choose_idle(decision, targets, 9, {"gpu1": "2026-11-29T01:02:03+00:00"})
    assert [(step.hosts, step.step) for step in found.steps] == [(("gpu1", "gpu2"), "switch")]
    (step,) = choose_idle(decision, targets, 1, {"gpu1": "2026-11-29T01:02:03+00:00"}).steps
    assert step.hosts == ("gpu2",)


def test_idle_nodes_go_in_turn(cluster: Cluster, cli: Cli) -> None:
    for host in ("node1", "node2", "node1"):
        cluster.asked.clear()
        assert cli("shutdown", "all", "--idle", "1", "--check")[0] == 0  # is nobody's turn
        cluster.asked.clear()
        assert cli("shutdown", "all", "--idle", "1", "--yes")[0] == 0
        assert cluster.order == [(host, "switch")]
    cluster.asked.clear()
    cluster.reports["node2"]["people"] = ["minji"]
    code, out, _ = cli("shutdown", "gpu", "--idle", "2", "--yes")
    assert (code, cluster.order) == (0, [("node1", "switch")])
    assert "only 1 of the 2 nodes that you want can go" in out
    assert "node2 is left out: in use by minji" in out
    assert cli("shutdown", "gpu", "--idle", "1", "--force", "--yes")[0] == 2


def test_a_place_alone(cluster: Cluster, cli: Cli, tmp_path: Path) -> None:
    hosts = tmp_path / "site/inventory/hosts.yml"
    tree = yaml.safe_load(hosts.read_text())
    tree["all"]["children"]["gpu"]["hosts"]["node2"] = {"place": "room 301, rack 2"}
    hosts.write_text(yaml.safe_dump(tree))
    assert cli("shutdown", "gpu", "--place", "room 301", "--yes")[0] == 0
    assert cluster.order == [("node2", "switch")]
    for nowhere in ("room 30x", ""):  # `--place "$ROOM"` of a script that has not set it
        code, _, err = cli("shutdown", "gpu", "--place", nowhere, "--yes")
        assert (code, "no host of gpu has this in its place" in err) == (2, True), err


def test_a_host_that_could_not_be_looked_at_is_not_called_off(cluster: Cluster, cli: Cli) -> None:
    cluster.bad[("node2", "look")] = HostResult("failed", message="Missing sudo password")
    code, out, _ = cli("reboot", "gpu", "--yes")
    assert code == 3
    assert "node2 is left out: it answers, and could not be looked at: Missing sudo password" in " ".join(out.split())
    assert cluster.order == [("node1", "switch")]


@pytest.mark.parametrize("how", [["--at", "23:59"], ["--when-idle"]], ids=["at", "when idle"])
def test_where_no_host_goes_nobody_is_told(cluster: Cluster, cli: Cli, how: list[str]) -> None:
    cluster.reports.clear()
    code, out, _ = cli("reboot", "all", *how, "--check")
    assert code == 4
    assert "people are told" not in out


def test_check_and_no_confirmation(cluster: Cluster, cli: Cli) -> None:
    assert cli("shutdown", "all")[0] == 5
    assert cluster.asked == []
    assert cli("shutdown", "all", "--check", "--at", "23:59")[0] == 0
    assert [one.check for one in cluster.asked] == [True, True]


def test_at_a_time(cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []

    class Clock(datetime):
        @classmethod
        def now(cls, tz: Any = None) -> Clock:
            return cls(2026, 11, 27, 17, 29, 30 if not slept else 59) if len(slept) < 2 else cls(2026, 11, 27, 17, 30)

    monkeypatch.setattr(action, "datetime", Clock)
    monkeypatch.setattr(action.time, "sleep", slept.append)
    cluster.reports["node1"]["people"] = ["minji"]
    code, out, err = cli("shutdown", "all", "--at", "17:30", "--yes")
    assert code == 0, err
    assert cluster.order == [("node1,node2", "announce"), ("node1,node2", "switch"), ("storage1", "switch")]
    assert "2026-11-27 17:30에 꺼집니다" in cluster.asked[0].variables["gpuadmin_waiting"]
    assert cluster.asked[1].variables["gpuadmin_force"] is True
    assert slept == [30, 1]
    assert "Ctrl-C calls it off" in out


@pytest.mark.holds("a node that stays says no more that it goes")
@pytest.mark.parametrize("how", [["--when-idle"], ["--at", "2026-11-27 17:30"]], ids=["when idle", "at"])
def test_who_stays_reads_no_more_that_it_goes(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch, how: list[str]
) -> None:
    """A person who never leaves, or homes that stay mounted: the node stays, and its messages are taken back."""

    class Clock(datetime):
        times = iter((29, 30))

        @classmethod
        def now(cls, tz: Any = None) -> Clock:
            return cls(2026, 11, 27, 17, next(cls.times, 30))

    monkeypatch.setattr(action, "datetime", Clock)
    cluster.bad[("node2", "switch")] = HostResult("failed", message="in use by minji; it was left as it is")
    code, out, _ = cli("shutdown", "all", *how, "--yes")
    assert code == 3
    assert "no other run can change the site meanwhile" in out
    assert cluster.order[-1] == ("node2", "withdraw")
    assert ("storage1", "switch") not in cluster.order
    # homes were let go everywhere, but nobody rebooted: both nodes stay
    cluster.asked.clear()
    Clock.times = iter((29, 30))
    cluster.bad = {("storage1", "switch"): HostResult("failed", message="mounted by 10.0.0.7")}
    assert cli("reboot", "all", *how, "--yes")[0] == 3
    assert cluster.order[-1] == ("node1,node2", "withdraw")


@pytest.mark.holds("an interrupted reboot is not a success")
def test_an_interrupted_reboot_is_no_success(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    found = {"node1": HostResult("changed"), "node2": HostResult("interrupted", ["x"])}

    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        if "gpuadmin_power_step" in invocation.variables:
            return RunResult(dict(found), interrupted=True)
        return cluster.run(invocation, **callbacks)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    code, out, _ = cli("reboot", "gpu", "--yes", "--json")
    hosts = json.loads(out)["hosts"]
    assert code == 130
    assert {name: one["status"] for name, one in hosts.items()} == {"node1": "changed", "node2": "interrupted"}
    assert "gpuadmin status says whether it is up" in hosts["node2"]["message"]


def test_it_is_called_off(cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(action.time, "sleep", interrupted)
    code, _, _ = cli("shutdown", "all", "--at", "23:59", "--yes")
    assert code == 130
    assert [step for _, step in cluster.order] == ["announce", "withdraw"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reboot"], "Missing argument"),
        (["reboot", "nowhere"], "HOST nowhere: names no host"),
        (["reboot", "node1", "--limit", "node2"], "leaves none of the hosts node1"),
        (["reboot", "node1", "--force", "--when-idle"], "one of them"),
        (["reboot", "node1", "--at", "25:00"], "is not a time of day"),
        (["reboot", "node1", "--at", "2020-01-01 00:00"], "is in the past: this machine's clock says"),
        (["reboot", "node1", "--at", "2999-01-01 00:00"], "is more than a day away"),
    ],
)
def test_what_is_refused(cluster: Cluster, cli: Cli, arguments: list[str], words: str) -> None:
    code, _, err = cli(*arguments, "--yes")
    assert code == 2, err
    assert words in err
    assert cluster.asked == []


@pytest.mark.holds("a host of no group is not switched off unasked")
def test_a_host_of_no_group_is_refused(cluster: Cluster, cli: Cli, tmp_path: Path) -> None:
    """Nobody says what it is for: whether people are on it, and whether others mount from it, would not be asked."""
    strange = "{all: {hosts: {strange: {ansible_host: 127.0.0.1}}}}\n"
    (tmp_path / "site/inventory/more.yml").write_text(strange)
    cluster.reports["strange"] = {**FREE, "people": ["minji"]}
    for pattern in ("strange", "all"):
        code, _, err = cli("reboot", pattern, "--yes")
        assert code == 2, err
        assert "strange: in none of the groups" in err
    assert cluster.asked == []


def test_the_record_says_what_was_done(cluster: Cluster, cli: Cli) -> None:
    code, out, _ = cli("reboot", "all", "--yes", "--json")
    result = json.loads(out)["result"]
    assert code == 0
    assert result["steps"] == [["node1", "node2"], ["storage1"], ["node1", "node2"]]
    assert result["untouched"] == []


def test_it_is_called_off_while_people_are_being_told(
    cluster: Cluster, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some of them were told already, and read it at each login until it is taken back."""

    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        cut = invocation.variables.get("gpuadmin_power_tasks") == "announce"
        return replace(cluster.run(invocation, **callbacks), interrupted=cut)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    code, _, err = cli("shutdown", "all", "--at", "23:59", "--yes")
    assert code == 130
    assert [step for _, step in cluster.order] == ["announce", "withdraw"]
    assert "nothing was switched off" in err
