"""gpuadmin move-homes, from the command line to what hosts are asked, in which order, and what stops it."""

import json
from typing import Any

import pytest

from gpuadmin.ansible.invocation import Invocation
from gpuadmin.results import HostResult, RunResult
from tests.support.fake_ansible import Ansible, Cli, ansible, answered_by

__all__ = ["ansible"]
KEY = "ssh-ed25519 " + "A" * 68
HOME: dict[str, Any] = {
    "device": 1, "inode": 7, "files": 2, "bytes": 9, "entries": 3, "before": [], "odd": [],
}  # fmt: skip
LOOK: dict[str, Any] = {
    "uids": {"minji": 20000}, "elsewhere": {}, "busy": {}, "closed": [], "working": False,
    "host_key": KEY, "homes": {}, "problems": {},
    "free": 10**9, "there": {}, "parts": [], "note": "", "no_login": "", "reached": {},
}  # fmt: skip
HAS = {**LOOK, "homes": {"minji": HOME}}
PART: dict[str, Any] = {
    "name": "minji", "uid": 20000, "host": "node1", "main": True, "there": False, "device": 1, "inode": 7,
    "step": "aside", "checksum": "c", "files": 2, "bytes": 9, "placed": True,
}  # fmt: skip


class Hosts:
    """What the hosts answer to each step, and in which order they were asked what."""

    def __init__(self) -> None:
        self.looks: dict[str, dict[str, Any] | None] = {"storage1": LOOK, "node1": HAS, "node2": HAS}
        self.asked: list[tuple[str, tuple[str, ...]]] = []
        self.documents: list[dict[str, Any]] = []
        self.opened: list[list[str]] = []
        self.fails: dict[str, set[str]] = {}
        self.problems: dict[str, dict[str, str]] = {}  # step → person → why
        self.slow: set[str] = set()  # whose homes come last, and alone
        self.interrupted = ""  # in which step
        self.still: set[str] = set()  # who is kept out after a host has let them in
        self.compared: dict[str, Any] = {"parts": [{"name": "minji", "host": "node1", "missing": 0}], "problems": {}}

    def run(self, invocation: Invocation, **_: object) -> RunResult:
        documents = invocation.variables["gpuadmin_move_homes"]
        steps = sorted({one["step"] for one in documents.values()})
        step = " ".join(steps)
        looks = step in ("look", "compare")
        self.asked.append((step if not invocation.check or looks else f"{step} (check)", tuple(sorted(documents))))
        self.documents.append(documents)
        found = {}
        for host, document in documents.items():
            if step == "look":
                answer = self.looks[host]
                found[host] = HostResult("unreachable", message="is off") if answer is None else HostResult(
                    "ok", reports={"moving": answer}
                )  # fmt: skip
            elif step == "compare":
                found[host] = HostResult("ok", reports={"moved": self.compared})
            elif document["step"] == "open" and host not in self.fails.get("open", ()):
                self.opened.append([one["name"] for one in document["people"]])
                found[host] = HostResult("changed", changed=[step], reports={
                    "moved": {"parts": [], "problems": {}, "closed": sorted(self.still)}
                })  # fmt: skip
            elif host in self.fails.get(document["step"], ()):
                found[host] = HostResult("failed", message="broken")
            else:
                found[host] = HostResult("changed", changed=[step], reports=self._reports(document))
        return RunResult(found, interrupted=step == self.interrupted)

    def _reports(self, document: dict[str, Any]) -> dict[str, Any]:
        if document["step"] == "key":
            return {"move_key": KEY}
        problems = self.problems.get(document["step"], {})
        quick = document["step"] == "take" and {one["name"] for one in document["homes"]} - self.slow
        works = bool(quick and not quick <= set(document["done"]))
        parts = [
            {"name": one["name"], "host": one["host"], "checksum": "c"}
            for one in document["homes"]
            if one["name"] not in problems and not (works and one["name"] in self.slow)
        ]  # fmt: skip
        mine = {name: why for name, why in problems.items() if name in {one["name"] for one in document["homes"]}}
        problems = mine if document["homes"] and not document["serves"] else problems
        return {"moved": {"parts": parts, "problems": problems, "working": works and bool(self.slow)}}

    @property
    def steps(self) -> list[str]:
        return [step for step, _ in self.asked]


hosts = answered_by(Hosts)


ALL = ("node1", "node2", "storage1")
WHOLE = ["look", "key", "let-in", "copy", "close", "take", "aside", "noted", "open", "drop-key let-out"]


