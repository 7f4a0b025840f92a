"""Every host that a verb is for is in its result; one whose turn did not come was not done."""

from pathlib import Path

import pytest
import yaml

from gpuadmin.ansible.playbooks import read_groups
from gpuadmin.answers import Answers
from gpuadmin.config.groups import GROUPS
from gpuadmin.content import content_path
from gpuadmin.errors import ExitCode
from gpuadmin.results import BY_KEY, DENIED, OTHER_KEY, UNPINNED, UNRESOLVED, HostResult, RunResult, way_out, with_all

AWAY = HostResult("unreachable", message="does not answer (timed out)")


def test_a_host_whose_turn_did_not_come_is_a_row_with_its_reason() -> None:
    run = with_all(RunResult({"storage1": AWAY}), ["storage1", "node1"])
    assert run.hosts["storage1"] is AWAY
    assert run.hosts["node1"] == HostResult("not run", message="nothing was done there: the run ended after storage1")
    assert run.code == ExitCode.HOST_UNREACHABLE
    assert set(run.bad) == {"storage1", "node1"}


def test_a_run_that_did_nothing_is_not_a_success() -> None:
    run = with_all(RunResult({}), ["node1"])
    assert (run.code, run.bad) == (ExitCode.HOST_UNREACHABLE, {"node1": "the run did nothing there"})


@pytest.mark.parametrize(
    ("run", "code"),
    [
        (RunResult({"node1": HostResult("failed")}), ExitCode.HOST_FAILED),
        (RunResult({}, error="no such role"), ExitCode.ERROR),
        (RunResult({"node1": HostResult("ok")}, interrupted=True), ExitCode.INTERRUPTED),
        (RunResult({"node1": HostResult("ok"), "node2": HostResult("skipped")}), ExitCode.DONE),
    ],
)
def test_the_reason_of_a_run_comes_before_who_was_left_out(run: RunResult, code: ExitCode) -> None:
    assert with_all(run, ["node1", "node2"]).code == code


def test_of_whom_nothing_was_heard_when_it_was_interrupted_did_not_answer() -> None:
    run = with_all(RunResult({"node1": HostResult(), "node2": HostResult("ok")}, interrupted=True), ["node1", "node2"])
    assert run.bad == {"node1": "interrupted before it answered"}


def test_its_answer_is_unknown_and_it_did_not_fail() -> None:
    run = with_all(RunResult({"storage1": AWAY}), ["storage1", "node1"])
    answers = Answers.of(run.hosts, ["storage1", "node1"], "node")
    assert set(answers.unknown) == {"storage1", "node1"}
    assert answers.code == ExitCode.HOST_UNREACHABLE


NO = HostResult("failed", message="there is no such backup", refused=True)
LATE = HostResult("not run")


@pytest.mark.parametrize(
    ("run", "refused"),
    [
        (RunResult({"storage1": NO}), True),
        (RunResult({"storage1": NO, "storage2": NO, "node1": LATE}), True),
        (RunResult({"storage1": NO}, interrupted=True), False),
        (RunResult({"storage1": NO, "storage2": HostResult("failed")}), False),
        (RunResult({"storage1": NO, "storage2": AWAY}), False),
        (RunResult({"storage1": NO, "storage2": HostResult("interrupted")}), False),
        (RunResult({"storage1": HostResult("failed", ["restore minji"], refused=True)}), False),
        (RunResult({"node1": LATE}), False),
        (RunResult({}), False),
    ],
)
def test_nothing_was_begun_only_where_every_host_says_so(run: RunResult, refused: bool) -> None:
    assert run.refused is refused


PLAYBOOKS = sorted(content_path("playbooks").glob("*.yml"))


@pytest.mark.parametrize(
    ("why", "way"),
    [
        (UNPINNED, "gpuadmin trust --all"),
        (OTHER_KEY, "gpuadmin trust --replace n1 n2"),
        (DENIED, "gpuadmin check tries the admin's key; one that a host lacks: gpuadmin bootstrap n1 n2 --as USER"),
        (f"{BY_KEY} /k of this machine is open to others", "gpuadmin check says what to do about the key"),
        (UNRESOLVED, "correct the name in inventory/, or give ansible_host there"),
        ("does not answer (timed out)", None),
    ],
)
def test_what_waiting_does_not_mend_has_its_own_way_out(why: str, way: str | None) -> None:
    found = way_out({"n1": why, "n2": why, "n3": "cannot be reached over the network"})
    assert found == way if way is None else way in str(found)


def groups_named(playbook: Path) -> list[str]:
    """The groups of each play, of playbooks that it imports, too."""
    found: list[str] = []
    for play in yaml.safe_load(playbook.read_text()):
        other = play.get("ansible.builtin.import_playbook")
        found += groups_named(playbook.with_name(other)) if other else [play["hosts"]]
    return found


@pytest.mark.parametrize("playbook", PLAYBOOKS, ids=lambda path: path.stem)
def test_all_plays_of_a_playbook_are_for_the_same_groups_of_a_site(playbook: Path) -> None:
    """If no host of a play answers, the next play is not begun: docs/decisions/0011. So each has all of the hosts."""
    assert len(set(groups_named(playbook))) == 1
    assert set(read_groups(playbook.stem)) <= set(GROUPS)
    assert read_groups(playbook)


@pytest.mark.holds("of two runs neither interruption is forgotten")
@pytest.mark.parametrize(("first", "second"), [(True, False), (False, True)])
def test_two_runs_as_one(first: bool, second: bool) -> None:
    one = RunResult({"node1": HostResult("failed"), "node2": HostResult("ok")}, first, "e" if first else None)
    both = one.then(RunResult({"node2": HostResult("changed")}, second))
    assert {name: host.status for name, host in both.hosts.items()} == {"node1": "failed", "node2": "changed"}
    assert (both.interrupted, both.error) == (True, "e" if first else None)
