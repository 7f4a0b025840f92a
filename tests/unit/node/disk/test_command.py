"""The program of the timer: what was known is told at once, each person's file is theirs, and SIGTERM loses nothing."""

import json
import os
import pwd
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import command as package
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import owned
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.command import SETTINGS, TEXT, Where, main, report
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.shares import NOBODY
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Owners
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import OF_PEOPLE

from tests.support.metrics_text import values

NAMES = {20001: "minji", 20002: "jiho", 0: "root"}
pytestmark = pytest.mark.root


class Host:
    def __init__(self, at: Path) -> None:
        self.at = at
        self.homes = at / "homes"
        for uid, name in ((20001, "minji"), (20002, "jiho")):
            (self.homes / name).mkdir(parents=True)
            (self.homes / name / "f").write_bytes(b"x" * 100_000)
            os.chown(self.homes / name, uid, uid)
        (at / "state").mkdir()
        (at / "subuid").write_text("jiho:100000:65536\n")
        self.where = Where(str(at / "state"), str(at / "run"), str(at / "state/metrics/disk.json"))
        self.say(self.homes)

    def say(self, homes: Path, *others: Path, logins: bool = True) -> None:
        scratch = [str(path) for path in others]
        found = {"homes": str(homes), "docker": None, "scratch": scratch, "logins": logins}
        (self.at / "state" / SETTINGS).write_text(json.dumps(found))

    def owners(self) -> Owners:
        uids = {name: uid for uid, name in NAMES.items()}
        return Owners(str(self.at / "subuid"), NAMES.get, lambda name: (uids[name],) * 2 if name in uids else None)

    def main(self) -> int:
        return main(self.where, self.owners())

    def values(self) -> dict[str, float]:
        return values((self.at / "run" / TEXT).read_text())


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    def getpwnam(name: str) -> SimpleNamespace:
        return SimpleNamespace(pw_uid=next(uid for uid, one in NAMES.items() if one == name))

    monkeypatch.setattr(owned, "pwd", SimpleNamespace(getpwnam=getpwnam))
    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(signal, "signal", lambda *_: handler)
    return Host(tmp_path)


