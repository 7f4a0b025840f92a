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
    "problem": "", "closed": {}, "written": [], "renamed": {}, "kept": {}, "staying": [], "rest": False,
    "trees": {"/": {"minji": [3, 4096]}},
}  # fmt: skip
RIGHT: dict[str, Any] = {**LOOK, "has": {"minji": 20000}, "people": {}, "trees": {}}


class Hosts:
    """What the hosts answer to each step, and in which order they were asked what."""

    def __init__(self, **looks: dict[str, Any] | None) -> None:
        self.looks = {"storage1": RIGHT, "node1": LOOK, "node2": RIGHT, **looks}
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.fails: dict[str, set[str]] = {}
        self.kept: dict[str, dict[str, Any]] = {}  # what a host says after a boot in which a file did not change hands
        self.people: list[str] = []  # who is on each host
        self.documents: dict[tuple[str, str], dict[str, Any]] = {}  # the last of each step and host
        self.more_seconds: list[int] = []  # that boots have, beside what the inventory says
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
        self.documents |= {(one["step"], host): one for host, one in documents.items()}
        step = " and ".join(sorted({one["step"] for one in documents.values()}))
        self.asked.append((step if not invocation.check or step == "look" else f"{step} (check)", tuple(documents)))
        found = {}
        for host in documents:
            if step == "look":
                answer = self.looks[host]
                found[host] = HostResult("unreachable", message="is off") if answer is None else HostResult(
                    "ok", reports={"renumber": answer}
                )  # fmt: skip
            elif documents[host]["step"] == "open" and not (self.looks[host] or LOOK)["whole"]:
                found[host] = HostResult("failed", message="has not ended renumbering: run it again")
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
        assert "power_reboot_timeout" not in invocation.variables, "an inventory may set it"
        self.more_seconds.append(invocation.variables["gpuadmin_more_seconds"])
        for name in names if step == "switch" else ():
            answer = self.looks[name] or LOOK
            failed = name in self.fails.get("boot", ())
            done = {"whole": not failed, "problem": "Input/output error" if failed else "", **self.kept.get(name, {})}
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
        ("give-up and open", ALL),
    ], "kept out everywhere, and booted where ids change"  # fmt: skip
    assert ("open", "node1") in hosts.documents
    assert ("open", "node2") not in hosts.documents, "nothing to wait for there"
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


@pytest.mark.holds("nobody is let in on one host whose uid a file of another still has")
def test_who_has_a_file_that_did_not_change_hands_stays_out_and_the_others_are_let_in(hosts: Hosts, cli: Cli) -> None:
    """On all hosts, and so does whoever is to have the uid that the file still has."""
    hosts.looks["storage1"] = LOOK
    hosts.kept["storage1"] = {"kept": {"minji": "/srv: 'minji/x' Input/output error"}, "staying": [20001]}
    code, out, err = cli("renumber", "--yes")
    words = " ".join((out + err).split())
    assert code != 0
    assert {host: hosts.documents["open", host]["keep"] for host in ALL} == {host: ["jiho", "minji"] for host in ALL}
    assert "minji stays locked out: /srv: 'minji/x' Input/output error" in words
    assert "jiho, minji stay locked out until then, everybody else is in" in words


@pytest.mark.parametrize("lies", [False, True])
def test_who_stays_out_is_said_where_no_host_boots(hosts: Hosts, cli: Cli, lies: bool) -> None:
    """The run before ended between the boot and letting people in, or a host says of nobody why they stay out."""
    done = {**LOOK, "under_way": True, "whole": True}
    kept = {} if lies else {"minji": "/srv: 'minji/x' Input/output error"}
    hosts.looks |= dict.fromkeys(ALL, done) | {"storage1": {**done, "kept": kept, "staying": [20001]}}
    code, out, err = cli("renumber", "--yes")
    words = " ".join((out + err).split())
    assert code != 0
    assert steps(hosts) == ["look", "open"]
    assert ("minji stays locked out: /srv: 'minji/x' Input/output error" in words) is not lies
    assert "jiho stays locked out: a file still has id 20001, which is to be theirs" in words
    assert ("storage1 keep minji locked out" in words) is not lies
    assert "open again minji" not in words or lies
    who = "jiho stays" if lies else "jiho, minji stay"
    assert f"mend that, and run it again: {who} locked out until then" in words


