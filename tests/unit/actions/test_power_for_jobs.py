"""Nodes that nobody uses go off, and as many come back as jobs wait for: `shutdown --idle` and `power on --queue`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.actions import power as action
from gpuadmin.actions.shared import queue as shared_queue
from gpuadmin.ansible.invocation import Invocation
from gpuadmin.common.records.queue import WINDOW
from gpuadmin.common.samples import Sample
from gpuadmin.common.waiting import WHY
from gpuadmin.power import choose_needed
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Cli
from tests.support.fake_bmcs import HUNG, OFF, ON, Cluster, cluster

__all__ = ["cluster"]

REASON = "gpuadmin shutdown 1a2b3c4d: idle, by jun@laptop"


def job(gpus: int = 1, why: str = "node", place: int = 1) -> dict[str, Any]:
    found = {"id": "1", "user": "minji", "gpus": gpus, "place": place, "nodes": "", "end": None}
    return {**found, "why": WHY[why][0] if place else ""}


def node(name: str, state: str = "drained", reason: str = REASON, gpus: int | None = 8) -> dict[str, Any]:
    return {"name": name, "state": state, "reason": reason, "gpus": gpus}


TWO = [node("gpu1"), node("gpu2")]
NOW = 1000.0
CASES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], list[str]]] = {
    "nobody waits": ([job(place=0)], TWO, []),
    "one GPU": ([job()], TWO, ["gpu1"]),
    "more than one node has": ([job(4), job(5)], TWO, ["gpu1", "gpu2"]),
    "more than there is": ([job(40)], TWO, ["gpu1", "gpu2"]),
    "a job without a GPU": ([job(0, "processors")], TWO, ["gpu1"]),
    "whoever waits for their own limit": ([job(8, "limit"), job(8, "held"), job(8, "later")], TWO, []),
    "others come first": ([job(8, "priority")], TWO, ["gpu1"]),
    "an idle node has enough": ([job(4)], [*TWO, node("gpu3", "idle", "")], []),
    "an idle node has too few": ([job(9)], [*TWO, node("gpu3", "idle", "")], ["gpu1"]),
    "a node that is idle and silent has none": ([job(4)], [*TWO, node("gpu3", "idle", "Not responding")], ["gpu1"]),
    "no numbers": ([job(2)], [node("gpu1", gpus=None), node("gpu2", gpus=None)], ["gpu1", "gpu2"]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_which_nodes_jobs_need(case: str) -> None:
    jobs, nodes, wanted = CASES[case]
    assert choose_needed({"jobs": jobs, "nodes": nodes}, ["gpu1", "gpu2"], NOW) == wanted


@pytest.mark.holds("nobody has a hand in a node that is switched on")
def test_a_window_of_maintenance_keeps_a_node_off() -> None:
    queue: dict[str, Any] = {"jobs": [job(8)], "nodes": TWO}
    window = {"name": f"{WINDOW}a1", "nodes": ["gpu1"], "users": ["root"], "begin": 900, "end": 2000}
    assert choose_needed({**queue, "reservations": [window]}, ["gpu1", "gpu2"], NOW) == ["gpu2"]
    for other in ({**window, "begin": 1100}, {**window, "name": "somebody-s"}):
        assert choose_needed({**queue, "reservations": [other]}, ["gpu1", "gpu2"], NOW) == ["gpu1"]


class Queued(Cluster):
    """The same with a queue: what it says, and what it is told."""

    def __init__(self, made: Cluster) -> None:
        self.__dict__ = made.__dict__
        self.queue: Mapping[str, Any] = {"jobs": [job()], "nodes": [node("node1"), node("node2")]}
        self.told: list[tuple[list[str], str]] = []
        self.hot: list[Sample] = []
        self.playbooks: list[str] = []

    def run(self, invocation: Invocation, **callbacks: object) -> RunResult:
        self.playbooks.append(str(invocation.playbook))
        if invocation.playbook == "drain":
            given = invocation.variables["gpuadmin_drain"]
            self.told.append((given["nodes"], given["mark"]))
        if invocation.playbook in ("queue", "drain"):
            return RunResult({"storage1": HostResult("ok", reports={"queue": self.queue})})
        found = super().run(invocation, **callbacks)
        if invocation.variables.get("gpuadmin_bmc_switch") == "on" and not invocation.check:
            self.seen |= {one["name"]: {"state": "on", "answers": True, "problem": ""}
                          for one in invocation.variables["gpuadmin_bmcs"]}  # fmt: skip
        return found


@pytest.fixture
def queued(cluster: Cluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Queued:
    site = tmp_path / "site"
    (site / "gpuadmin.yml").write_text((site / "gpuadmin.yml").read_text() + "slurm: {}\n")
    (site / "inventory/queue.yml").write_text("slurm: {hosts: {storage1: {}}}\n")
    found = Queued(cluster)
    found.seen |= {"node1": OFF, "node2": OFF}

    class Watching:
        def __init__(self, site: object) -> None: ...
        def __enter__(self) -> Watching:
            return self

        def __exit__(self, *error: object) -> None: ...
        def ask(self, query: str) -> list[Sample]:
            return found.hot

    monkeypatch.setattr("gpuadmin.ansible.runner.run", found.run)
    monkeypatch.setattr(action, "Prometheus", Watching)
    # what answers directly is asked in tests/unit/actions/test_directly.py
    monkeypatch.setattr(shared_queue.directly, "answer", lambda *_: None)
    return found


def test_a_node_comes_for_a_job_and_takes_it(queued: Queued, cli: Cli) -> None:
    """Whoever switched it off; and the first of them that went."""
    code, out, err = cli("power", "on", "--queue", "--yes")
    assert code == 0, out + err
    assert queued.did == ["on node1 from storage1, cut "]
    assert queued.told == [(["node1"], "gpuadmin shutdown 1a2b3c4d: idle,")]


@pytest.mark.parametrize(
    ("reason", "line"),
    [
        ("gpuadmin shutdown 1a2b3c4d: by jun@laptop", ["--queue"]),
        ("burnt", ["--queue"]),
        ("my gpuadmin shutdown 1a2b3c4d: idle, x", ["--queue"]),
        (REASON, ["node3", "--queue"]),
    ],
    ids=["switched off by hand", "drained", "somebody's words", "another host is meant"],
)
def test_what_stays_off(queued: Queued, cli: Cli, tmp_path: Path, reason: str, line: list[str]) -> None:
    (tmp_path / "site/inventory/own.yml").write_text(
        "gpu: {hosts: {node3: {ansible_host: 127.0.0.1, ansible_port: 5}}}\n"
    )
    queued.queue = {"jobs": [job()], "nodes": [node("node1", reason=reason), node("node2", reason=reason)]}
    code, out, err = cli("power", "on", *line, "--yes")
    assert (code, queued.did) == (0, []), out + err
    assert "Nothing to do" in out


@pytest.mark.parametrize(
    ("reason", "seen"), [("gpuadmin shutdown 1a2b3c4d: by jun@laptop", OFF), (REASON, ON)], ids=["mended", "was on"]
)
def test_only_a_node_that_was_off_because_it_was_idle_is_resumed(
    queued: Queued, cli: Cli, reason: str, seen: dict[str, Any]
) -> None:
    """Of one that was switched off by name only its admin knows whether it is well."""
    queued.seen["node1"] = seen
    queued.queue = {"jobs": [], "nodes": [node("node1", reason=reason), node("node2")]}
    assert cli("power", "on", "node1", "node2", "--yes")[0] == 0
    assert queued.told == [(["node2"], "gpuadmin shutdown 1a2b3c4d: idle,")]


@pytest.mark.holds("nothing is switched on while it is too hot, or too much is drawn")
def test_nothing_comes_while_it_is_too_hot(queued: Queued, cli: Cli) -> None:
    queued.hot = [Sample("ALERTS", {"alertname": "InletHot"}, 1.0)]
    code, out, _ = cli("power", "on", "--queue", "--yes")
    assert (code, queued.did) == (0, [])
    assert "node1, node2 stay off while there is an alert: InletHot" in " ".join(out.split())


def test_while_it_is_too_hot_there_is_no_run(
    queued: Queued, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where nobody waits: a hot night would leave no other run in the history."""
    answer = RunResult({"storage1": HostResult("ok", reports={"queue": queued.queue})})
    monkeypatch.setattr(shared_queue.directly, "answer", lambda *_: answer)
    queued.hot = [Sample("ALERTS", {"alertname": "InletHot"}, 1.0)]
    assert cli("power", "on", "--queue", "--yes")[0] == 0
    assert (queued.playbooks, [*(tmp_path / "site/runs").glob("*-power-*")]) == ([], [])


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (OFF | {"state": "unknown", "problem": "curl: (7) Failed to connect"}, "curl: (7) Failed to connect"),
        (HUNG, "it is on, and its ssh does not answer: gpuadmin power cycle node1"),
        (ON, "it is on, and drained: gpuadmin resume node1"),
        (None, "node1: its bmc has no address"),
    ],
    ids=["its BMC is silent", "it hangs", "it came too late", "its bmc is not whole"],
)
def test_a_node_that_cannot_come_holds_up_no_other(
    queued: Queued, cli: Cli, tmp_path: Path, seen: dict[str, Any] | None, words: str
) -> None:
    """It would be the first one each time; and the timer that succeeds all the same is no alert."""
    if seen is None:
        (tmp_path / "site/inventory/own.yml").write_text("gpu: {hosts: {node1: {bmc: {kind: ipmi}}}}\n")
    else:
        queued.seen["node1"] = seen
    code, out, err = cli("power", "on", "--queue", "--yes")
    assert (code, queued.did) == (3, ["on node2 from storage1, cut "]), out + err
    assert words in " ".join((out + err).split())
    assert queued.told == [(["node2"], "gpuadmin shutdown 1a2b3c4d: idle,")]


