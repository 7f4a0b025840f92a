"""gpuadmin renumber, from the command line to what hosts are asked, in which order, and what stops it."""

import json
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli, ansible, answered_by

__all__ = ["ansible"]
LOOK: dict[str, Any] = {
    "has": {"minji": 1001}, "people": {"minji": [1001, 20000]}, "problems": {}, "under_way": False, "whole": False,
    "problem": "", "closed": {}, "written": [], "trees": {"/": {"minji": [3, 4096]}},
}  # fmt: skip
RIGHT: dict[str, Any] = {**LOOK, "has": {"minji": 20000}, "people": {}, "trees": {}}


class Hosts:
    """What the hosts answer to each step, and in which order they were asked what."""

    def __init__(self, **looks: dict[str, Any] | None) -> None:
        self.looks = {"storage1": RIGHT, "node1": LOOK, "node2": RIGHT, **looks}
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.fails: dict[str, set[str]] = {}
        self.people: list[str] = []  # who is on each host
        self.jobs: list[list[str] | None] = []  # whose there are, each time that the queue is asked; None: it is away

    def run(self, invocation: Invocation, **_: object) -> RunResult:
        if invocation.playbook == "queue":
            self.asked.append(("queue", ("storage1",)))
            jobs = self.jobs.pop(0)
            if jobs is None:
                return RunResult({"storage1": HostResult("failed", message="slurmctld does not answer")})
            queue = {"jobs": [{"user": one, "nodes": "", "id": 1, "end": None} for one in jobs], "nodes": []}
            return RunResult({"storage1": HostResult("ok", reports={"queue": queue})})
        if invocation.playbook == "reboot":
            return self.power(invocation)
        documents = invocation.variables["gpuadmin_renumber"]
        step = " and ".join(sorted({one["step"] for one in documents.values()}))
        self.asked.append((step if not invocation.check or step == "look" else f"{step} (check)", tuple(documents)))
        found = {}
        for host in documents:
            if step == "look":
                answer = self.looks[host]
                found[host] = HostResult("unreachable", message="is off") if answer is None else HostResult(
                    "ok", reports={"renumber": answer}
                )  # fmt: skip
            elif host in self.fails.get(step, ()):
                found[host] = HostResult("failed", message="minji runs python3")
            else:
                found[host] = HostResult("changed", changed=["minji: uid 1001 becomes 20000"])
                if step == "arm" and not invocation.check:
                    self.looks[host] = {**(self.looks[host] or LOOK), "under_way": True}
        return RunResult(found)

    def power(self, invocation: Invocation) -> RunResult:
        names = (invocation.limit or "").split(",")
        if invocation.variables.get("gpuadmin_power_tasks") == "look":
            quiet = {"people": self.people, "clients": [], "jobs": [], "unknown": {}}
            return RunResult({name: HostResult("ok", reports={"power": quiet}) for name in names})
        step = invocation.variables["gpuadmin_power_step"]
        self.asked.append((step, tuple(names)))
        for name in names if step == "switch" else ():
            answer = self.looks[name] or LOOK
            failed = name in self.fails.get("boot", ())
            done = {"whole": not failed, "problem": "Input/output error" if failed else ""}
            self.looks[name] = {**answer, **done} if answer["under_way"] else answer
        return RunResult({name: HostResult("changed") for name in names})


hosts = answered_by(Hosts)


ALL = ("node1", "node2", "storage1")


def steps(hosts: Hosts) -> list[str]:
    return [step for step, _ in hosts.asked]


def test_looked_at_closed_and_carried_out(hosts: Hosts, cli: Cli) -> None:
    code, out, err = cli("renumber", "--yes", "--json")
    assert code == 0, err
    assert hosts.asked == [
        ("look", ALL), ("close", ALL), ("arm", ("node1",)), ("switch", ("node1",)), ("look", ("node1",)),
        ("open", ALL),
    ], "kept out everywhere, and booted where ids change"  # fmt: skip
    assert json.loads(out)["result"]["hosts"] == {"node1": {"minji": [1001, 20000]}}
    assert "all hosts agree" not in err


def test_a_check_asks_what_the_run_asks_and_changes_nothing(hosts: Hosts, cli: Cli) -> None:
    code, _, err = cli("renumber", "minji", "--check")
    assert code == 0, err
    assert [step for step, _ in hosts.asked] == ["look", "arm (check)"]


@pytest.mark.holds("renumber asks before it does something")
def test_without_a_yes_nothing_is_done(hosts: Hosts, cli: Cli) -> None:
    code, _, err = cli("renumber")
    assert code != 0
    assert "not confirmed" in err
    assert [step for step, _ in hosts.asked] == ["look"]


