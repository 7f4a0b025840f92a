"""Reconciling: what systemd is told, that a second run tells nothing, and what the proof makes of it."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants, proof, reconcile, tried
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant

from tests.support.gated_host import GatedHost, gated_host

ONE = Grant("a1", "minji", 20000, ["0"], 1000, 2000, "root@nas")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedHost:
    return gated_host(tmp_path, monkeypatch)


def test_everybody_is_closed_and_the_granted_have_theirs(host: GatedHost, tmp_path: Path) -> None:
    grants.write(ONE, host.places.state)
    outcome = host.go()
    assert outcome.problems == []
    assert host.units() == {"user-20000.slice": [str(tmp_path / "gpu0")], "ssh.service": [], "user-0.slice": []}
    root = next(one for one in host.told if one[3] == "user-0.slice")
    assert "DeviceAllow=char-* rwm" in root, "root is not kept out"
    assert all(one[1:3] == ("set-property", "--runtime") for one in host.told)


def test_a_second_run_tells_nothing(host: GatedHost) -> None:
    grants.write(ONE, host.places.state)
    host.go()
    assert host.go().done == []
    assert host.told == []


def test_who_is_not_there_has_it_when_they_come(host: GatedHost, tmp_path: Path) -> None:
    grants.write(replace(ONE, uid=30000), host.places.state)
    host.go()
    assert host.units()["user-30000.slice"] == [str(tmp_path / "gpu0")]


def test_at_its_end_it_is_closed_and_forgotten(host: GatedHost) -> None:
    grants.write(ONE, host.places.state)
    host.go()
    outcome = host.go(2000)
    assert host.units() == {"user-20000.slice": []}
    assert outcome.done[0] == "the grant a1 of minji has ended"
    assert grants.read(host.places.state) == ([], [])
    host.go(1500)
    assert host.units() == {}, "a clock that is put back opens nothing"


def test_a_clock_before_its_beginning_closes_it(host: GatedHost) -> None:
    grants.write(ONE, host.places.state)
    host.go()
    host.go(10)
    assert host.units() == {"user-20000.slice": []}


def test_what_systemd_lost_is_told_again(host: GatedHost) -> None:
    host.go()
    (Path(host.places.control) / "ssh.service.d/50-DeviceAllow.conf").unlink()
    host.go()
    assert list(host.units()) == ["ssh.service"]


def test_a_driver_that_was_loaded_later_has_everybody_told_again(host: GatedHost, tmp_path: Path) -> None:
    """Systemd makes numbers of names when it is told: what is not there yet is left out."""
    grants.write(ONE, host.places.state)
    host.go()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/devices").write_text("Character devices:\n195 nvidia\n")
    host.go()
    assert host.units()["user-20000.slice"] == [str(tmp_path / "gpu0")]
    host.go()
    assert host.told == []


def test_a_gate_that_somebody_opened_is_closed_again(host: GatedHost) -> None:
    host.go()
    del host.allow["ssh.service"]
    outcome = host.go()
    assert list(host.units()) == ["ssh.service"]
    assert outcome.problems == []


def test_what_stays_wrong_is_told_each_time_and_kept_for_others(host: GatedHost, tmp_path: Path) -> None:
    host.lies = [str(tmp_path / "gpu1")]
    host.go()
    host.go()
    assert {"user-20000.slice", "ssh.service"} <= set(host.units())
    found = json.loads((tmp_path / "run" / tried.RECORD).read_text())
    assert f"ssh.service: {tmp_path / 'gpu1'} can be opened, and is not granted" in found["problems"]
    host.lies = []
    host.go()
    assert json.loads((tmp_path / "run" / tried.RECORD).read_text())["problems"] == []


def test_who_can_open_what_is_kept_for_others(host: GatedHost, tmp_path: Path) -> None:
    grants.write(ONE, host.places.state)
    host.go()
    found = json.loads((tmp_path / "run" / tried.RECORD).read_text())
    assert found["opened"] == {"user-20000.slice": [str(tmp_path / "gpu0")]}


def test_an_instance_that_has_ended_is_forgotten(host: GatedHost) -> None:
    host.units_there += "ssh@1.service loaded active running\n"
    host.go()
    drop_in = Path(host.places.control) / "ssh@1.service.d/50-DeviceAllow.conf"
    assert drop_in.exists()
    host.units_there = host.units_there.replace("ssh@1.service loaded active running\n", "")
    host.go()
    assert host.told == []
    assert not drop_in.exists()


def test_a_kill_between_two_units_is_made_good(host: GatedHost) -> None:
    host.go()
    (Path(host.places.run) / reconcile.APPLIED).write_text("{")
    host.go()
    assert set(host.units()) == {"user-20000.slice", "ssh.service", "user-0.slice"}


def test_what_systemd_refuses_is_a_problem_and_told_again(host: GatedHost) -> None:
    host.refuses = "ssh.service"
    (problem, *_) = host.go().problems
    assert problem == "ssh.service: its list of devices could not be set: No such property"
    host.refuses = ""
    assert host.go().problems == []
    assert list(host.units()) == ["ssh.service"]


def test_a_gate_that_is_said_and_not_there_is_a_problem(host: GatedHost, tmp_path: Path) -> None:
    host.lies = [str(tmp_path / "gpu1")]
    problems = host.go().problems
    assert f"user-20000.slice: {tmp_path / 'gpu1'} can be opened, and is not granted" in problems
    assert reconcile.main(host.places) == 1


def test_a_cgroup_in_which_nobody_is_says_nothing(host: GatedHost, tmp_path: Path) -> None:
    """A slice that has ended can leave its cgroup, without the list: whoever logs in next is in one with the list."""
    host.lies = [str(tmp_path / "gpu1")]
    events = tmp_path / "cgroups/user.slice/user-20000.slice/cgroup.events"
    events.write_text("populated 0\nfrozen 0\n")
    assert not [one for one in host.go().problems if one.startswith("user-20000.slice")]
    events.write_text("populated 1\nfrozen 0\n")
    assert [one for one in host.go().problems if one.startswith("user-20000.slice")]


def test_a_slice_that_ends_while_it_is_tried_says_nothing(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = iter([True, False])
    monkeypatch.setattr(proof, "populated", lambda cgroup: next(answers) if cgroup.endswith("slice") else True)
    monkeypatch.setattr(proof, "opens", lambda cgroup, paths: list(paths) if cgroup.endswith("slice") else [])
    assert host.go().problems == []


def test_a_grant_that_does_not_open_is_a_problem(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    grants.write(ONE, host.places.state)
    monkeypatch.setattr(proof, "opens", lambda cgroup, paths: [])
    assert host.go().problems == [f"user-20000.slice: {tmp_path / 'gpu0'} is granted, and cannot be opened"]


def test_an_admin_who_is_kept_out_is_a_problem(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cgroups/user.slice/user-0.slice").mkdir()
    monkeypatch.setattr(proof, "opens", lambda cgroup, paths: [])
    assert f"user-0.slice: {tmp_path / 'gpu0'} is granted, and cannot be opened" in host.go().problems


def test_what_cannot_be_tried_is_a_problem(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(cgroup: str, paths: Sequence[str]) -> list[str]:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(proof, "opens", refused)
    assert any("could not be tried" in one for one in host.go().problems)


def test_without_settings_it_is_opened_again_and_nothing_hides_it(host: GatedHost) -> None:
    host.go()
    Path(host.places.settings).unlink()
    host.go()
    assert all("DeviceAllow=char-* rwm" in one for one in host.told)
    assert set(host.units()) >= {"user-20000.slice", "ssh.service"}
    assert list(Path(host.places.control).glob("*/50-Device*.conf")) == []
    host.go()
    assert host.told == [] or all("DeviceAllow=char-* rwm" in one for one in host.told)


def test_a_host_that_never_had_a_gate_is_not_touched(host: GatedHost) -> None:
    Path(host.places.settings).unlink()
    host.go()
    assert host.told == []


def test_settings_that_cannot_be_read_change_nothing(host: GatedHost) -> None:
    Path(host.places.settings).write_text("{")
    with pytest.raises(NodeError, match="is damaged"):
        host.go()
    assert host.told == []