@pytest.mark.holds("a node that did not come is tried after the others")
def test_a_node_that_does_not_come_is_tried_last(queued: Queued, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wake-on-LAN does not reach it, or its power supply is dead: whoever looks finds it off, and not broken."""
    before, dead = queued.run, {"node1"}

    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        found = before(invocation, **callbacks)
        if invocation.variables.get("gpuadmin_bmc_switch") == "on" and not invocation.check:
            bmcs = found.hosts["storage1"].reports["bmcs"]
            bmcs |= {
                name: OFF | {"problem": "after 900 seconds ssh does not answer yet"} for name in bmcs if name in dead
            }
        queued.seen |= {"node1": OFF, "node2": OFF}
        return found

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    seconds = iter(range(99))  # the order of runs of one second is nobody's
    monkeypatch.setattr("gpuadmin.records._stamp", lambda *_: f"20261130T0000{next(seconds):02}")
    line = ("power", "on", "--queue", "--yes")
    assert (cli(*line)[0], queued.told) == (3, []), "it takes no jobs"
    assert cli("power", "on", "node1", "--check")[0] == 0  # which brings nothing
    assert [cli(*line)[0], cli(*line)[0]] == [0, 0]
    dead.clear()
    assert [cli("power", "on", "node1", "--yes")[0], cli(*line)[0]] == [0, 0]
    tried = [one.split()[1] for one in queued.did]
    assert tried == ["node1", "node2", "node2", "node1", "node1"], "and first again once it has come"


def test_a_node_in_maintenance_is_not_asked_about(queued: Queued, cli: Cli) -> None:
    """Whoever mends it has its BMC in their hands: it has not failed, and nobody is mailed about it."""
    window = {"name": f"{WINDOW}a1", "nodes": ["node1"], "users": ["root"], "begin": 900, "end": 2**33}
    queued.queue, queued.seen["node1"] = {**queued.queue, "reservations": [window]}, HUNG
    code, out, err = cli("power", "on", "--queue", "--yes")
    assert (code, queued.did) == (0, ["on node2 from storage1, cut "]), out + err
    assert [one["name"] for one in queued.asked[0].variables["gpuadmin_bmcs"]] == ["node2"]


@pytest.mark.parametrize("seen", [HUNG, OFF | {"state": "unknown", "problem": "x"}], ids=["hangs", "its BMC is silent"])
def test_where_no_node_can_come_the_timer_fails(queued: Queued, cli: Cli, seen: dict[str, Any]) -> None:
    queued.seen |= {"node1": seen, "node2": seen}
    code, out, err = cli("power", "on", "--queue", "--yes")
    assert (code, queued.did) == (5, []), out + err
    assert "node1 is left out" in out


def test_who_went_first_comes_first(queued: Queued, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action, "find_turns", lambda _: {"node1": "2026-11-02", "node2": "2026-11-01"})
    assert cli("power", "on", "--queue", "--yes")[0] == 0
    assert queued.did == ["on node2 from storage1, cut "]


def test_what_decides_is_asked_of_today_s_code(queued: Queued, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a host answers by itself may be of an older gpuadmin."""
    older = RunResult({"storage1": HostResult("ok", reports={"queue": {"jobs": [job()], "nodes": [node("node1")]}})})
    monkeypatch.setattr(shared_queue.directly, "answer", lambda *_: older)
    queued.queue = {"jobs": [], "nodes": [node("node1")]}
    assert cli("power", "on", "--queue", "--yes")[0] == 0
    assert queued.did == []


def test_a_node_without_a_bmc_is_nobody_s_to_switch_on(queued: Queued, cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "site/inventory/own.yml").write_text("gpu: {hosts: {node9: {ansible_host: 127.0.0.1}}}\n")
    queued.queue = {"jobs": [job()], "nodes": [node("node9")]}
    code, out, err = cli("power", "on", "--queue", "--yes")
    assert (code, queued.did) == (0, []), out + err


def test_where_nobody_waits_there_is_no_run(
    queued: Queued, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked every ten minutes, and runs.keep would be of that alone."""
    answer = RunResult({"storage1": HostResult("ok", reports={"queue": {"jobs": [], "nodes": [node("node1")]}})})
    monkeypatch.setattr(shared_queue.directly, "answer", lambda *_: answer)
    assert cli("power", "on", "--queue", "--yes")[0] == 0
    assert (queued.playbooks, [*(tmp_path / "site/runs").glob("*-power-*")]) == ([], [])


def test_a_queue_that_does_not_answer(queued: Queued, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    away = RunResult({"storage1": HostResult("unreachable", message="timed out")})
    monkeypatch.setattr(shared_queue.directly, "answer", lambda *_: away)
    assert cli("power", "on", "--queue", "--yes")[0] == 4
    assert queued.did == []


def test_only_on(queued: Queued, cli: Cli) -> None:
    assert cli("power", "off", "gpu", "--queue", "--yes")[0] == 2


CLAIMS = [
    ({"claims": []}, ["shutdown node1"], ""),
    ({"claims": ["minji (a container)", "jiho (a grant)"]}, [], "in use by minji (a container), jiho (a grant)"),
    ({"claims": None, "unknown": {"claims": "no grant is known"}}, [], "nobody knows who is on it: no grant is known"),
    ({"people": ["minji"], "claims": []}, [], "in use by minji"),
]


@pytest.mark.holds(
    "a node is chosen only where it is known who has something there", "who has a container or a grant is on the node"
)
@pytest.mark.parametrize(("seen", "did", "words"), CLAIMS)
def test_who_has_something_there_keeps_a_node(
    queued: Queued, cli: Cli, seen: dict[str, Any], did: list[str], words: str
) -> None:
    """Nobody named this node: whoever expects their container or GPU there would find it off."""
    queued.queue = {"jobs": [], "nodes": [node("node1", "idle", ""), node("node2", "idle", "")]}
    queued.reports["node1"] |= seen
    _, out, err = cli("shutdown", "node1", "--idle", "1", "--yes")
    assert queued.did == did
    assert words in " ".join((out + err).split())


def test_why_a_node_is_drained_says_that_anybody_may_have_it(
    queued: Queued, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons, before = list[str](), queued.run

    def run(invocation: Invocation, **callbacks: object) -> RunResult:
        if away := invocation.variables.get("gpuadmin_away"):
            reasons.append(f"{away['mark']} {away['reason']}")
        return before(invocation, **callbacks)

    monkeypatch.setattr("gpuadmin.ansible.runner.run", run)
    queued.reports["node1"]["claims"] = []
    queued.queue = {"jobs": [], "nodes": [node("node1", "idle", ""), node("node2", "idle", "")]}
    assert cli("shutdown", "node1", "--idle", "1", "--yes")[0] == 0
    assert cli("shutdown", "node1", "--yes")[0] == 0
    idle, by_hand = reasons
    assert action.IDLE_OFF.match(idle)
    assert not action.IDLE_OFF.match(by_hand)