@pytest.mark.holds("what was closed for nothing is opened again")
def test_where_one_host_cannot_be_closed_all_are_opened_again(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["storage1"] = LOOK
    hosts.fails["close"] = {"node1"}
    code, _, err = cli("renumber", "--yes")
    assert code != 0
    assert hosts.asked[1:] == [("close", ALL), ("give-up", ALL)]
    assert "nobody was renumbered" in err


@pytest.mark.holds(
    "nobody is let in anywhere before every host is done", "no node has new ids while the storage host has the old ones"
)  # fmt: skip
def test_who_is_done_on_one_host_is_not_let_in_while_another_is_not(hosts: Hosts, cli: Cli) -> None:
    """Their new uid is somebody else's there."""
    hosts.looks["storage1"] = LOOK
    hosts.fails["boot"] = {"storage1"}
    code, out, err = cli("renumber", "--yes")
    assert code != 0
    assert steps(hosts) == ["look", "close", "release", "arm", "switch", "look", "look"], "no node boots"
    assert "Input/output error" in " ".join((out + err).split())
    assert "stay locked out until it has ended" in " ".join(err.split())
    hosts.asked.clear()
    hosts.fails.clear()
    assert cli("renumber", "--yes")[0] == 0
    assert steps(hosts) == ["look", "close", "release", "arm", "switch", "look", "arm", "switch", "look", "open"]


@pytest.mark.holds("who could not be let in is not said to be let in")
def test_who_could_not_be_let_in_is_said_to_be_out(hosts: Hosts, cli: Cli) -> None:
    hosts.fails["open"] = {"node2"}
    code, out, err = cli("renumber", "--yes")
    assert code != 0
    assert "node2" in out + err
    assert "stay locked out until it has ended" in " ".join(err.split())


@pytest.mark.holds("nobody has a home open while it changes hands")
def test_where_homes_change_hands_every_host_boots(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["storage1"] = LOOK
    code, _, err = cli("renumber", "--yes")
    assert code == 0, err
    assert hosts.asked[2:] == [
        ("release", ("node1", "node2")), ("arm", ("storage1",)), ("switch", ("storage1",)), ("look", ("storage1",)),
        ("arm", ("node1", "node2")), ("switch", ("node1", "node2")), ("look", ALL), ("open", ALL),
    ]  # fmt: skip


@pytest.mark.holds("nobody is locked out for a renumbering whose hosts cannot reboot")
def test_where_people_are_it_asks_for_force(hosts: Hosts, cli: Cli) -> None:
    hosts.people = ["sora"]
    code, _, err = cli("renumber", "--yes")
    assert code != 0
    assert "in use by sora" in err
    assert steps(hosts) == ["look"]
    assert cli("renumber", "--yes", "--force")[0] == 0


@pytest.mark.holds("nobody is renumbered before every host has spoken")
def test_a_host_that_is_away_stops_it(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node2"] = None
    code, _, err = cli("renumber", "--yes")
    assert code != 0
    assert "who has which uid is not known: node2 (is off)" in err
    assert [step for step, _ in hosts.asked] == ["look"]


@pytest.mark.holds("nobody's home changes hands while a host that uses it is left out")
def test_no_host_is_left_out(hosts: Hosts, cli: Cli) -> None:
    code, _, err = cli("renumber", "--yes", "--limit", "storage1,node1")
    assert code != 0
    assert "leaves out node2" in err
    assert hosts.asked == []
    code, _, err = cli("renumber", "--yes", "--limit", "node1,node2")
    assert code != 0, "the storage host may be in the middle"
    assert hosts.asked == []
    code, _, err = cli("renumber", "--check", "--limit", "node1")
    assert code == 0, err


def test_what_was_begun_goes_on_and_is_not_closed_again(hosts: Hosts, cli: Cli) -> None:
    hosts.looks = {host: {**look, "under_way": True} for host, look in hosts.looks.items() if look}
    hosts.looks["storage1"] = {**RIGHT, "under_way": True, "whole": True}
    code, _, err = cli("renumber", "--yes")
    assert code == 0, err
    assert hosts.asked[1:] == [
        ("arm", ("node1", "node2")), ("switch", ("node1", "node2")), ("look", ("node1", "node2")), ("open", ALL),
    ]  # fmt: skip


@pytest.fixture
def killed(hosts: Hosts) -> Hosts:
    """A run was killed when minji was closed, and before anything was changed; users.yml has their old uid again."""
    hosts.looks = {host: {**RIGHT, "closed": {"minji": [20000, 20005]}} for host in ALL}
    return hosts


def test_who_was_closed_for_nothing_is_opened_again(killed: Hosts, cli: Cli) -> None:
    code, out, err = cli("renumber", "--yes")
    assert code == 0, err
    assert killed.asked == [("look", ALL), ("give-up", ALL)]
    assert "open again minji: closed by a run that ended before it had changed anything" in " ".join(
        (out + err).split()
    )


def test_a_check_says_whom_it_would_open(killed: Hosts, cli: Cli) -> None:
    code, out, err = cli("renumber", "--check")
    assert code == 0, err
    assert "open again minji" in out + err
    assert killed.asked == [("look", ALL), ("give-up (check)", ALL)]


def test_nobody_is_opened_without_a_yes(killed: Hosts, cli: Cli) -> None:
    assert cli("renumber")[0] != 0
    assert killed.asked == [("look", ALL)]


def test_who_is_left_out_now_is_opened_and_the_others_go_on(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node2"] = {**RIGHT, "has": {"jiho": 20001}, "closed": {"jiho": [20001, 20001]}}
    code, _, err = cli("renumber", "--yes")
    assert code == 0, err
    assert hosts.asked[1:3] == [("give-up", ("node2",)), ("close", ("node1", "storage1"))]


@pytest.mark.holds("what was begun for somebody is brought to its end on all hosts, whatever was asked for since")
def test_what_was_begun_for_others_goes_on_on_all_hosts(hosts: Hosts, cli: Cli) -> None:
    """Minji's was begun on one host; now somebody asks for jiho alone."""
    hosts.looks["node1"] = {**LOOK, "under_way": True}
    code, _, err = cli("renumber", "jiho", "--yes")
    assert code == 0, err
    assert steps(hosts) == ["look", "look", "close", "arm", "switch", "look", "open"]
    assert set(hosts.asked[-1][1]) == set(ALL)


@pytest.mark.holds("nobody is let in who is renumbered on one host and cannot be on another")
def test_who_is_half_renumbered_and_in_the_way_elsewhere_is_not_opened(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node1"] = {**LOOK, "under_way": True}
    hosts.looks["node2"] = {**LOOK, "problems": {"minji": "shares uid 1001"}}
    code, _, err = cli("renumber", "--yes")
    assert code != 0
    assert "minji (node2: shares uid 1001)" in err
    assert [step for step, _ in hosts.asked] == ["look"]


@pytest.mark.holds("who is half renumbered somewhere is opened nowhere")
def test_where_something_was_begun_nobody_is_opened_because_a_host_cannot_be_closed(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node1"] = {**LOOK, "under_way": True}
    hosts.fails["close"] = {"storage1"}
    code, _, err = cli("renumber", "--yes")
    assert code != 0
    assert [step for step, _ in hosts.asked] == ["look", "close"]
    assert "stay locked out until it has ended" in " ".join(err.split())


@pytest.fixture
def queue(hosts: Hosts, ansible: Ansible) -> Hosts:
    assert ansible.site is not None
    with (ansible.site / "gpuadmin.yml").open("a") as stream:
        stream.write("slurm: {}\n")
    (ansible.site / "inventory/queue.yml").write_text("slurm: {hosts: {storage1: {}}}\n")
    return hosts


def test_who_has_jobs_in_the_queue_is_named(queue: Hosts, cli: Cli) -> None:
    queue.jobs = [["minji", "minji", "jiho"]]
    code, _, err = cli("renumber", "--yes")
    assert code != 0
    assert "has 2 jobs in the queue: cancel them (scancel -u minji)" in " ".join(err.split())
    assert [step for step, _ in queue.asked] == ["look", "queue"]


@pytest.mark.holds("where the queue does not answer nobody is renumbered")
def test_a_queue_that_does_not_answer_stops_it(queue: Hosts, cli: Cli) -> None:
    queue.jobs = [None]
    code, _, err = cli("renumber", "--yes")
    assert code != 0
    assert "whose jobs are in the queue is not known: storage1 (slurmctld does not answer)" in err
    assert [step for step, _ in queue.asked] == ["look", "queue"]


@pytest.mark.holds("who asks the queue for something while they are being closed is not renumbered")
@pytest.mark.parametrize("then", [["minji"], None])
def test_a_job_that_was_asked_for_meanwhile(queue: Hosts, cli: Cli, then: list[str] | None) -> None:
    queue.jobs = [[], [], then]
    code, _, err = cli("renumber", "--yes")
    assert code != 0
    assert [step for step, _ in queue.asked] == ["look", "queue", "queue", "close", "queue", "give-up"]
    assert ("has 1 job in the queue" if then else "slurmctld does not answer") in " ".join(err.split())


def test_nobody_in_the_queue(queue: Hosts, cli: Cli) -> None:
    queue.jobs = [["jiho"]] * 3
    code, _, err = cli("renumber", "--yes")
    assert code == 0, err


def test_files_without_an_account_are_looked_for_by_what_the_nodes_say(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["storage1"] = {**RIGHT, "has": {}}
    hosts.looks["node2"] = LOOK
    code, _, err = cli("renumber", "--yes")
    assert code == 0, err
    assert hosts.asked[:2] == [("look", ALL), ("look", ("storage1",))]


def test_nothing_to_do(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node1"] = RIGHT
    code, out, err = cli("renumber", "--yes")
    assert code == 0
    assert "Nothing to do" in out + err


def test_where_a_directory_gives_the_uids_nobody_is_renumbered(hosts: Hosts, ansible: Ansible, cli: Cli) -> None:
    assert ansible.site is not None
    path = ansible.site / "gpuadmin.yml"
    path.write_text(path.read_text().replace("source: registry", "source: directory"))
    code, _, err = cli("renumber", "--yes")
    assert code != 0
    assert "what the directory says" in " ".join(err.split())
    assert hosts.asked == []
