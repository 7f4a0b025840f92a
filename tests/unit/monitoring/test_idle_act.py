"""idle --act, from its command line over a real Prometheus to mails, and to what the nodes are given."""

import email
import email.policy
import json
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.cli.gpus import idle
from gpuadmin.results import HostResult, RunResult
from tests.support.metrics_cluster import granted, line, node, site, ungranted, used
from tests.support.prometheus import blocks, prometheus

pytestmark = [
    pytest.mark.needs("promtool", "prometheus"),
    pytest.mark.holds("a mail that nobody knows to have arrived ends nothing"),
]
USERS = """users:
  - {name: minji, uid: 20001, email: minji@example.org}
  - {name: junho, uid: 20002, email: junho@example.org}
"""
MAIL = "mail: {host: smtp.invalid, sender: gpu@example.org}\n"
UUID = "GPU-gpu1-0"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """A Prometheus in which minji has held a GPU for three hours and not used it, and junho uses another one."""
    base = tmp_path_factory.mktemp("idle")
    now = time.time()
    since = int(now - 10800)
    lines = [
        *node("gpu1", now, held={0: ("minji", "train"), 1: ("junho", "")}),
        *used("gpu1", 0, "minji", now, active=False), *used("gpu1", 1, "junho", now, active=True),
        line("gpuadmin_gpu_unused_since_timestamp_seconds",
             {"instance": "gpu1", "job": "node", "uuid": UUID, "user": "minji"}, since, now),
    ]  # fmt: skip
    with prometheus(base, blocks(base, lines)) as port:
        yield port, since


class Nodes:
    """Stands where ansible-runner is: what each run was given, and what the node says of what is to end."""

    def __init__(self) -> None:
        self.runs: list[tuple[bool, dict[str, Any]]] = []
        self.kept = False

    def run(self, invocation: Invocation, **_callbacks: object) -> RunResult:
        jobs = invocation.variables["gpuadmin_idle"]
        self.runs.append((invocation.check, json.loads(json.dumps(jobs))))
        status, why = ("kept", "it was used") if self.kept else ("would stop" if invocation.check else "stopped", "")
        return RunResult({
            host: HostResult("ok", reports={"idle": {"terminals": 1, "stopped": [
                {"user": one["user"], "uuid": one["uuid"], "status": status, "why": why, "processes": 2,
                 "containers": ["ab12"]}
                for one in given["stop"]
            ]}})
            for host, given in jobs.items()
        })  # fmt: skip


class World:
    def __init__(self, directory: Path, port: int, nodes: Nodes, **metrics: object) -> None:
        self.site, self.nodes, self.mails = site(directory / "site", port), nodes, directory / "mails"
        (self.site / "users.yml").write_text(USERS)
        settings = self.site / "gpuadmin.yml"
        own = json.dumps({"port": port, "mail_to": [], **metrics})
        settings.write_text(settings.read_text().partition("metrics:")[0] + f"metrics: {own}\n{MAIL}")

    def idle(self, *arguments: str) -> Result:
        words = ["--site", str(self.site), "--act", "--mail-dir", str(self.mails), *arguments]
        return CliRunner().invoke(idle, words, standalone_mode=False)

    def sent(self) -> int:
        return len(list(self.mails.glob("*.eml"))) if self.mails.exists() else 0

    def later(self, hours: float) -> None:
        """As if the mails had been sent so much earlier."""
        path = self.site / "mails.jsonl"
        entries = [json.loads(text) for text in path.read_text().splitlines()]
        when = (datetime.now(UTC) - timedelta(hours=hours)).isoformat(timespec="seconds")
        path.write_text("".join(json.dumps({**entry, "time": when}) + "\n" for entry in entries))


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Nodes:
    fake = Nodes()
    monkeypatch.setattr("gpuadmin.ansible.runner.run", fake.run)
    return fake