@pytest.mark.holds("nobody is renumbered on the other hosts alone while one waits for some of an earlier plan")
def test_the_last_of_a_plan_go_on_alone(hosts: Hosts, cli: Cli) -> None:
    """The one host boots again on which files are left, and nobody else is begun."""
    rest = {"under_way": True, "rest": True, "has": {"minji": 20000}, "people": {"minji": [20000, 20000]}}
    hosts.looks["node1"] = {**RIGHT, **rest, "problem": "minji: /local: 'x' Input/output error"}
    hosts.looks["storage1"] = {**RIGHT, **rest, "whole": True}
    assert cli("renumber", "--check")[0] == 0
    assert {one["name"] for one in hosts.documents["look", "node2"]["people"]} == {"minji"}
    code, out, err = cli("renumber", "--yes")
    assert code == 0, err
    assert "run it again for anybody else" in " ".join((out + err).split())
    assert [one for one in hosts.asked if one[0] == "switch"] == [("switch", ("node1",))]


@pytest.mark.holds("who could not be let in is not said to be let in")
def test_who_could_not_be_let_in_is_said_to_be_out(hosts: Hosts, cli: Cli) -> None:
    hosts.fails |= {step: {"node2"} for step in ("open", "give-up", "give-up and open")}
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


@pytest.mark.parametrize("under_way", [False, True])
def test_a_boot_has_more_time_by_the_files_that_it_goes_through(hosts: Hosts, cli: Cli, under_way: bool) -> None:
    hosts.looks["node1"] = {**LOOK, "seen": 4_000_000, "under_way": under_way}
    assert cli("renumber", "--yes")[0] == 0
    assert set(hosts.more_seconds) == {2000}


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
    assert steps(hosts) == ["look", "look", "close", "arm", "switch", "look", "give-up and open"]
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
    queue.jobs = [["minji", "minji", "jiho"]] * 3
    for options in (["--yes"], ["--check"]):
        queue.asked.clear()
        code, out, err = cli("renumber", *options)
        assert code != 0
        words = " ".join((out + err).split())
        assert words.count("has 2 jobs in the queue: cancel them (scancel -u minji)") == 1, "once"
        assert [step for step, _ in queue.asked] == ["look", "queue"]
    assert "cancel them" in json.loads(cli("renumber", "--check", "--json")[1])["result"]["error"]


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


def renamed(was: str = "Min.Ji", *homes: list[str], **more: Any) -> dict[str, Any]:
    """What a host says where minji has another name, and the uid of users.yml."""
    names = {"minji": {"was": was, "homes": list(homes), "left": []}}
    return {**RIGHT, "people": {"minji": [20000, 20000]}, "renamed": names, **more}


HOME = ["/srv/storage/homes/Min.Ji", "/srv/storage/homes/minji"]


@pytest.fixture
def grown(hosts: Hosts) -> Hosts:
    hosts.looks |= {"storage1": renamed("Min.Ji", HOME), "node1": renamed()}
    return hosts


def test_homes_get_other_names_on_the_host_that_serves_them(grown: Hosts, ansible: Ansible, cli: Cli) -> None:
    """Which is not the first storage host where homes.server names another."""
    assert ansible.site is not None
    inventory, settings = ansible.site / "inventory/hosts.yml", ansible.site / "gpuadmin.yml"
    inventory.write_text(inventory.read_text().replace("storage1:", "storage0:\n        storage1:"))
    settings.write_text(settings.read_text().replace("\nhomes:\n", "\nhomes:\n  server: storage1\n"))
    grown.looks["storage0"] = RIGHT
    code, _, err = cli("renumber", "--rename", "Min.Ji=minji", "--yes")
    assert code == 0, err
    assert {host: grown.documents["close", host]["homes"] for host in ("storage0", *ALL)} == {
        "storage0": "", "node1": "", "node2": "", "storage1": "/srv/storage/homes"
    }  # fmt: skip


def test_who_gets_another_name(grown: Hosts, cli: Cli) -> None:
    code, out, err = cli("renumber", "--rename", "Min.Ji=minji", "--yes")
    assert code == 0, err
    words = " ".join((out + err).split())
    assert f"minji: Min.Ji becomes minji; home {HOME[0]} becomes {HOME[1]}" in words
    assert "become 20000" not in words, "their uid stays"
    assert "all hosts agree" not in words
    assert grown.asked[:2] == [("look", ALL), ("close", ALL)]
    assert steps(grown)[-1] == "open"
    look = grown.documents["look", "storage1"]
    assert look["homes"] == "", "after the boot it is asked how far it is, and no more"
    closing = {host: grown.documents["close", host] for host in ALL}
    assert {host: one["homes"] for host, one in closing.items()} == {
        "storage1": "/srv/storage/homes", "node1": "", "node2": ""
    }  # fmt: skip
    assert {host: (one["people"][0]["was"], one["people"][0]["home_moves"]) for host, one in closing.items()} == {
        "storage1": ("Min.Ji", True), "node1": ("Min.Ji", True), "node2": ("", True)
    }  # fmt: skip


