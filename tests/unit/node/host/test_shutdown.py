"""What keeps a host from being switched off, and how a node lets the homes go."""

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants
from ansible_collections.gpuadmin.node.plugins.module_utils.host import shutdown
from ansible_collections.gpuadmin.node.plugins.module_utils.logins import occupants

from gpuadmin.common.records.hosts import Power
from tests.support.failing import raising
from tests.support.operations import ask

INFO = 'clientid: 0x1\naddress: "{address}:742"\nstatus: {status}\nname: "Linux NFSv4.2 gpu"\n'


@pytest.fixture
def kernel(tmp_path: Path) -> str:
    """A /proc: with an NFS server in the kernel's list of file systems."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net/tcp").write_text("  sl  local_address rem_address   st\n   0: 00000000:0016 00000000:0000 0A 0\n")
    (tmp_path / "filesystems").write_text("nodev\tproc\nnodev\tnfsd\n\tbtrfs\n")
    return str(tmp_path)


def server(tmp_path: Path, *clients: tuple[str, str], threads: str = "8\n") -> str:
    nfsd = tmp_path / "nfsd"
    (nfsd / "clients").mkdir(parents=True)
    (nfsd / "threads").write_text(threads)
    for number, (address, status) in enumerate(clients):
        (nfsd / "clients" / str(number)).mkdir()
        (nfsd / "clients" / str(number) / "info").write_text(INFO.format(address=address, status=status))
    return str(nfsd)


def test_who_mounts(tmp_path: Path, kernel: str) -> None:
    nfsd = server(
        tmp_path, ("10.0.0.3", "confirmed"), ("fd00::4", "confirmed"), ("10.0.0.5", "courtesy"),
        ("10.0.0.6", "expirable"), ("10.0.0.3", "confirmed"),
    )  # fmt: skip
    assert shutdown.clients(nfsd, kernel) == ["10.0.0.3", "fd00::4"]
    (tmp_path / "nfsd/clients/9").mkdir()  # one that has gone since the directory was listed
    assert shutdown.clients(nfsd, kernel) == ["10.0.0.3", "fd00::4"]
    (tmp_path / "nfsd/clients/9/info").write_text('clientid: 0x1\naddress: "10.0.0.9:1"\n')
    assert "10.0.0.9" in shutdown.clients(nfsd, kernel), "an older kernel says no status"
    (tmp_path / "nfsd/clients/9/info").write_text("clientid: 0x1\n")
    assert "client 9" in shutdown.clients(nfsd, kernel), "who does not say from where is there nevertheless"


def test_a_server_that_serves_nobody(tmp_path: Path, kernel: str) -> None:
    assert shutdown.clients(server(tmp_path, ("10.0.0.3", "confirmed"), threads="0\n"), kernel) == []
    (tmp_path / "filesystems").write_text("nodev\tproc\nnodev\tnfs\n\tbtrfs\n")
    (tmp_path / "empty").mkdir()  # what every kernel has that could load a server
    assert shutdown.clients(str(tmp_path / "empty"), kernel) == []
    listening = "   0: 00000000000000000000000000000000:0801 00000000000000000000000000000000:0000 0A 0\n"
    (tmp_path / "net/tcp6").write_text(listening)
    with pytest.raises(NodeError, match="its NFS server is not the kernel's"):
        shutdown.clients(str(tmp_path / "empty"), kernel)


def test_who_mounts_is_not_known(tmp_path: Path, kernel: str) -> None:
    (tmp_path / "nfsd").mkdir()  # nfsd's file system is not mounted there
    with pytest.raises(NodeError, match="not known who mounts"):
        shutdown.clients(str(tmp_path / "nfsd"), kernel)
    (tmp_path / "nfsd/threads").write_text("8\n")
    with pytest.raises(NodeError, match="the kernel has no"):
        shutdown.clients(str(tmp_path / "nfsd"), kernel)


class Systemd:
    """Answers for systemctl; remembers what it was asked to stop."""

    def __init__(self, units: str = "", shown: str = "", status: int = 0) -> None:
        self.units, self.shown, self.status = units, shown, status
        self.stopped: list[tuple[str, ...]] = []

    def __call__(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if command[0] == "systemd-escape":
            return subprocess.CompletedProcess(command, 0, f"home.{command[2].partition('=')[2]}\n", "")
        if "stop" in command:
            self.stopped.append(tuple(command[4:]))
            return subprocess.CompletedProcess(command, self.status, "", "Job for home.mount failed" * self.status)
        return subprocess.CompletedProcess(command, 0, self.shown if "show" in command else self.units, "")


def test_which_jobs_run() -> None:
    units = (
        "gpuadmin-accounts.service loaded active exited Accounts\n"
        "gpuadmin-backup.service loaded activating start A backup\n"
        "gpuadmin-image-switch.service loaded active running A switch\n"
        "gpuadmin-wipe.service loaded deactivating stop-sigterm A wipe that is to end\n"
        "gpuadmin-copy.service loaded deactivating stop A copy that is to end\n"
        "gpuadmin-metrics-mapper.service loaded active running Say who holds which GPU\n"
        "gpuadmin-web-link.service loaded active running Sign links to the dashboard\n"
        "gpuadmin-gpu-gate.service loaded activating start Let in who was granted a GPU\n"
        "gpuadmin-disk-room.service loaded activating start Keep room on disks that people cannot fill\n"
        "gpuadmin-disk-usage.service loaded activating start Measure what people's files take\n"
        "gpuadmin-gpu-devices.service loaded activating start Name the GPUs for containers\n"
        "gpuadmin-cluster.service loaded activating start Fetch the cluster's state\n"
        "gpuadmin-logs.service loaded activating start Delete what is old\n"
    )
    kept = (
        "Restart=no\nId=gpuadmin-backup.service\nTriggeredBy=gpuadmin-backup.timer\n\n"
        "Restart=always\nId=gpuadmin-metrics-mapper.service\nTriggeredBy=\n\n"
        "Restart=no\nId=gpuadmin-web-link.service\nTriggeredBy=gpuadmin-web-link.socket\n"
    )
    assert shutdown.jobs(Systemd(units, kept)) == [
        "gpuadmin-backup",
        "gpuadmin-copy",
        "gpuadmin-image-switch",
        "gpuadmin-wipe",
    ]
    with pytest.raises(NodeError, match="not known which jobs run"):
        shutdown.jobs(lambda command: subprocess.CompletedProcess(command, 1, "", "no bus"))
    with pytest.raises(NodeError, match="not known which jobs run"):
        shutdown.jobs(lambda command: subprocess.CompletedProcess(command, int("show" in command), units, "no bus"))
    assert shutdown.jobs(Systemd("gpuadmin-accounts.service loaded active exited Accounts\n")) == []


SLICES = "".join(f"user-{number}.slice loaded active active x\n" for number in (900, 20000, 50000))
MOUNTED = "1 1 0:1 / /home rw - autofs systemd-1 rw\n2 1 0:2 / /home rw - nfs4 10.0.0.1:/srv rw\n"


def release(systemd: Systemd, *mounts: str, check: bool = False) -> list[str]:
    answers = list(mounts)
    return shutdown.release(
        "/home", uid_first=20000, uid_last=49999, check=check, run=systemd,
        mountinfo=lambda: answers.pop(0) if len(answers) > 1 else answers[0],
    )  # fmt: skip


def test_a_node_lets_the_homes_go() -> None:
    systemd = Systemd(SLICES)
    operations = ["end what runs in user-20000.slice", "unmount /home"]
    assert release(systemd, MOUNTED, check=True) == operations
    assert systemd.stopped == []
    assert release(systemd, MOUNTED, "") == operations
    assert systemd.stopped == [("user-20000.slice",), ("home.automount", "home.mount")], "the admin's own stays"
    assert release(Systemd(), "") == []
    systemd = Systemd()
    assert release(systemd, MOUNTED.partition("\n")[2], "") == ["unmount /home"]
    assert systemd.stopped == [("home.mount",)], "there is no automount"


def test_homes_that_stay_mounted() -> None:
    with pytest.raises(NodeError, match=r"still mounted \(from 10.0.0.1:/srv\)"):
        release(Systemd(SLICES), MOUNTED, MOUNTED)
    with pytest.raises(NodeError, match="still in use"):
        release(Systemd("", status=1), MOUNTED, "")


@pytest.mark.parametrize("check", [False, True])
def test_homes_stay_where_nobody_knows_what_people_run(check: bool) -> None:
    asked = []

    def silent(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 1, "", "no bus")

    with pytest.raises(NodeError, match="not known what people run"):
        shutdown.release("/home", uid_first=20000, uid_last=49999, check=check, run=silent, mountinfo=lambda: MOUNTED)
    assert len(asked) == 1, "nothing is stopped"


FREE: dict[str, Any] = {"people": [], "clients": [], "jobs": [], "unknown": {}}


@pytest.mark.parametrize(
    ("report", "options", "reasons"),
    [
        ({}, {}, []),
        ({"people": ["minji"]}, {}, ["in use by minji"]),
        ({"people": ["minji"]}, {"force": True}, []),
        ({"people": None, "unknown": {"people": "no bus"}}, {}, ["nobody knows who is on it: no bus"]),
        ({"clients": ["10.0.0.3"]}, {}, []),
        ({"clients": ["10.0.0.3"]}, {"serves": True, "force": True}, ["mounted by 10.0.0.3"]),
        ({"clients": None, "unknown": {"clients": "not known"}}, {"serves": True, "force": True}, ["not known"]),
        ({"jobs": ["gpuadmin-backup"]}, {"force": True}, ["busy with gpuadmin-backup"]),
        ({"jobs": None, "unknown": {"jobs": "no systemd"}}, {"force": True}, ["no systemd"]),
    ],
)
def test_what_keeps_a_host(report: dict[str, Any], options: dict[str, bool], reasons: list[str]) -> None:
    assert shutdown.problems(Power(**FREE | report), **{"force": False, "serves": False, **options}) == reasons


@pytest.mark.holds("a storage host that is mounted refuses when it is asked, too")
def test_the_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(occupants, "people", raising(NodeError("there is no logind")))
    monkeypatch.setattr(shutdown, "jobs", lambda run: [])
    monkeypatch.setattr(shutdown, "clients", lambda nfsd: [])
    arguments = {"node": True, "uid_first": 20000, "uid_last": 49999}
    found = ask("shutdown_facts", arguments)
    assert found["report"]["power"]["people"] is None
    assert found["progress"] == "waits: nobody knows who is on it: there is no logind"
    assert ask("shutdown_facts", {**arguments, "require": True})["failed"] is True
    assert ask("shutdown_facts", {**arguments, "node": False, "require": True})["changed"] is False
    monkeypatch.setattr(occupants, "people", lambda *_: [])
    monkeypatch.setattr(occupants, "gpu_users", lambda *_: ["minji"])
    found = ask("shutdown_facts", {**arguments, "require": True})
    assert found["msg"] == "in use by minji; it was left as it is", "who holds a GPU and has no session is there, too"
    monkeypatch.setattr(occupants, "container_users", lambda *_: ["jiho"])
    grant = grants.Grant("a", "minji", 20000, ("GPU-1",), 0, 2**40, "root@nas", "a deadline", "admin")
    monkeypatch.setattr(grants, "read", lambda: ([grant], []))
    monkeypatch.setattr(shutdown, "find_name", lambda uid: "minji")
    assert ask("shutdown_facts", arguments)["report"]["power"]["claims"] == ["jiho (a container)", "minji (a grant)"]
    monkeypatch.setattr(grants, "read", lambda: ([], ["x opens nothing"]))
    report = ask("shutdown_facts", arguments)["report"]["power"]
    assert (report["claims"], report["unknown"]) == (None, {"claims": "x opens nothing"})
    monkeypatch.setattr(shutdown, "clients", lambda nfsd: ["10.0.0.3"])
    storage = {**arguments, "node": False, "require": True, "serves": True, "force": True}
    found = ask("shutdown_facts", storage)
    assert (found["failed"], found["msg"]) == (True, "mounted by 10.0.0.3; it was left as it is")
    monkeypatch.setattr(shutdown, "release", lambda path, **more: [f"unmount {path}"] if more["check"] else [])
    given = {"path": "/home", "uid_first": 20000, "uid_last": 49999}
    assert ask("homes_release", given, check=True)["operations"] == ["unmount /home"]
