"""Limits brought into force, with a systemd that, like the real one, says more than it does."""

import json
import resource
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import operations as accounts_operations
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Outcome
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Plan
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import applying, operations
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.applying import Places, Wanted
from ansible_collections.gpuadmin.node.plugins.module_utils.lookup import owner

from gpuadmin.common.records.limits import OwnLimits
from tests.support.failing import fail_for, raising

pytestmark = pytest.mark.root

GIB = 1 << 30
SLICE = "user-20001.slice"
PEOPLE = {"minji": (20001, 20001), "jiho": (20002, 20002), "gpuadmin": (1000, 1000)}
WANTED = Wanted("50%", "0", "100", "unlimited", 100, [], "gpuadmin")


@dataclass
class Host:
    """A systemd that reads drop-ins when it is told to, and changes cgroups by set-property alone."""

    root: Path
    deaf: bool = False
    sshd: int = 0
    drop_ins: dict[Path, str] = field(default_factory=dict)
    calls: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def places(self) -> Places:
        def at(name: str) -> str:
            return str(self.root / name)

        return Places(
            at("state"), at("run"), at("units"), at("control"), at("cgroup"), at("proc"), self.command, PEOPLE.get
        )

    def apply(self, wanted: Wanted | None = WANTED, *, check: bool = False) -> applying.Outcome:
        return applying.apply(self.places, wanted, check=check, given=True)

    def cgroup(self, unit: str) -> Path:
        if unit == "cron.service" and (self.root / "cgroup/system.slice" / unit).exists():
            return self.root / "cgroup/system.slice" / unit
        return self.root / "cgroup/user.slice" / ("" if unit == "user.slice" else unit)

    def read(self, unit: str) -> tuple[str, ...]:
        return tuple((self.cgroup(unit) / name).read_text() for name in ("memory.max", "pids.max", "cpu.weight"))

    def wanted(self, unit: str) -> dict[str, str]:
        found = {"MemoryMax": "infinity", "TasksMax": "infinity", "CPUWeight": "[not set]"}
        found["CPUQuotaPerSecUSec"] = "infinity"
        found |= {"MainPID": str(self.sshd), "LimitNPROC": "63000"}
        general = "user-.slice.d" if unit != "user.slice" else "-"
        paths = [one for one in self.drop_ins if one.parent.name in (general, f"{unit}.d")]
        for path in sorted(paths, key=lambda one: one.name):
            lines = [line for line in self.drop_ins[path].splitlines() if "=" in line]
            found |= dict(line.split("=", 1) for line in lines)
        return found

    def command(self, argv: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        self.calls.append(tuple(argv))
        out = ""
        if argv[1] == "show":
            for unit in argv[3:]:
                out += f"Id={unit}\n" + "".join(f"{k}={v}\n" for k, v in self.wanted(unit).items()) + "\n"
        if argv[1] == "daemon-reload":
            found = (*(self.root / "units").rglob("*.conf"), *(self.root / "control").rglob("*.conf"))
            self.drop_ins = {path: path.read_text() for path in found}
        if argv[1] == "set-property" and not self.deaf:
            unit = argv[3]
            for setting in argv[4:]:
                name, value = setting.split("=")
                kept = self.root / "control" / f"{unit}.d" / f"50-{name}.conf"
                kept.parent.mkdir(parents=True, exist_ok=True)
                self.drop_ins[kept] = f"[Slice]\n{setting}\n"
                kept.write_text(self.drop_ins[kept])
                file = {"MemoryMax": "memory.max", "TasksMax": "pids.max", "CPUWeight": "cpu.weight"}.get(name)
                if file:
                    text = "max" if value == "infinity" else value or "100"
                    (self.cgroup(unit) / file).write_text(text)
        return subprocess.CompletedProcess(list(argv), 0, out, "")


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    monkeypatch.setattr(applying, "SETTLE", 0.2)
    found = Host(tmp_path)
    for unit in ("user.slice", SLICE, "user-0.slice"):
        found.cgroup(unit).mkdir(parents=True, exist_ok=True)
        for name, value in (("memory.max", "max"), ("pids.max", "max"), ("memory.current", str(3 * GIB))):
            (found.cgroup(unit) / name).write_text(value)
    (tmp_path / "cgroup/cgroup.controllers").write_text("cpu memory pids")
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(f"MemTotal:       {8 << 20} kB\nSwapTotal:      0 kB\n")
    (tmp_path / "proc/sys/kernel/threads-max").write_text("60000\n")
    (tmp_path / "proc/sys/kernel/pid_max").write_text("4194304\n")
    for name in ("state", "run", "units"):
        (tmp_path / name).mkdir()
    return found


def test_what_runs_is_limited_at_once(host: Host) -> None:
    outcome = host.apply()
    assert outcome.problems == []
    assert host.read(SLICE) == (str(4 * GIB), "100", "100")
    kept = (8 * GIB // 20 + 65535) // 65536 * 65536
    assert (host.cgroup("user.slice") / "memory.max").read_text() == str(8 * GIB - kept)
    assert (host.cgroup("user-0.slice") / "cpu.weight").read_text() == "1000"
    assert list((host.root / "control").rglob("*.conf")) == [], "nothing stays that would hide what comes later"
    assert all(path.is_relative_to(host.root / "units") for path in host.drop_ins), "and systemd knows that"


def test_the_admin_is_not_limited_whatever_is_said_of_them(host: Host) -> None:
    admin = host.cgroup("user-1000.slice")
    admin.mkdir()
    for name in ("memory.max", "pids.max"):
        (admin / name).write_text("max")
    people = [OwnLimits(["gpuadmin"], memory="1G", tasks="100")]
    assert host.apply(replace(WANTED, people=people)).problems == []
    assert host.read("user-1000.slice") == ("max", "max", "1000")


def test_limits_are_applied_by_one_at_a_time(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "flocked", partial(flocked, seconds=0.1))
    with flocked(str(host.root / "run/locks/limits")), pytest.raises(NodeError, match="has been held for"):
        host.apply()
    assert host.calls == []


def test_what_a_power_cut_interrupts_a_boot_goes_on_with(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(applying, "apply", raising(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            operations.apply_limits(document(host, enabled=True), False, host.places)
    assert applying.main(host.places) == 0
    assert host.read(SLICE)[1] == "100"


@pytest.mark.parametrize("less", [False, True])
def test_what_was_written_and_not_read_is_read_by_the_next_run(
    host: Host, monkeypatch: pytest.MonkeyPatch, less: bool
) -> None:  # fmt: skip
    """Nothing differs any more then, and systemd goes on with what it knows: somebody who logs in has other limits."""
    first, then = (WANTED, None) if less else (None, WANTED)
    host.apply(first)
    with monkeypatch.context() as patched:
        fail_for(patched, host, "command", lambda argv: argv[1] == "daemon-reload", KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt):
            host.apply(then)
    said = host.apply(then, check=True).done
    assert host.apply(then).done == said != []
    assert host.read(SLICE)[1] == ("max" if less else "100")
    assert sorted(host.drop_ins) == sorted((host.root / "units").rglob("*.conf"))
    host.calls.clear()
    assert host.apply(then).done == []


def test_jobs_of_cron_count_with_what_people_run(host: Host) -> None:
    """A service is in another slice once it is started and no job of before runs: none is ended for it."""
    before, after = (host.root / "cgroup" / above / "cron.service" for above in ("system.slice", "user.slice"))
    before.mkdir(parents=True)
    for name in ("memory.max", "pids.max"):
        (before / name).write_text("max")
    said = "cron.service: is restarted, so that its jobs count in another slice"
    assert said in host.apply(check=True).done
    assert not any("try-restart" in call for call in host.calls)
    assert said in host.apply().done
    assert ("systemctl", "try-restart", "cron.service") in host.calls
    stays = "cron.service: a job of it is running, so this takes effect at its next start"
    assert stays in host.apply().done
    before.rename(after)
    host.calls.clear()
    assert said not in host.apply().done
    assert said in host.apply(None).done, "and back, where nothing is limited any more"


def _may_raise() -> bool:
    """Whether this process may give more (CAP_SYS_RESOURCE): root in a container often may not."""
    lines = dict(line.split(":\t", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return bool(int(lines["CapEff"], 16) >> 24 & 1)


@pytest.mark.parametrize("unit", ["system.slice/ssh.service", "user.slice/cron.service"])
def test_sessions_that_sshd_starts_from_now_on_have_their_tasks(host: Host, unit: str) -> None:
    """It need not be started again, and has what it had where nothing is limited any more. So cron, and jobs."""
    service = host.root / "cgroup" / unit
    service.mkdir(parents=True)
    for name in ("memory.max", "pids.max"):
        (service / name).write_text("max")
    with subprocess.Popen(["sleep", "60"]) as sshd:
        host.sshd = sshd.pid
        before, mine = (resource.prlimit(pid, resource.RLIMIT_NPROC) for pid in (sshd.pid, 0))
        host.apply(check=True)
        assert resource.prlimit(sshd.pid, resource.RLIMIT_NPROC) == before
        host.apply()
        assert resource.prlimit(sshd.pid, resource.RLIMIT_NPROC) == (100, 100)
        host.apply(None)
        after = resource.prlimit(sshd.pid, resource.RLIMIT_NPROC)
        assert after == ((63000, 63000) if _may_raise() else (100, 100))
        sshd.kill()
    host.apply()
    host.sshd = 0
    host.apply()
    assert resource.prlimit(0, resource.RLIMIT_NPROC) == mine


def test_a_second_run_does_nothing(host: Host) -> None:
    host.apply()
    host.calls.clear()
    assert host.apply().done == []
    assert {call[1] for call in host.calls} == {"show"}


def test_a_check_says_what_the_run_does_and_changes_nothing(host: Host) -> None:
    before = sorted(path for path in host.root.rglob("*"))
    said = host.apply(check=True).done
    assert sorted(path for path in host.root.rglob("*")) == before
    assert host.apply().done == said
    assert {"limits.memory: unlimited -> 4G", "limits.tasks: unlimited -> 100"} <= set(said)
    assert "=" not in "".join(said), "systemd's words"


def test_who_takes_more_already_is_named(host: Host) -> None:
    less = replace(WANTED, memory="2G")
    (line,) = [one for one in host.apply(less, check=True).done if " uses " in one]
    assert "uses 3.2 GB of memory and may use 2.1 GB" in line
    assert "20001" in line


def test_what_systemd_only_says_is_a_problem(host: Host) -> None:
    host.deaf = True
    outcome = host.apply()
    assert f"{SLICE}: memory 4G, tasks 100, processor_weight 100 is not in force" in outcome.problems


def test_what_was_lost_is_brought_back(host: Host) -> None:
    host.apply()
    (host.cgroup(SLICE) / "pids.max").write_text("max")
    said = host.apply(check=True).done
    assert said == [f"{SLICE}: tasks 100"]
    assert len(host.apply().done) == 1
    assert host.read(SLICE)[1] == "100"


def test_limits_of_certain_people(host: Host) -> None:
    people = [OwnLimits(["minji", "nobody-yet"], tasks="200"), OwnLimits(["minji"], memory="1G")]
    host.apply(replace(WANTED, people=people))
    assert host.read(SLICE)[:2] == (str(GIB), "200")
    # somebody who has them no more is as everybody again
    assert host.apply(check=True).done == [
        f"limits of {owner(20001)}: memory: 1G -> 4G, tasks: 200 -> 100",
        # nobody may have 200 any more, and sessions without logind, and jobs, have what the most may have
        "limits of jobs and sessions in 13 services: as for one person",
    ]
    host.apply()
    assert host.read(SLICE)[:2] == (str(4 * GIB), "100")


def test_what_an_admin_sets_by_hand_stays(host: Host) -> None:
    by_hand = host.root / "control" / f"{SLICE}.d" / "50-MemoryMax.conf"
    by_hand.parent.mkdir(parents=True)
    by_hand.write_text(f"[Slice]\nMemoryMax={GIB}\n")
    host.apply()
    assert host.read(SLICE)[0] == str(GIB)
    assert by_hand.exists()


def test_without_limits_nothing_is_left(host: Host) -> None:
    answer = operations.apply_limits(document(host, enabled=True), False, host.places)
    assert answer.problem is None
    assert not answer.conflicts
    assert json.loads((host.root / "state/limits.json").read_text())["memory"] == "50%"
    operations.apply_limits(document(host, enabled=False), False, host.places)
    assert host.read(SLICE) == ("max", "max", "100")
    assert list((host.root / "units").rglob("*.conf")) == []
    assert not (host.root / "state/limits.json").exists()
    assert operations.apply_limits(document(host, enabled=False), False, host.places).operations == []


def test_a_check_of_the_operation_writes_nothing(host: Host) -> None:
    said = operations.apply_limits(document(host, enabled=True), True, host.places)
    assert list((host.root / "state").iterdir()) == []
    assert operations.apply_limits(document(host, enabled=True), False, host.places).operations == said.operations


def test_a_boot_applies_what_is_recorded(host: Host) -> None:
    applying.record(WANTED, host.places, check=False)
    assert applying.main(host.places) == 0
    assert host.read(SLICE)[1] == "100"
    assert applying.load(host.places) == WANTED
    (host.root / "state/limits.json").write_text("{")
    with pytest.raises(NodeError, match=r"limits\.json is damaged"):
        applying.load(host.places)


def test_a_kernel_that_cannot_limit_is_named(host: Host) -> None:
    (host.root / "cgroup/cgroup.controllers").write_text("hugetlb")
    answer = operations.apply_limits(document(host, enabled=True), False, host.places)
    assert answer.report["problems"] == [
        "cgroup v2 of this kernel has no controller cpu, memory, pids: people's use of that is not limited here"
    ]
    assert not answer.conflicts


@pytest.mark.parametrize("check", [True, False])
def test_whoever_has_just_got_an_account_has_limits_of_their_own(
    host: Host, monkeypatch: pytest.MonkeyPatch, check: bool
) -> None:
    applying.record(replace(WANTED, people=[OwnLimits(["minji"], tasks="200")]), host.places, check=False)
    monkeypatch.setattr(accounts_operations, "converge", lambda *_, **__: Outcome(True, Plan(DesiredState()), {}))
    monkeypatch.setattr(accounts_operations.applying, "Places", lambda **_: host.places)
    assert not accounts_operations.converge_accounts(accounts_operations.AccountsOrder(), check).conflicts
    assert (host.cgroup(SLICE) / "pids.max").read_text() == ("max" if check else "200")


def document(host: Host, *, enabled: bool) -> operations.NodeLimits:
    return operations.NodeLimits("50%", "0", "100", "unlimited", 100, enabled=enabled)


def second_slice(host: Host) -> str:
    other = "user-20002.slice"
    host.cgroup(other).mkdir()
    for name in ("memory.max", "pids.max"):
        (host.cgroup(other) / name).write_text("max")
    return other


def test_who_cannot_be_limited_keeps_nobody_else_from_it(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its number the slice that systemd refuses comes first."""
    other = second_slice(host)
    real = host.command

    def command(argv: Sequence[str]) -> "subprocess.CompletedProcess[str]":
        if argv[1] == "set-property" and argv[3] == SLICE:
            return subprocess.CompletedProcess(list(argv), 1, "", "Failed to set unit properties: Device busy\n")
        return real(argv)

    monkeypatch.setattr(host, "command", command)
    outcome = host.apply()
    assert host.read(other) == (str(4 * GIB), "100", "100")
    (problem,) = outcome.problems
    assert problem.startswith(f"{SLICE}: memory 4G")
    assert problem.endswith(
        "is not in force: systemctl set-property failed: Failed to set unit properties: Device busy"
    )
    assert list((host.root / "control").rglob("*.conf")) == [], "nothing stays that would hide what comes later"


def test_whoever_is_killed_leaves_nothing_that_hides_what_comes_later(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    other = second_slice(host)
    fail_for(
        monkeypatch, host, "command", lambda argv: argv[1] == "set-property" and argv[3] == other, KeyboardInterrupt()
    )
    with pytest.raises(KeyboardInterrupt):
        host.apply()
    assert any(argv[1:4] == ("set-property", "--runtime", SLICE) for argv in host.calls)
    assert list((host.root / "control").rglob("*.conf")) == []


@pytest.mark.holds("limits that fail do not deny what was done to accounts")
def test_limits_that_fail_do_not_deny_what_was_done_to_accounts(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    (host.root / "state/limits.json").write_text("{")
    monkeypatch.setattr(accounts_operations, "converge", lambda *_, **__: Outcome(True, Plan(DesiredState()), {}))
    monkeypatch.setattr(accounts_operations.applying, "Places", lambda **_: host.places)
    (problem,) = accounts_operations.converge_accounts(accounts_operations.AccountsOrder(), False).conflicts
    assert problem.startswith("the accounts are done, their limits are not: ")
    assert "limits.json is damaged" in problem