def test_a_uid_and_a_name_change_at_once(grown: Hosts, cli: Cli) -> None:
    grown.looks["node1"] = renamed(has={"minji": 1001}, people={"minji": [1001, 20000]})
    code, out, err = cli("renumber", "--rename", "Min.Ji=minji", "--check")
    assert code == 0, err
    words = " ".join((out + err).split())
    assert "minji: Min.Ji becomes minji; uid and gid 1001 become 20000; no files" in words


@pytest.mark.holds("no two people become one", "nobody becomes two people", "protected people are refused",
                   "who is in users.yml by that name keeps it")  # fmt: skip
@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["j.doe"], "give OLD=NEW"),
        (["*=minji"], "give OLD=NEW"),
        (["a/b=minji"], "give OLD=NEW"),
        (["minji=minji"], "give OLD=NEW"),
        (["j.doe=jdoe"], "not registered: 'jdoe'"),
        (["Min.Ji=minji", "M=minji"], "both 'Min.Ji' and 'M' would become 'minji'"),
        (["M=minji", "M=jiho"], "'M' would become both 'minji' and 'jiho'"),
        (["jiho=minji"], "'jiho' is in users.yml, as somebody else"),
        (["old=minji"], "'old' is in users.yml, as somebody else"),
        (["root=minji"], "'root' is protected"),
        (["gpuadmin=minji"], "'gpuadmin' is protected"),
    ],
)
def test_names_that_are_refused_before_a_host_is_asked(hosts: Hosts, cli: Cli, given: list[str], words: str) -> None:
    code, _, err = cli("renumber", "--yes", *(word for one in given for word in ("--rename", one)))
    assert code != 0
    assert words in " ".join(err.split())
    assert hosts.asked == []


@pytest.mark.holds("a name that nobody has is said", "a host says of nobody else that they get another name")
def test_a_name_that_no_host_has(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node2"] = renamed("somebody.else")
    code, _, err = cli("renumber", "--rename", "Min.Ji=minji", "--yes")
    assert code != 0
    assert "no host has an account 'Min.Ji'" in " ".join(err.split())
    assert steps(hosts) == ["look"]


def test_a_name_that_a_host_refuses(grown: Hosts, cli: Cli) -> None:
    grown.looks["node2"] = {**RIGHT, "problems": {"minji": "both 'Min.Ji' and 'minji' have an account here"}}
    code, out, _ = cli("renumber", "--rename", "Min.Ji=minji", "--yes")
    assert code != 0
    assert "minji is left alone: node2: both 'Min.Ji' and 'minji' have an account here" in " ".join(out.split())
    assert steps(grown) == ["look"]


@pytest.mark.holds("what was begun for somebody is brought to its end on all hosts, whatever was asked for since")
def test_a_name_that_was_begun_on_one_host_changes_on_all(grown: Hosts, cli: Cli) -> None:
    """The run was killed when the storage host was done; now nobody says --rename."""
    grown.looks["storage1"] = renamed("Min.Ji", HOME, under_way=True, whole=True)
    code, _, err = cli("renumber", "--yes")
    assert code == 0, err
    assert steps(grown)[:3] == ["look", "look", "close"]
    assert grown.documents["close", "node1"]["people"][0]["was"] == "Min.Ji"
    assert set(grown.asked[-1][1]) == set(ALL)


def test_jobs_of_the_old_name_are_in_the_way(queue: Hosts, cli: Cli) -> None:
    queue.looks |= {"storage1": renamed("Min.Ji", HOME), "node1": renamed()}
    queue.jobs = [["Min.Ji", "minji", "jiho"], []]
    code, out, _ = cli("renumber", "--rename", "Min.Ji=minji", "--yes")
    assert code != 0
    assert "has 2 jobs in the queue: cancel them (scancel -u Min.Ji,minji)" in " ".join(out.split())
    queue.jobs = [[], []]
    code, out, err = cli("renumber", "--rename", "Min.Ji=minji", "--check")
    assert code == 0, err
    assert "Slurm cannot rename Min.Ji: associations and past jobs keep the old name" in " ".join((out + err).split())


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
