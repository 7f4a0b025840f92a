"""What people may open of GPUs, brought to what was granted; and grants of people who leave."""

import errno
import json
import shutil
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import operations
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Outcome
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Plan
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import gate, grants, reconcile, trials
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import gate_timer

from tests.support.gated_host import GatedHost, gated_host, read_only

pytestmark = pytest.mark.holds("what systemd refuses is told", "a gate that somebody opened is closed again")
ONE = Grant("a1", "minji", 20000, ["0"], 1000, 2000, "root@nas")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedHost:
    return gated_host(tmp_path, monkeypatch)


@pytest.mark.root
def test_everybody_is_closed_and_the_granted_have_theirs(host: GatedHost, tmp_path: Path) -> None:
    grants.write(ONE, host.places.state)
    outcome = host.go()
    assert outcome.problems == []
    assert host.units() == {"user-20000.slice": [str(tmp_path / "gpu0")], "ssh.service": [], "user-0.slice": []}
    root = next(one for one in host.told if one[3] == "user-0.slice")
    assert "DeviceAllow=char-* rwm" in root, "root is not kept out"
    assert all(one[1:3] == ("set-property", "--runtime") for one in host.told)


@pytest.mark.root
def test_a_second_run_tells_nothing(host: GatedHost) -> None:
    grants.write(ONE, host.places.state)
    host.go()
    assert host.go().done == []
    assert host.told == []


@pytest.mark.root
def test_who_is_not_there_has_it_when_they_come(host: GatedHost, tmp_path: Path) -> None:
    host.people["minji"] = 30000
    grants.write(replace(ONE, uid=30000), host.places.state)
    host.go()
    assert host.units()["user-30000.slice"] == [str(tmp_path / "gpu0")]


@pytest.mark.root
def test_at_its_end_it_is_closed_and_forgotten(host: GatedHost) -> None:
    grants.write(ONE, host.places.state)
    host.go()
    outcome = host.go(2000)
    assert host.units() == {"user-20000.slice": []}
    assert outcome.done[0] == "the grant a1 of minji has ended"
    assert grants.read(host.places.state) == ([], [])
    host.go(1500)
    assert host.units() == {}, "a clock that is put back opens nothing"


@pytest.mark.root
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


@pytest.mark.root
def test_a_driver_that_was_loaded_later_has_everybody_told_again(host: GatedHost, tmp_path: Path) -> None:
    """Systemd makes numbers of names when it is told: what is not there yet is left out."""
    grants.write(ONE, host.places.state)
    host.go()
    (tmp_path / "proc").mkdir(exist_ok=True)
    (tmp_path / "proc/devices").write_text("Character devices:\n195 nvidia\n")
    host.go()
    assert host.units()["user-20000.slice"] == [str(tmp_path / "gpu0")]
    host.go()
    assert host.told == []


@pytest.mark.root
@pytest.mark.holds("systemd is told again when a file became another device")
def test_a_gpu_that_got_another_number_has_everybody_told_again(host: GatedHost, tmp_path: Path) -> None:
    grants.write(ONE, host.places.state)
    host.go()
    gpu = tmp_path / "gpu0"
    gpu.unlink()
    gpu.symlink_to("/dev/null")
    host.go()
    assert host.units()["user-20000.slice"] == [str(gpu)]


@pytest.mark.holds("units that systemd does not list are not taken for none")
def test_units_that_systemd_does_not_list_are_not_taken_for_none(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 1, "", "Connection timed out\n")

    monkeypatch.setattr(host, "run", run)
    with pytest.raises(NodeError, match="does not say which slices there are: Connection timed out"):
        host.go()