def test_copied_closed_taken_renamed_and_opened(hosts: Hosts, cli: Cli) -> None:
    code, out, err = cli("move-homes", "minji", "--yes", "--json")
    assert code == 0, err
    assert hosts.steps == WHOLE
    assert dict(hosts.asked)["close"] == ALL, "kept out everywhere"
    assert dict(hosts.asked)["open"] == ALL
    homes = json.loads(out)["result"]["homes"]
    assert [(one["host"], one["main"], one["moved"]) for one in homes] == [
        ("node1", True, True),
        ("node2", False, True),
    ]


def test_a_check_changes_nothing(hosts: Hosts, cli: Cli) -> None:
    code, _, err = cli("move-homes", "--check")
    assert code == 0, err
    assert hosts.steps == ["look", "aside (check)"]


@pytest.mark.holds("move-homes asks before it does something")
def test_without_a_yes_nothing_is_done(hosts: Hosts, cli: Cli) -> None:
    code, _, err = cli("move-homes")
    assert code != 0
    assert "not confirmed" in err
    assert hosts.steps == ["look"]


@pytest.mark.holds("no home is moved before every host has spoken")
def test_a_host_that_is_away_stops_it(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node2"] = None
    code, _, err = cli("move-homes", "--yes")
    assert code != 0
    assert "node2 (is off)" in err
    assert hosts.steps == ["look"]


@pytest.mark.holds("nobody works in a home while it is moved, on a host that is left out")
def test_no_host_is_left_out(hosts: Hosts, cli: Cli) -> None:
    code, _, err = cli("move-homes", "--yes", "--limit", "storage1,node1")
    assert code != 0
    assert "leaves out node2" in err
    assert hosts.asked == []


def test_who_is_busy_is_left_and_let_in(hosts: Hosts, cli: Cli) -> None:
    hosts.problems["close"] = {"minji": "runs python3"}
    code, out, _ = cli("move-homes", "--yes", "--json")
    assert code == 3
    assert hosts.steps == ["look", "key", "let-in", "copy", "close", "open", "drop-key let-out"]
    assert "runs python3" in json.loads(out)["result"]["left"]["minji"]


@pytest.mark.holds("a host that failed once has failed")
@pytest.mark.holds("nobody is let in between two homes")
@pytest.mark.parametrize("cut", ["take", "aside"])
def test_who_may_be_between_two_homes_stays_out(hosts: Hosts, cli: Cli, cut: str) -> None:
    hosts.fails[cut] = {"storage1"} if cut == "take" else {"node1"}
    code, _, err = cli("move-homes", "--yes")
    assert code != 0
    assert "open" not in hosts.steps
    assert "continues where it stopped" in " ".join(err.split())


def test_what_is_refused_when_it_is_taken_is_let_in(hosts: Hosts, cli: Cli) -> None:
    hosts.problems["take"] = {"minji": "differs from what is there"}
    code, _, _ = cli("move-homes", "--yes")
    assert code == 3
    assert hosts.steps[-2:] == ["open", "drop-key let-out"]
    assert "aside" not in hosts.steps


@pytest.mark.holds("who is still kept out is part of the next run")
def test_who_was_left_closed_is_part_of_the_next_run(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node1"] = {**LOOK, "closed": ["minji"]}
    hosts.looks["node2"] = LOOK
    code, _, err = cli("move-homes", "jiho", "--yes")
    assert code == 0, err
    assert hosts.steps == ["look", "look", "open", "drop-key"]


@pytest.mark.holds("nothing is begun beside a job that goes on")
def test_a_job_of_a_run_that_was_killed_ends_first(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["storage1"] = {**LOOK, "working": True}
    code, _, err = cli("move-homes", "--yes")
    assert code == 5
    assert "still at work" in " ".join(err.split())
    assert hosts.steps == ["look"]


@pytest.mark.holds("who may be fetched by a job that goes on is not let in")
def test_where_the_storage_host_does_not_answer_nobody_is_let_in(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["node1"] = {**HAS, "closed": ["minji"]}
    hosts.fails["copy"] = {"storage1"}
    code, _, _ = cli("move-homes", "--yes")
    assert code != 0
    assert "open" not in hosts.steps


def test_what_was_cut_off_is_finished(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["storage1"] = {**LOOK, "parts": [{**PART, "step": "changing"}]}
    hosts.looks["node2"] = LOOK
    code, _, err = cli("move-homes", "--yes")
    assert code == 0, err
    assert hosts.steps == ["look", "close", "aside", "noted", "open", "drop-key"]


def test_main_must_be_a_node(hosts: Hosts, cli: Cli) -> None:
    code, _, err = cli("move-homes", "--yes", "--main", "minji=storage1")
    assert code != 0
    assert "is a node" in " ".join(err.split())


@pytest.mark.holds("old homes go when that was confirmed")
def test_discarding_asks(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["storage1"] = {**LOOK, "parts": [PART]}
    code, _, err = cli("move-homes", "--discard")
    assert code != 0
    assert "not confirmed" in err
    assert hosts.steps == ["look", "compare"]


def test_discarded_where_the_storage_host_has_what_was_moved(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["storage1"] = {**LOOK, "parts": [PART]}
    code, _, err = cli("move-homes", "--discard", "--yes")
    assert code == 0, err
    assert hosts.steps == ["look", "compare", "discard", "forget"]
    assert [one["inode"] for one in hosts.documents[2]["node1"]["homes"]] == [7]


def test_what_the_storage_host_does_not_have_any_more_is_kept(hosts: Hosts, cli: Cli) -> None:
    hosts.looks["storage1"] = {**LOOK, "parts": [PART]}
    hosts.compared = {"parts": [], "problems": {"minji": "another directory"}}
    cli("move-homes", "--discard", "--yes")
    assert hosts.steps == ["look", "compare"]


def test_nobody_gets_more_than_the_site_lets_them_have(hosts: Hosts, ansible: Ansible, cli: Cli) -> None:
    large = {**LOOK, "homes": {"minji": {**HOME, "bytes": 2 * 10**9}}}
    hosts.looks.update(node1=large, node2=LOOK, storage1={**LOOK, "free": 10**12})
    assert ansible.site is not None
    settings = ansible.site / "gpuadmin.yml"
    text = settings.read_text().replace("limits:", "limits:\n  home: 1G")
    settings.write_text(text)
    for option in ("--yes", "--check"):
        code, out, err = cli("move-homes", option)
        assert code == 5, err
        assert " ".join((out + err).split()).count("may have 1.0 GB (limits.home)") == 1
    settings.write_text(text.replace("home: 1G", "home: 1G\n  people: [{names: [minji], home: 5G}]"))
    code, _, err = cli("move-homes", "--yes")
    assert code == 0, err


@pytest.mark.holds("a node says only of its own old homes that they are gone")
def test_a_node_that_says_more_is_gone_than_was_asked_makes_nobody_forgotten(
    hosts: Hosts, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosts.looks["storage1"] = {**LOOK, "parts": [PART]}
    more = {"moved": {"parts": [{"name": "minji"}, {"name": "jiho"}, {"name": "../x"}], "problems": {}}}
    monkeypatch.setattr(hosts, "_reports", lambda document: more if document["step"] == "discard" else {})
    code, _, err = cli("move-homes", "--discard", "--yes")
    assert code == 0, err
    assert [(one["name"], one["host"]) for one in hosts.documents[3]["storage1"]["homes"]] == [("minji", "node1")]


@pytest.mark.holds("who has a home in two places after a failure is not let in")
def test_who_is_between_two_homes_after_a_failure_stays_out(
    hosts: Hosts, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    reports = hosts._reports
    failed = {"moved": {"parts": [], "problems": {"minji": "no space"}, "between": ["minji"]}}
    monkeypatch.setattr(hosts, "_reports", lambda one: failed if one["step"] == "take" else reports(one))
    code, _, _ = cli("move-homes", "--yes")
    assert code == 3
    assert hosts.steps[-2:] == ["take", "drop-key let-out"]


@pytest.mark.holds("who is kept out and in users.yml no more stops nobody else")
def test_who_is_not_in_users_yml_any_more_stops_nobody_else(hosts: Hosts, cli: Cli) -> None:
    """Removed by hand after a cut; or a node only says so."""
    hosts.looks["node1"] = {**HAS, "closed": ["left-us"]}
    code, out, err = cli("move-homes", "minji", "--yes")
    assert code == 0, err
    assert hosts.steps == WHOLE
    assert "left-us has been kept out" in " ".join((out + err).split())


def two_people(hosts: Hosts) -> None:
    """minji's homes on two nodes, and jiho's on one."""
    uids = {"minji": 20000, "jiho": 20001}
    hosts.looks.update(
        node1={**LOOK, "uids": uids, "homes": {"minji": HOME, "jiho": {**HOME, "inode": 8}}},
        node2={**LOOK, "uids": uids, "homes": {"minji": HOME}},
    )


@pytest.mark.holds("nobody waits for the end of another's home")
def test_each_person_is_let_in_as_soon_as_theirs_is_done(hosts: Hosts, cli: Cli) -> None:
    two_people(hosts)
    hosts.slow = {"minji"}
    code, _, err = cli("move-homes", "--yes")
    assert code == 0, err
    each = ["take", "aside", "noted", "open"]
    assert hosts.steps == [*WHOLE[:5], *each, *each, "drop-key let-out"]
    assert [hosts.opened[0], hosts.opened[-1]] == [["jiho"], ["minji"]]
    asked = [one["storage1"] for one in hosts.documents if one.get("storage1", {}).get("step") == "take"]
    assert [one["done"] for one in asked] == [[], ["jiho"]]
    assert len({json.dumps([one["homes"], one["run_id"]]) for one in asked}) == 1, "the same job"


def test_who_is_late_is_left_and_let_in(hosts: Hosts, cli: Cli) -> None:
    two_people(hosts)
    hosts.problems["take"] = {"minji": "was not here within 120 seconds"}
    code, out, _ = cli("move-homes", "--yes", "--json")
    assert code == 3
    assert [name for names in hosts.opened[::3] for name in names] == ["jiho", "minji"]
    assert json.loads(out)["result"]["locked_out"] == []


def test_where_an_old_home_cannot_be_renamed_all_is_taken_back(
    hosts: Hosts, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """node1 has renamed hers; on node2 something is mounted there by now."""
    reports = hosts._reports
    busy = {"moved": {"parts": [], "problems": {"minji": "is a mount of its own"}}}
    seen = 0

    def answers(document: dict[str, Any]) -> dict[str, Any]:
        nonlocal seen
        seen += document["step"] == "aside"
        return busy if document["step"] == "aside" and seen == 2 else reports(document)

    monkeypatch.setattr(hosts, "_reports", answers)
    code, out, err = cli("move-homes", "--yes")
    assert code == 3
    assert hosts.steps == [*WHOLE[:7], "put-back", "take-back", "open", "drop-key let-out"]
    back = next(one for one in hosts.documents if "put-back" in {each["step"] for each in one.values()})
    assert list(back) == ["node1"]
    assert "minji is left alone: node2: is a mount of its own" in " ".join((out + err).split())


@pytest.mark.holds("nobody who is kept out is called left alone")
@pytest.mark.holds("what was set aside and is not back is not taken from the storage host")
@pytest.mark.parametrize("step", ["put-back", "take-back"])
def test_who_is_not_back_stays_out_and_is_said_to(
    hosts: Hosts, cli: Cli, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    reports, seen = hosts._reports, 0

    def answers(document: dict[str, Any]) -> dict[str, Any]:
        nonlocal seen
        seen += document["step"] == "aside"
        if (document["step"] == "aside" and seen == 2) or document["step"] == step:
            return {"moved": {"parts": [], "problems": {"minji": "cannot be renamed"}}}
        return reports(document)

    monkeypatch.setattr(hosts, "_reports", answers)
    code, out, err = cli("move-homes", "--yes")
    assert code == 3
    assert hosts.opened == []
    assert ("take-back" in hosts.steps) is (step == "take-back")
    assert "minji stays locked out: " in " ".join((out + err).split())


@pytest.mark.holds("what a host has not said may have been done")
def test_what_a_node_did_not_say_is_not_taken_back(hosts: Hosts, cli: Cli) -> None:
    hosts.fails["aside"] = {"node1"}
    code, out, err = cli("move-homes", "--yes")
    assert code == 3
    assert not {"put-back", "take-back", "open"} & set(hosts.steps)
    assert "minji stays locked out: node1: it did not say" in " ".join((out + err).split())


@pytest.mark.holds("who is said to be let in is let in on every host")
@pytest.mark.parametrize("what", ["a host says so", "a host fails"])
def test_who_is_still_kept_out_somewhere_is_said_to_be(hosts: Hosts, cli: Cli, what: str) -> None:
    if what == "a host fails":
        hosts.fails["open"] = {"node2"}
    else:
        hosts.still = {"minji"}
    code, out, err = cli("move-homes", "--yes", "--json")
    assert code == 3
    assert json.loads(out)["result"]["locked_out"] == ["minji"]
    assert "minji stays locked out on all hosts" in " ".join((out + err).split())


def test_the_end_says_where_they_cannot_log_in_yet(hosts: Hosts, cli: Cli) -> None:
    _, out, err = cli("move-homes", "--yes")
    said = " ".join((out + err).split())
    assert "afterwards: no home on node1" in said
    assert "minji: no home on node2, and no log-in by a key in it, until gpuadmin provision mounts" in said


@pytest.mark.parametrize(
    ("step", "opened", "named"),
    [("copy", False, ""), ("close", True, ""), ("take", False, "minji stays locked out on all hosts"),
     ("aside", True, ""), ("open", True, "minji stays locked out on all hosts")],
)  # fmt: skip
def test_after_ctrl_c_everybody_is_let_in_or_named(hosts: Hosts, cli: Cli, step: str, opened: bool, named: str) -> None:
    """Whoever may be between two homes, or is worked on by a job that goes on, is named."""
    hosts.interrupted = step
    code, out, err = cli("move-homes", "--yes")
    assert code == 130
    assert ("open" in hosts.steps) is opened
    assert hosts.steps[-1] == ("open" if opened else step)
    said = " ".join((out + err).split())
    assert ("locked out" in said) is bool(named)
    assert named in said