def test_it_is_measured_and_told(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert host.main() == 0
    found = host.values()
    assert found['gpuadmin_user_disk_bytes{user="minji",place="homes"}'] >= 100_000
    assert found['gpuadmin_user_disk_inodes{user="jiho",place="homes"}'] == 2
    assert found['gpuadmin_collector_success{source="disk"}'] == 1
    assert "measured 2 directories" in capsys.readouterr().out


def test_each_persons_file_is_theirs_alone(host: Host) -> None:
    host.main()
    at = host.at / "state" / OF_PEOPLE
    assert at.stat().st_mode & 0o777 == 0o711
    for uid, name in ((20001, "minji"), (20002, "jiho")):
        facts = (at / f"{name}.json").stat()
        assert (facts.st_uid, facts.st_mode & 0o777) == (uid, 0o400)
        text = (at / f"{name}.json").read_text()
        assert str(host.homes / name) in text
        assert str(host.homes / ("jiho" if name == "minji" else "minji")) not in text
    (host.homes / "jiho/f").unlink()
    (host.homes / "jiho").rmdir()
    host.main()
    assert [path.name for path in at.iterdir()] == ["minji.json"]


def test_where_nobody_logs_in_no_files_are_made(host: Host) -> None:
    host.say(host.homes, logins=False)
    host.main()
    assert not (host.at / "state" / OF_PEOPLE).exists()


def test_after_a_boot_it_is_told_as_of_then(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.main()
    (host.at / "run" / TEXT).unlink()
    seen: list[dict[str, float]] = []
    monkeypatch.setattr(package, "measure_round", lambda *_args, **_named: seen.append(host.values()) or [])
    host.main()
    assert seen[0]['gpuadmin_user_disk_inodes{user="minji",place="homes"}'] == 2


def test_a_place_that_is_away_is_told_and_the_rest_is_measured(host: Host) -> None:
    host.say(host.at / "nowhere", host.homes, host.at / "not-yet")
    assert host.main() == 1
    found = host.values()
    assert found['gpuadmin_collector_success{source="disk"}'] == 0
    assert found['gpuadmin_user_disk_inodes{user="minji",place="scratch"}'] == 1, "the file in it is root's"


def test_ended_before_its_end_it_keeps_what_it_has(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    real = package.measure_round

    def cut(*given: Any, **others: Any) -> Any:
        rounds = real(*given, **others)
        yield next(rounds)
        raise package.Ended

    monkeypatch.setattr(package, "measure_round", cut)
    assert host.main() == 0
    monkeypatch.setattr(package, "measure_round", real)
    assert len(package.kept.load(host.where.records)) == 1
    host.main()
    assert len(package.kept.load(host.where.records)) == 2


def test_a_power_cut_costs_a_minute_of_work(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    real = package.measure_round

    def cut(*given: Any, **others: Any) -> Any:
        yield from real(*given, **others)
        raise KeyboardInterrupt  # no more than power does it ask whether something is to be kept

    monkeypatch.setattr(package, "SAVED_AFTER", -1.0)
    monkeypatch.setattr(package, "measure_round", cut)
    with pytest.raises(KeyboardInterrupt):
        host.main()
    assert len(package.kept.load(host.where.records)) == 2


def test_the_journal_gets_no_lines_of_somebodys_making(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (host.homes / "a\nError: b\x1b[2J").mkdir()
    monkeypatch.setattr("ansible_collections.gpuadmin.node.plugins.module_utils.disk.measuring.ENTRIES", 0)
    (host.homes / "a\nError: b\x1b[2J/f").write_bytes(b"x")
    assert host.main() == 0, "somebody's odd directory fails no unit"
    said = capsys.readouterr().err
    assert "a?Error: b?[2J" in said
    assert not any(line.startswith("Error: b") for line in said.splitlines())
    assert host.values()['gpuadmin_user_disk_partial{user="minji",place="homes"}'] == 1
    assert host.values()['gpuadmin_collector_success{source="disk"}'] == 1


def test_a_damaged_file_begins_with_nothing(host: Host) -> None:
    host.main()
    Path(host.where.records).write_text("nonsense")
    assert host.main() == 0
    assert len(package.kept.load(host.where.records)) == 2


@pytest.mark.parametrize(
    "data",
    ["", "[]", '{"homes": "x", "docker": null, "scratch": [], "logins": true}', '{"homes": null, "logins": true}'],
)
def test_settings_that_are_none(host: Host, data: str) -> None:
    (host.at / "state" / SETTINGS).write_text(data)
    with pytest.raises(NodeError, match="disk-places"):
        host.main()


def test_what_an_admin_is_told(host: Host) -> None:
    host.main()
    me = pwd.getpwuid(os.getuid()).pw_name
    everybody = report(host.where.state, host.where.records)
    assert everybody["places"] == [{"name": "homes", "path": str(host.homes), "by_owner": False}]
    assert set(everybody["people"]) <= {"(unknown)", me, "minji", "jiho"}
    assert report(host.where.state, host.where.records, ["nobody-there"])["people"] == {}


def test_subordinate_ids_are_one_person(host: Host) -> None:
    """Each would have a share of its own otherwise, and 65,536 of them leave no room for other people."""
    local = host.at / "local"
    local.mkdir()
    for number, uid in enumerate((100_001, 100_002, 100_003, 4_000_000, 4_000_001)):
        (local / f"f{number}").write_bytes(b"x")
        os.chown(local / f"f{number}", uid, uid)
    host.say(host.homes, local)
    assert host.main() == 0
    assert host.values()['gpuadmin_user_disk_inodes{user="jiho",place="scratch"}'] == 3
    assert host.values()['gpuadmin_user_disk_inodes{user="(unknown)",place="scratch"}'] == 2
    (found,) = (one for one in json.loads(Path(host.where.records).read_text())["records"] if one[0] == str(local))
    assert set(found[2]["people"]) == {"0", "20002", str(NOBODY)}