@pytest.fixture(scope="module")
def queued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """A Prometheus in which minji's job has had two GPUs for three hours for nothing; junho's uses one of its two."""
    base = tmp_path_factory.mktemp("queued")
    now = time.time()
    since = int(now - 10800)
    lines = [*node("gpu1", now, held={}), *node("gpu2", now, held={})]
    for name, user, job, unused in (("gpu1", "minji", "7", (0, 1)), ("gpu2", "junho", "8", (0,))):
        for index in (0, 1):
            lines += [one.replace("root@nas", "Slurm") for one in
                      granted(name, index, user, now, now + 3600, f"job {job}")]  # fmt: skip
        for index in unused:
            labels = {"instance": name, "job": "node", "uuid": f"GPU-{name}-{index}", "user": user, "slurm_job": job}
            lines.append(line("gpuadmin_gpu_job_unused_since_timestamp_seconds", labels, since, now))
    with prometheus(base, blocks(base, lines)) as port:
        yield port, since


class Queue(Nodes):
    """The same with a queue: `gpus` that minji's job has, by what Slurm says."""

    gpus = 2
    said: Mapping[str, Any] = {}
    down = False
    stopped = False

    def run(self, invocation: Invocation, **callbacks: object) -> RunResult:
        if invocation.playbook == "queue":
            job = {"id": "7", "user": "minji", "group": "people", "gpus": self.gpus, "nodes": "gpu1", "place": 0,
                   "asked": 1, "start": 2, "end": 9, "why": "", **self.said}  # fmt: skip
            if self.down:
                return RunResult({"nas1": HostResult("failed", message="slurmctld does not answer")})
            return RunResult({"nas1": HostResult("ok", reports={"queue": {"jobs": [job], "nodes": []}})})
        if invocation.playbook == "grant":
            self.runs.append((invocation.check, dict(invocation.variables)))
            return RunResult({"nas1": HostResult("changed")})
        found = super().run(invocation, **callbacks)
        for host in found.hosts.values():
            for one in host.reports["idle"]["stopped"]:
                one["status"] = "kept" if self.kept else "gone"
        return replace(found, interrupted=self.stopped and not invocation.check)