@pytest.mark.holds("GPUs are brought to grants while nobody changes them")
def test_gpus_are_brought_to_grants_while_nobody_changes_them(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    monkeypatch.setattr(reconcile, "flocked", partial(flocked, seconds=0.1))
    with flocked(reconcile.lock_path(host.places)), pytest.raises(NodeError, match="has been held for"):
        host.go()
    assert host.told == []


JOB = replace(ONE, id="slurm-12", until=1560, source="slurm")


def slurm_says(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, listed: str, end: float
) -> None:  # fmt: skip
    """Which jobs are on this node, and when each of them ends."""
    real = host.run

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if command[0] != "timeout":
            return real(command)
        return subprocess.CompletedProcess(command, 0, listed if "listjobs" in command else f"{end:.0f}", "")

    monkeypatch.setattr(host, "run", run)


@pytest.mark.root
def test_whoever_waits_for_a_grant_does_not_wait_for_slurm(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    grants.write(JOB, host.places.state)
    slurm_says(host, monkeypatch, "No slurmstepd's found on this node\n", 9000)
    assert reconcile.under_lock(host.places, 1500, whole=False).grants == [JOB]


@pytest.mark.root
def test_a_job_opens_its_own_gpus_and_no_others(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(trials, "find_name", lambda uid: "minji")
    grants.write(JOB, host.places.state)
    slurm_says(host, monkeypatch, "JOBID\n12\n", JOB.until)
    step = "/system.slice/node1_slurmstepd.scope/job_12/step_0"
    (tmp_path / f"cgroups{step}").mkdir(parents=True)
    runs(tmp_path, 7, 20000, step)
    assert host.go().problems == [
        f"{step}: {tmp_path}/gpu1 can be opened: uid 20000 runs there, and it has no gate"
    ]  # fmt: skip


@pytest.mark.root
def test_a_job_that_goes_on_elsewhere_keeps_nothing_here(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its node was cut off, and Slurm has begun it again on another: there it ends later."""
    grants.write(JOB, host.places.state)
    slurm_says(host, monkeypatch, "JOBID\n12\n", JOB.until)
    host.go(1300)
    slurm_says(host, monkeypatch, "No slurmstepd's found on this node\n", 9000)
    assert "the grant slurm-12 of minji has ended" in host.go().done
    assert (host.units(), grants.read(host.places.state)) == ({"user-20000.slice": []}, ([], []))


@pytest.mark.root
@pytest.mark.holds("more time for one job keeps nobody else's end waiting")
def test_more_time_that_cannot_be_recorded_keeps_nobody_else_s_end_waiting(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    ends = replace(ONE, id="b2", user="jiho", uid=20001, gpus=["1"], until=1450)
    for one in (JOB, ends):
        grants.write(one, host.places.state)
    slurm_says(host, monkeypatch, "JOBID\n12\n", 9000)
    host.go(1400)
    monkeypatch.setattr(grants, "write_atomic", full)
    assert host.go().problems == ["the grant slurm-12 could not be given more time: No space left on device"]
    assert host.units() == {"user-20001.slice": []}


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
    found = json.loads((tmp_path / "run" / gate.RECORD).read_text())
    assert f"ssh.service: {tmp_path / 'gpu1'} can be opened, and is not granted" in found["problems"]
    host.lies = []
    host.go()
    assert json.loads((tmp_path / "run" / gate.RECORD).read_text())["problems"] == []


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
    assert gate_timer.main(host.places) == 1


def test_a_cgroup_in_which_nobody_is_says_nothing(host: GatedHost, tmp_path: Path) -> None:
    """A slice that has ended can leave its cgroup, without the list: whoever logs in next is in one with the list."""
    host.lies = [str(tmp_path / "gpu1")]
    events = tmp_path / "cgroups/user.slice/user-20000.slice/cgroup.events"
    events.write_text("populated 0\nfrozen 0\n")
    assert not [one for one in host.go().problems if one.startswith("user-20000.slice")]
    events.write_text("populated 1\nfrozen 0\n")
    assert [one for one in host.go().problems if one.startswith("user-20000.slice")]


@pytest.mark.holds("a unit that was left meanwhile is not wrong")
def test_a_slice_that_ends_while_it_is_tried_says_nothing(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answers = iter([True, False])
    monkeypatch.setattr(trials, "SETTLE", 0.0)  # tried once: the next trial would find nobody
    monkeypatch.setattr(trials, "populated", lambda cgroup: next(answers) if cgroup.endswith("slice") else True)
    monkeypatch.setattr(trials, "opens", lambda cgroup, paths, seconds: list(paths) if cgroup.endswith("slice") else [])
    assert host.go().problems == []


@pytest.mark.root
def test_a_grant_that_does_not_open_is_a_problem(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    grants.write(ONE, host.places.state)
    monkeypatch.setattr(trials, "opens", lambda cgroup, paths, seconds: [])
    assert host.go().problems == [f"user-20000.slice: {tmp_path / 'gpu0'} is granted, and cannot be opened"]


def test_an_admin_who_is_kept_out_is_a_problem(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "cgroups/user.slice/user-0.slice").mkdir()
    monkeypatch.setattr(trials, "opens", lambda cgroup, paths, seconds: [])
    assert f"user-0.slice: {tmp_path / 'gpu0'} is granted, and cannot be opened" in host.go().problems


def test_what_cannot_be_tried_is_a_problem(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(cgroup: str, paths: Sequence[str], seconds: float) -> list[str]:
        raise OSError(16, "Device or resource busy")

    monkeypatch.setattr(trials, "opens", refused)
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


@pytest.mark.root
def test_a_disk_that_takes_no_change_keeps_nothing_open(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has ended at once, and for good, though its file is still there."""
    grants.write(ONE, host.places.state)
    host.go()
    with monkeypatch.context() as patch:
        read_only(patch)
        outcome = host.go(2000)
        assert host.units() == {"user-20000.slice": []}
        assert "a1.json has ended and cannot be removed" in outcome.problems[0]
        assert "cannot be removed" in host.go(1500).problems[0], "the clock was put back"
        assert host.units() == {}
    assert host.go(1500).problems == []
    assert host.units() == {}
    assert list(Path(host.places.state).rglob("*.json")) == []


@pytest.mark.root
@pytest.mark.holds("a uid that became another's takes over no grant")
def test_a_uid_that_became_another_s_takes_over_nothing(host: GatedHost) -> None:
    grants.write(ONE, host.places.state)
    host.go()
    host.people.update(minji=20007, jiho=20000)
    assert host.go().done[0] == "the grant a1 of minji has ended"
    assert host.units() == {"user-20000.slice": []}
    host.people.update(minji=20000)
    host.go()
    assert host.units() == {}, "for good"


@pytest.mark.root
@pytest.mark.holds("an account that is gone leaves no grant to whoever comes")
def test_an_account_that_is_gone_leaves_nothing_open(host: GatedHost, tmp_path: Path) -> None:
    """It may be that accounts cannot be looked up now: the grant stays."""
    grants.write(ONE, host.places.state)
    host.go()
    del host.people["minji"]
    assert host.go().problems == []
    assert host.units() == {"user-20000.slice": []}
    host.people["minji"] = 20000
    host.go()
    assert host.units() == {"user-20000.slice": [str(tmp_path / "gpu0")]}


@pytest.mark.holds("a unit that cannot be told keeps no other from being told")
@pytest.mark.parametrize("error", [OSError(11, "Resource temporarily unavailable"), NodeError("no answer in 30 s")])
def test_a_unit_that_cannot_be_told_keeps_no_other_from_it(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    real = host.run

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if command[1] == "set-property" and command[3] == "ssh.service":
            raise error
        return real(command)

    monkeypatch.setattr(host, "run", run)
    problems = host.go().problems
    assert any(one.startswith("ssh.service: its list of devices could not be set: ") for one in problems)
    assert set(host.units()) == {"user-20000.slice", "user-0.slice"}


@pytest.mark.root
def test_what_closes_is_told_first(host: GatedHost) -> None:
    grants.write(ONE, host.places.state)
    grants.write(replace(ONE, id="b2", user="jiho", uid=20001, gpus=["1"], until=9000), host.places.state)
    Path(host.places.cgroups[0], "user.slice/user-20001.slice").mkdir()
    host.go()
    host.people["user5"] = 10000  # comes first by its number
    grants.write(replace(ONE, id="c3", user="user5", uid=10000, until=9000), host.places.state)
    host.go(2000)
    assert [one[3] for one in host.told] == ["user-20000.slice", "user-10000.slice"]


@pytest.mark.holds("a slice that systemd does not know and somebody is in is closed")
def test_a_slice_that_systemd_does_not_know_is_closed_and_tried(host: GatedHost, tmp_path: Path) -> None:
    (tmp_path / "cgroups/user.slice/user-20003.slice").mkdir()
    host.lies = [str(tmp_path / "gpu1")]
    assert f"user-20003.slice: {tmp_path / 'gpu1'} can be opened, and is not granted" in host.go().problems
    assert host.units()["user-20003.slice"] == []


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("not-found active running", True),
        ("loaded failed failed", True),
        ("not-found inactive dead", False),
        ("masked inactive dead", False),
    ],
)
def test_what_runs_is_closed_whatever_became_of_its_file(host: GatedHost, line: str, told: bool) -> None:
    host.units_there += f"sshd-vsock@1.service {line}\n"
    host.go()
    assert ("sshd-vsock@1.service" in host.units()) is told


def test_a_service_in_another_slice_is_tried_there(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """An admin has given it a Slice= of its own; systemd says where it is."""
    (tmp_path / "cgroups/people.slice/cron.service").mkdir(parents=True)
    host.units_there += "cron.service loaded active running\n"
    real = host.run

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if command[1] == "show":
            return subprocess.CompletedProcess(command, 0, "/people.slice/cron.service\n", "")
        return real(command)

    monkeypatch.setattr(host, "run", run)
    host.lies = [str(tmp_path / "gpu1")]
    assert f"cron.service: {tmp_path / 'gpu1'} can be opened, and is not granted" in host.go().problems


@pytest.mark.holds("who comes next is kept out, whatever root was booted")
@pytest.mark.parametrize("unit", [gate.SLICES, "ssh.service"])
def test_a_drop_in_that_is_gone_or_another_is_written_again(host: GatedHost, unit: str) -> None:
    """Who is there is closed by what was told; who comes next would be open until the next run."""
    host.go()
    path = Path(host.places.units) / f"{unit}.d" / gate.DROP_IN
    text = path.read_text()
    path.write_text(text + "DeviceAllow=char-* rwm\n")
    outcome = host.go()
    assert f"{path}: was not as it should be" in outcome.done
    assert (path.read_text(), outcome.problems) == (text, [])
    assert host.reloads == 1
    path.unlink()
    host.go()
    assert path.read_text() == text


@pytest.mark.holds("a gate that is not there is told")
def test_drop_ins_that_cannot_be_written_are_told(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    shutil.rmtree(host.places.units)
    monkeypatch.setattr(gate, "write_atomic", full)
    monkeypatch.setattr(reconcile, "_remember", lambda *_: None)
    monkeypatch.setattr(gate, "write_trial", lambda *_: None)
    assert "who comes next is not kept out: No space left on device" in host.go().problems


@pytest.mark.holds(
    "drop-ins that systemd does not read are told", "drop-ins that systemd has not read are read the next time"
)
@pytest.mark.parametrize("killed", [False, True])
def test_drop_ins_that_systemd_has_not_read_are_read_the_next_time(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch, *, killed: bool
) -> None:
    """The files are as they should be, and whoever logs in has an open slice."""
    real = host.run

    def run(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if command[1] != "daemon-reload":
            return real(command)
        assert (Path(host.places.units) / "ssh.service.d" / gate.DROP_IN).exists()
        if killed:
            raise KeyboardInterrupt
        return subprocess.CompletedProcess(command, 1, "", "Refusing to reload\n")

    shutil.rmtree(Path(host.places.units) / "ssh.service.d")
    with monkeypatch.context() as patch:
        patch.setattr(host, "run", run)
        if killed:
            with pytest.raises(KeyboardInterrupt):
                host.go()
        else:
            why = "systemd does not read its drop-ins: Refusing to reload"
            assert host.go().problems == [f"who comes next is not kept out: {why}"]
    for _ in range(2):
        assert (host.go().problems, host.reloads) == ([], 1)


def test_at_a_boot_the_gate_is_closed_before_grants_are_applied(host: GatedHost) -> None:
    """The root is another one than the gate was set up in: it has no drop-in, and the node's state has the settings."""
    shutil.rmtree(host.places.units)
    assert reconcile.close(host.places) == 0
    there = {str(path.relative_to(host.places.units)) for path in Path(host.places.units).glob("*/*")}
    assert there == set(gate.drop_ins(gate.read(host.places.settings)))
    shutil.rmtree(host.places.units)
    Path(host.places.settings).unlink()
    assert reconcile.close(host.places) == 0
    assert not Path(host.places.units).exists(), "without settings GPUs are everybody's"


def test_what_is_wrong_with_one_is_said_of_no_other(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd needs a moment for each; the first one never gets there, and takes nobody else's time."""
    asked: dict[str, int] = {}

    def opens(cgroup: str, paths: Sequence[str], seconds: float) -> list[str]:
        unit = Path(cgroup).name
        asked[unit] = asked.get(unit, 0) + 1
        return list(paths) if unit == "ssh.service" or asked[unit] == 1 else []

    monkeypatch.setattr(trials, "opens", opens)
    assert {one.partition(":")[0] for one in host.go().problems} == {"ssh.service"}


@pytest.mark.holds("what there was no time to try is not closed")
def test_trials_that_hang_end_and_what_was_not_tried_is_not_closed(
    host: GatedHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hangs(cgroup: str, paths: Sequence[str], seconds: float) -> list[str]:
        time.sleep(seconds)  # as it would
        raise OSError(0, f"no answer in {seconds:.0f} s")

    monkeypatch.setattr(trials, "opens", hangs)
    monkeypatch.setattr(reconcile, "TRIALS", 0.3)
    monkeypatch.setattr(trials, "PATIENCE", 0.2)
    began = time.monotonic()
    problems = host.go().problems
    assert time.monotonic() - began < 2
    assert len(problems) == 2
    assert problems[-1].endswith("was not tried: the trials of others took too long")


@pytest.mark.holds("where people run and no gate is, it is told")
def test_where_people_run_outside_of_every_gate_it_is_told(
    host: GatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something that nobody thought of starts programs for people."""
    monkeypatch.setattr(trials, "find_name", lambda uid: "minji")
    unit = tmp_path / "cgroups/system.slice/hub-minji.service"
    unit.mkdir(parents=True)
    runs(tmp_path, 7, 20000, "/system.slice/hub-minji.service")
    runs(tmp_path, 8, 20000, "/user.slice/user-20000.slice/session-1.scope")
    (problem, _) = host.go().problems
    assert problem == (
        f"/system.slice/hub-minji.service: {tmp_path}/gpu0 can be opened: uid 20000 runs there, and it has no gate"
    )
    assert gate.problems(str(tmp_path)) != []
    host.allow["hub-minji.service"] = []
    assert host.go().problems == [], "it has one of its own"


@pytest.mark.holds("where it cannot be tried whether people are kept out, it is told")
def test_where_it_cannot_be_tried_outside_of_every_gate_it_is_told(
    host: GatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opens(cgroup: str, paths: Sequence[str], seconds: float) -> list[str]:
        if cgroup.endswith("hub.service"):
            raise OSError(errno.EBUSY, "Device or resource busy")
        return host.opens(cgroup, paths)

    monkeypatch.setattr(trials, "find_name", lambda uid: "minji")
    monkeypatch.setattr(trials, "opens", opens)
    (tmp_path / "cgroups/system.slice/hub.service").mkdir(parents=True)
    runs(tmp_path, 7, 20000, "/system.slice/hub.service")
    assert host.go().problems == [
        "/system.slice/hub.service: whether GPUs are closed to uid 20000 there is not known: Device or resource busy"
    ]


@pytest.mark.holds("a cgroup that is not found by its name is not closed")
def test_whoever_calls_their_cgroup_something_odd_is_not_called_closed(
    host: GatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trials, "find_name", lambda uid: "minji")
    runs(tmp_path, 7, 20000, "/system.slice/hub.service/ñ")
    runs(tmp_path, 8, 20000, "/system.slice/ended.service")
    (problem,) = host.go().problems
    assert "there is not known: it has an odd name" in problem


@pytest.mark.holds("whoever looks after the node opens its GPUs")
def test_whoever_looks_after_the_node_is_not_kept_out(
    host: GatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = json.loads(Path(host.places.settings).read_text())
    Path(host.places.settings).write_text(json.dumps({**settings, "exempt": ["gpuadmin", "not-here"]}))
    host.people["gpuadmin"] = 1000
    host.units_there += "user-1000.slice loaded active active\n"
    monkeypatch.setattr(trials, "find_name", lambda uid: "gpuadmin")
    (tmp_path / "cgroups/system.slice/own.service").mkdir(parents=True)
    runs(tmp_path, 7, 1000, "/system.slice/own.service")
    assert host.go().problems == []
    (told,) = [one for one in host.told if one[3] == "user-1000.slice"]
    assert "DeviceAllow=char-* rwm" in told


def test_units_that_stay_wrong_do_not_take_all_the_time(
    host: GatedHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host.lies = [str(tmp_path / "gpu1")]
    monkeypatch.setattr(trials, "SETTLE", 20.0)
    monkeypatch.setattr(reconcile, "TRIALS", 0.3)
    began = time.monotonic()
    assert host.go().problems != []
    assert time.monotonic() - began < 5


def test_jobs_of_systemd_cron_and_machines_are_closed(host: GatedHost, tmp_path: Path) -> None:
    host.units_there += "cron-minji-job.service loaded active running\ncron-minji-other.service loaded inactive dead\n"
    host.units_there += "machine.slice loaded active active\n"
    for unit in ("system.slice/cron-minji-job.service", "machine.slice"):
        (tmp_path / "cgroups" / unit).mkdir(parents=True)
    assert host.go().problems == []
    assert host.units()["cron-minji-job.service"] == host.units()["machine.slice"] == []
    assert "cron-minji-other.service" not in host.units(), "it is closed by its name when it starts"
    assert (Path(host.places.units) / "cron-.service.d" / gate.DROP_IN).exists()


def runs(tmp_path: Path, pid: int, uid: int, cgroup: str) -> None:
    own = tmp_path / f"proc/{pid}"
    own.mkdir()
    (own / "status").write_text(f"Name:\tsh\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
    (own / "cgroup").write_text(f"0::{cgroup}\n")


FAR = 4_000_000_000


@pytest.fixture
def leaving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedHost:
    found = gated_host(tmp_path, monkeypatch)
    for name, gpu in (("minji", "0"), ("jiho", "1")):
        grants.write(Grant(f"of-{name}", name, found.people[name], [gpu], 1, FAR, "root@nas"), found.places.state)
    found.go(2000)
    monkeypatch.setattr(operations, "converge", lambda *_, **__: Outcome(False, Plan(DesiredState()), {}))
    monkeypatch.setattr(gate, "Places", lambda **_: found.places)
    found.told.clear()
    return found


def converged(people: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    return operations.converge_accounts(operations.AccountsOrder(**people), check).result("users")


MINJI = {"name": "minji", "uid": 20000}
GONE = [{"users": [{**MINJI, "locked": True}]}, {"absent": [MINJI]}]


@pytest.mark.root
@pytest.mark.holds("who is locked or removed keeps no grant")
@pytest.mark.parametrize("people", GONE, ids=["locked", "removed"])
def test_who_is_locked_or_removed_keeps_no_grant(leaving: GatedHost, people: dict[str, Any]) -> None:
    looked = converged(people, check=True)
    assert leaving.told == []
    assert len(grants.read(leaving.places.state)[0]) == 2, "a check ends nothing"
    done = converged(people)
    assert done["operations"] == looked["operations"] == ["user minji: end the grant of-minji (GPU 0)"]
    assert done["changed"] is looked["changed"] is True
    assert leaving.units() == {"user-20000.slice": []}, "at once, and nobody else's"
    assert [one.id for one in grants.read(leaving.places.state)[0]] == ["of-jiho"]
    assert converged(people)["changed"] is False
    assert converged({"users": [MINJI]})["changed"] is False, "an unlock brings nothing back"
    assert [one.id for one in grants.read(leaving.places.state)[0]] == ["of-jiho"]


@pytest.mark.root
@pytest.mark.parametrize("people", [{"users": [MINJI]}, {"users": [MINJI], "absent": [{**MINJI, "uid": 20007}]}])
def test_who_stays_keeps_theirs(leaving: GatedHost, people: dict[str, Any]) -> None:
    assert converged(people)["changed"] is False
    assert len(grants.read(leaving.places.state)[0]) == 2


@pytest.mark.root
@pytest.mark.holds("grants of who leaves end while nobody else changes any")
def test_grants_end_while_nobody_else_changes_any(leaving: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconcile, "flocked", partial(flocked, seconds=0.1))
    with flocked(reconcile.lock_path(leaving.places)), pytest.raises(NodeError, match="has been held for"):
        reconcile.end_grants(["minji"], leaving.places)
    assert len(grants.read(leaving.places.state)[0]) == 2


@pytest.mark.root
@pytest.mark.holds("grants that cannot be ended deny nothing else")
def test_grants_that_cannot_be_ended_are_told(leaving: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(names: object, places: object) -> list[str]:
        raise NodeError("the lock has been held for 120 s")

    monkeypatch.setattr(reconcile, "end_grants", hangs)
    done = converged(GONE[0])
    assert done["conflicts"] == ["the accounts are done, grants of minji are not: the lock has been held for 120 s"]
