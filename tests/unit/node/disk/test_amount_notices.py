"""What people have in their homes, as the storage host tells each of them and nobody else."""

import pwd
import subprocess
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import amounts as part
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import amount_notices, command, operations
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.measuring import directories
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.people import Held
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.records import Place
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import amounts, records
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.amounts import OF_HOMES, Amounts, OwnAmounts
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.room import Places

from tests.support.failing import raising
from tests.support.role_variables import rendered

GB = 10**9
UIDS = {"minji": 20001, "jiho": 20002, "sua": 20003}
FOUND = {
    ("minji", "homes"): Held(460 * GB, 9, 1000.0, False, []),
    ("jiho", "homes"): Held(2 * GB, 9, 1000.0, True, []),
    ("sua", "homes"): Held(900 * GB, 9, 1000.0, False, []),
    ("minji", "scratch"): Held(900 * GB, 9, 1000.0, False, []),
}
pytestmark = pytest.mark.root


@pytest.fixture
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def account(name: str) -> pwd.struct_passwd:
        return pwd.struct_passwd((name, "x", UIDS[name], UIDS[name], "", "", ""))

    monkeypatch.setattr(pwd, "getpwnam", account)
    at = tmp_path / "homes"
    at.mkdir(mode=0o755)
    return at


def table(point: Path) -> str:
    return f"1 0 0:1 / / rw - ext4 /dev/a rw\n2 1 0:2 / {point} rw - btrfs /dev/b rw\n"


def of(homes: Path, home: str = "500G") -> Amounts:
    return Amounts(home, people=[OwnAmounts(["sua"], "unlimited")], homes=str(homes), mountpoint=str(homes.parent))


def test_each_person_is_told_theirs(homes: Path) -> None:
    amount_notices.tell_homes(of(homes), FOUND, mountinfo=table(homes.parent))
    at = homes / OF_HOMES
    assert at.stat().st_mode & 0o777 == 0o711
    assert sorted(one.name for one in at.iterdir()) == ["jiho.json", "minji.en", "minji.json", "minji.ko"]
    for one in at.iterdir():
        assert (one.stat().st_mode & 0o777, one.stat().st_uid) == (0o400, UIDS[one.name.partition(".")[0]])
    assert "your home: 460.0 GB of 500.0 GB (92%)" in (at / "minji.en").read_text()
    assert amounts.of_home(str(homes), "jiho") == amounts.Used(2 * GB, 500 * GB, False, 1000.0, True)
    subject = Subject(name="minji", homes=str(homes), node=False, state_directory="/nonexistent")
    assert part.own(subject) == {
        "home": {"bytes": 460 * GB, "most": 500 * GB, "held": False, "when": 1000.0, "partial": False}
    }
    assert part.own(Subject(name="sua", homes=str(homes), state_directory="/nonexistent")) is None


def test_what_is_told_is_no_home_and_goes(homes: Path) -> None:
    amount_notices.tell_homes(of(homes), FOUND, mountinfo=table(homes.parent))
    assert directories(Place("homes", str(homes))) == []
    amount_notices.tell_homes(of(homes, "1T"), FOUND, mountinfo=table(homes.parent))  # nobody has nearly all any more
    assert sorted(one.name for one in (homes / OF_HOMES).iterdir()) == ["jiho.json", "minji.json"]
    amount_notices.tell_homes(of(homes, "unlimited"), FOUND, mountinfo=table(homes.parent))
    assert list(homes.iterdir()) == []


def test_nothing_is_written_below_an_empty_mount_point(homes: Path) -> None:
    with pytest.raises(NodeError, match="nothing is mounted at"):
        amount_notices.tell_homes(of(homes), FOUND, mountinfo=table(Path("/elsewhere")))
    amount_notices.tell_homes(
        Amounts("500G", homes=f"{homes}/none", mountpoint=str(homes)), FOUND, mountinfo=table(homes)
    )
    assert list(homes.iterdir()) == []


def test_a_check_names_who_is_above_it(homes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = Places(str(homes.parent / "state"), str(homes.parent / "run"))
    monkeypatch.setattr(command, "known", lambda state, record: FOUND)
    monkeypatch.setattr(amount_notices, "read_mountinfo", lambda: table(homes.parent))
    sua = OwnAmounts(["sua"], "unlimited")
    document = operations.DiskAmounts("400G", "unlimited", [sua], str(homes), str(homes.parent))
    said = operations.hold_amounts(document, True, places).operations
    assert said == [
        f"{homes}: a home may have 400.0 GB; sua: as much as there is",
        f"{homes}: above it from the start, and told so: minji (460.0 GB of 400.0 GB)",
    ]
    assert list(homes.iterdir()) == []
    assert operations.hold_amounts(document, False, places, str(homes / "docker")).operations == said
    assert operations.hold_amounts(document, False, places, str(homes / "docker")).operations == []
    assert amounts.of_home(str(homes), "minji") is not None


@pytest.mark.holds("a full disk of homes ends no measuring")
def test_a_full_disk_of_homes_ends_no_measuring(
    homes: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(amount_notices, "tell_homes", raising(OSError(122, "Disk quota exceeded")))
    where = command.Where(str(homes.parent / "state"), str(homes.parent / "text"))
    records.record(f"{where.state}/{amounts.RECORD}", of(homes))
    command.tell(where, FOUND, logins=False)
    assert "Disk quota exceeded" in capsys.readouterr().err
    assert (homes.parent / "text" / command.TEXT).exists()


def test_where_nothing_is_measured_nothing_is_known(tmp_path: Path) -> None:
    assert command.known(str(tmp_path), str(tmp_path / "disk.json")) == {}


@pytest.mark.parametrize(("home", "asked"), [("{homes}/minji", True), ("/root", False), ("/home2/admin", False)])
def test_only_whose_home_is_there_waits_for_the_storage_host_at_log_in(tmp_path: Path, home: str, asked: bool) -> None:
    script = rendered(
        "limits", "gpuadmin-amounts.sh.j2", {"limits_homes": str(tmp_path), "limits_languages": ["en", "ko"]}
    )
    (tmp_path / "cat").write_text(f"#!/bin/sh\ntouch {tmp_path}/called\n")
    (tmp_path / "cat").chmod(0o755)
    (tmp_path / "script").write_text(script)
    environment = {"HOME": home.format(homes=tmp_path), "LOGNAME": "minji", "PATH": f"{tmp_path}:/usr/bin:/bin"}
    command = ["bash", "--norc", "--noprofile", "-ic", f". {tmp_path}/script"]
    subprocess.run(command, env=environment, check=True, stderr=subprocess.DEVNULL)
    assert (tmp_path / "called").exists() == asked