@pytest.mark.holds(
    "a job that uses one of its GPUs is not idle", "a job of which one GPU may be used is not cancelled",
    "a job whose GPU somebody may use is not cancelled", "somebody else's job is not cancelled",
    "who stops it while holds end cancels no job",
)  # fmt: skip
def test_a_job_that_uses_nothing_is_told_and_then_cancelled(
    queued: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = Queue()
    monkeypatch.setattr("gpuadmin.ansible.runner.run", nodes.run)
    world = World(tmp_path, queued[0], nodes, idle_hours=2, idle_stop=True, idle_notice_hours=1)
    settings = world.site / "gpuadmin.yml"
    settings.write_text(settings.read_text() + "slurm: {}\n")
    (world.site / "inventory/queue.yml").write_text("slurm: {hosts: {nas1: {}}}\n")
    world.idle("--yes")
    assert world.sent() == 1, "junho's job uses one of its GPUs"
    (mail,) = world.mails.glob("*.eml")
    body = email.message_from_bytes(mail.read_bytes(), policy=email.policy.default).get_body()
    assert body is not None
    text = body.get_content()
    assert "GPU 0 (" in text
    assert "job 7" in text
    assert "gpu release 7" in text
    ((_, told),) = nodes.runs
    assert "A job that is still unused in 1 hour is cancelled" in told["gpu1"]["tell"][0]["message"]
    nodes.runs.clear()
    world.later(1.1)
    nodes.gpus = 3
    assert "job 7 is left: not all of its GPUs are unused" in world.idle("--yes").output
    nodes.gpus = 2
    for said, words in (
        ({"user": "junho"}, "it is somebody else's"), ({"id": "9"}, "it has ended"), ({"place": 1}, "it has ended"),
    ):  # fmt: skip
        nodes.said = said
        assert f"job 7 is left: {words}" in world.idle("--yes").output
    nodes.said, nodes.down = {}, True
    assert "job 7 is left: slurmctld does not answer" in world.idle("--yes").output
    assert all(check for check, _ in nodes.runs)
    nodes.down, nodes.kept = False, True
    world.idle("--yes")
    assert all(check for check, _ in nodes.runs), "a node says that it was used"
    nodes.kept = False
    nodes.runs.clear()
    assert "cancel job 7 of minji" in world.idle("--check").output
    assert all(check for check, _ in nodes.runs)
    nodes.stopped = True
    interrupted = world.idle("--yes")
    assert interrupted.return_value == 130
    assert "cancelled" not in interrupted.output
    assert not any("gpuadmin_cancel" in given for _, given in nodes.runs)
    nodes.stopped = False
    nodes.runs.clear()
    assert "job 7: cancelled" in world.idle("--yes").output
    _, (check, looked), (_, cancelled) = nodes.runs
    assert not check, "each GPU is looked at once more"
    assert [one["why"] for one in looked["gpu1"]["stop"]] == ["job_unused", "job_unused"]
    assert cancelled["gpuadmin_cancel"] == ["7"]


def test_told_once_by_mail_and_on_terminals(server: tuple[int, int], tmp_path: Path, nodes: Nodes) -> None:
    world = World(tmp_path, server[0], nodes)
    assert world.idle("--check").return_value == 0
    assert (world.sent(), nodes.runs) == (0, []), "a check tells nobody"
    done = world.idle("--yes")
    assert done.return_value == 0, done.output
    assert world.sent() == 1
    ((check, jobs),) = nodes.runs
    assert not check
    assert jobs["gpu1"]["stop"] == []
    assert [one["uid"] for one in jobs["gpu1"]["tell"]] == [20001]
    nodes.runs.clear()
    again = world.idle("--yes")
    assert "There is nobody to notify and nothing to stop." in again.output
    world.later(100)
    world.idle("--yes")
    assert (world.sent(), nodes.runs) == (1, []), "where the site does not say so nothing is ended"


@pytest.fixture(scope="module")
def gated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """A Prometheus in which minji's grant has ended three hours ago, and she still holds the GPU."""
    base = tmp_path_factory.mktemp("gated")
    now = time.time()
    since = int(now - 10800)
    lines = [*node("gpu1", now, held={0: ("minji", "train"), 1: ("junho", "")}),
             *granted("gpu1", 1, "junho", now, now + 3600), ungranted("gpu1", 0, "minji", now, since)]  # fmt: skip
    with prometheus(base, blocks(base, lines)) as port:
        yield port, since


def test_who_has_no_grant_any_more_is_told_and_ended(gated: tuple[int, int], tmp_path: Path, nodes: Nodes) -> None:
    """By the code of what is not used, also where the site ends nothing of that, and may hold one idle."""
    world = World(tmp_path, gated[0], nodes, idle_stop=False, idle_notice_hours=1, idle_exempt=["minji"])
    shown = world.idle("--check").output
    assert "has no grant for it (ended " in shown
    world.idle("--yes")
    assert world.sent() == 1
    ((_, jobs),) = nodes.runs
    assert "your time with it is over" in jobs["gpu1"]["tell"][0]["message"]
    nodes.runs.clear()
    world.later(0.9)
    assert "has no grant for it (ended" in (waits := world.idle("--yes").output)
    assert "was told; ended in" in waits
    assert nodes.runs == []
    world.later(1.1)
    assert "gpu1: minji's 2 processes on GPU-gpu1-0 ended" in world.idle("--yes").output
    (_, looked), (_, ended) = nodes.runs
    (target,) = ended["gpu1"]["stop"]
    assert looked["gpu1"]["stop"] == [target]
    assert (target["user"], target["uuid"], target["since"], target["why"]) == ("minji", UUID, gated[1], "ungranted")


def test_ended_after_the_notice_and_not_before(server: tuple[int, int], tmp_path: Path, nodes: Nodes) -> None:
    world = World(tmp_path, server[0], nodes, idle_stop=True, idle_notice_hours=1)
    world.idle("--yes")
    nodes.runs.clear()
    world.later(0.9)
    assert "ended in" in world.idle("--yes").output
    assert nodes.runs == []
    world.later(1.1)
    done = world.idle("--yes")
    assert done.return_value == 0, done.output
    assert "gpu1: minji's 2 processes on GPU-gpu1-0 ended" in done.output
    (first, looked), (second, ended) = nodes.runs
    assert (first, second) == (True, False), "the node is asked what it would end before it is asked to"
    target = looked["gpu1"]["stop"][0]
    assert ended["gpu1"]["stop"] == [target]
    assert target["notified"] == pytest.approx(time.time() - 1.1 * 3600, abs=120)
    assert {key: target[key] for key in ("user", "uid", "uuid", "since")} == {
        "user": "minji", "uid": 20001, "uuid": UUID, "since": server[1],
    }  # fmt: skip


def test_without_a_terminal_and_without_yes_nothing_happens(
    server: tuple[int, int], tmp_path: Path, nodes: Nodes
) -> None:
    world = World(tmp_path, server[0], nodes, idle_stop=True)
    done = world.idle()
    assert "not confirmed" in str(done.exception)
    assert world.sent() == 0


def test_what_a_node_keeps_is_said(server: tuple[int, int], tmp_path: Path, nodes: Nodes) -> None:
    world = World(tmp_path, server[0], nodes, idle_stop=True, idle_notice_hours=1)
    world.idle("--yes")
    world.later(1.1)
    nodes.kept = True
    nodes.runs.clear()
    assert "keep minji's on GPU-gpu1-0: it was used" in world.idle("--yes").output
    assert [check for check, _ in nodes.runs] == [True], "it is not even asked to"
    (kept,) = json.loads(world.idle("--yes", "--json").stdout)["result"]["stopped"]["gpu1"]
    assert kept["why"] == "it was used", "programs are told as well"


def test_one_hour_is_one(server: tuple[int, int], tmp_path: Path, nodes: Nodes) -> None:
    world = World(tmp_path, server[0], nodes, idle_stop=True, idle_hours=1, idle_notice_hours=1)
    world.idle("--yes")
    (path,) = world.mails.glob("*.eml")
    mail = email.message_from_bytes(path.read_bytes(), policy=email.policy.default)
    body = mail.get_body(("plain",))
    assert body is not None
    ((_, jobs),) = nodes.runs
    texts = [str(mail["subject"]), body.get_content(), jobs["gpu1"]["tell"][0]["message"]]
    for text in texts:
        assert "1 hour" in text
        assert "1 hours" not in text


def test_a_mail_that_may_not_have_arrived_ends_nothing(server: tuple[int, int], tmp_path: Path, nodes: Nodes) -> None:
    world = World(tmp_path, server[0], nodes, idle_stop=True, idle_notice_hours=1)
    world.idle("--yes")
    world.later(1.1)
    path = world.site / "mails.jsonl"
    path.write_text(path.read_text().replace('"sent"', '"intent"'))
    nodes.runs.clear()
    assert "may have been sent or not" in world.idle("--yes").output
    assert nodes.runs == []


@pytest.mark.holds("protected people are left alone")
@pytest.mark.parametrize("exempt", [["minji"], []], ids=["exempt", "protected"])
def test_an_exempt_or_protected_person_is_neither_told_nor_stopped(
    server: tuple[int, int], tmp_path: Path, nodes: Nodes, exempt: list[str]
) -> None:
    world = World(tmp_path, server[0], nodes, idle_stop=True, idle_exempt=exempt)
    if not exempt:
        settings = world.site / "gpuadmin.yml"
        settings.write_text(re.sub(r"(?m)^protected:.*$", "protected: [minji]", settings.read_text()))
    assert "nothing is done: exempt" in world.idle("--yes").output
    assert (world.sent(), nodes.runs) == (0, [])


@pytest.mark.parametrize("arguments", [["--act", "--hours", "3"], ["--check"], ["--yes"], ["--preview"]])
def test_options_that_would_mean_nothing(tmp_path: Path, arguments: list[str]) -> None:
    done = CliRunner().invoke(idle, ["--site", str(tmp_path), *arguments])
    assert done.exit_code == 2
    assert "--act" in done.output
