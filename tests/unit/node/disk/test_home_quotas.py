"""Homes held to amounts by user quotas: who gets which limit, and which limits are left alone."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import amount_notices, filling, home_quotas
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import records
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.amounts import Amounts, OwnAmounts, Used
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.room import Kept, Places
from ansible_collections.gpuadmin.node.plugins.module_utils.user_quotas import Quota, rounded

MB = 10**6
UIDS = {"minji": 20001, "jiho": 20002, "sua": 20003, "root": 0, "backup": 34}
pytestmark = pytest.mark.root  # the directory of homes has to be root's


@dataclass
class Quotas:
    """A file system's quotas, as a kernel keeps them: rounded as xfs has it."""

    on: bool = True
    used: dict[int, int] = field(default_factory=dict)
    most: dict[int, int] = field(default_factory=dict)
    broken: frozenset[int] = frozenset()
    deaf: bool = False

    def enforced(self) -> bool:
        return self.on

    def of(self, uid: int) -> Quota:
        return Quota(self.used.get(uid, 0), self.most.get(uid))

    def limit(self, uid: int, most: "int | None") -> None:
        if uid in self.broken:
            raise OSError(errno.EIO, "Input/output error")
        self.most.pop(uid, None)
        if most is not None and not self.deaf:
            self.most[uid] = rounded(most)


@dataclass
class Storage:
    homes: Path
    places: Places
    quotas: Quotas = field(default_factory=Quotas)
    fstype: str = "ext4"
    mounted: bool = True
    accounts: dict[str, int] = field(default_factory=lambda: dict(UIDS))

    @property
    def host(self) -> home_quotas.Host:
        table = "1 0 0:1 / / rw - ext4 /dev/a rw\n"
        if self.mounted:
            table += f"2 1 0:2 / {self.homes.parent} rw - {self.fstype} /dev/b rw\n"

        def lookup(name: str) -> "tuple[int, int] | None":
            return (self.accounts[name], self.accounts[name]) if name in self.accounts else None

        def of(device: str) -> Quotas:
            assert device == "/dev/b"
            return self.quotas

        return home_quotas.Host(lambda: table, of, lookup)  # type: ignore[arg-type]  # as far as it is used here

    def wanted(self, home: str = "100M", *people: OwnAmounts) -> Amounts:
        return Amounts(home, people=people, homes=str(self.homes), mountpoint=str(self.homes.parent))

    def hold(self, home: str = "100M", *people: OwnAmounts, check: bool = False) -> Kept:
        return home_quotas.hold(self.places, self.wanted(home, *people), check=check, host=self.host)


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    homes = tmp_path / "disk" / "homes"
    for name in ("minji", "jiho"):
        (homes / name).mkdir(parents=True)
    homes.chmod(0o755)
    return Storage(homes, Places(str(tmp_path / "state"), str(tmp_path / "run")))


def test_each_home_gets_its_amount_and_nothing_twice(storage: Storage) -> None:
    planned = storage.hold("100M", OwnAmounts(["jiho"], "1G"), check=True)
    assert planned.done == ["jiho may have 1.0 GB of the homes' disk", "minji may have 100.0 MB of the homes' disk"]
    assert not storage.quotas.most
    assert not Path(storage.places.state).exists()
    assert storage.hold("100M", OwnAmounts(["jiho"], "1G")).done == planned.done
    assert storage.quotas.most == {20001: 100_007_936, 20002: 1_000_013_824}
    assert storage.hold("100M", OwnAmounts(["jiho"], "1G")) == Kept()


def test_who_has_more_already_is_said(storage: Storage) -> None:
    storage.quotas.used[20001] = 140 * MB
    assert "140.0 MB are there: minji can write nothing until it is less" in storage.hold().done[1]


def test_root_and_daemons_get_no_limit(storage: Storage) -> None:
    for name in ("root", "backup", "stranger", ".gpuadmin-amounts"):
        (storage.homes / name).mkdir()
    storage.hold()
    assert sorted(storage.quotas.most) == [20001, 20002]


def test_two_with_one_uid_get_none_and_are_named(storage: Storage) -> None:
    storage.accounts["jiho"] = 20001
    (storage.homes / "sua").mkdir()
    assert storage.hold().problems == [
        f"{storage.homes}: jiho and minji have one uid, 20001: neither is held to an amount"
    ]
    assert sorted(storage.quotas.most) == [20003]


def test_who_comes_later_is_held_within_a_minute(storage: Storage) -> None:
    storage.hold()
    (storage.homes / "sua").mkdir()
    records.record(f"{storage.places.state}/amounts.json", storage.wanted())
    assert home_quotas.hold(storage.places, host=storage.host).done == ["sua may have 100.0 MB of the homes' disk"]


def test_taken_back_is_what_was_set_here_and_nothing_else(storage: Storage) -> None:
    storage.quotas.most[20003] = 7 * 1024  # an admin's, for somebody without an amount
    storage.hold()
    storage.quotas.most[20002] = 9 * 1024  # an admin's, since
    done = storage.hold("unlimited").done
    assert done == ["minji: no amount of the homes' disk any more"]
    assert storage.quotas.most == {20002: 9 * 1024, 20003: 7 * 1024}
    assert not (Path(storage.places.state) / home_quotas.RECORD).exists()


def test_a_run_that_was_cut_off_leaves_no_limit_that_nobody_knows(storage: Storage) -> None:
    storage.quotas.broken = frozenset({20001})
    storage.hold()
    storage.quotas.broken = frozenset()
    storage.hold("unlimited")
    assert storage.quotas.most == {}


def test_a_limit_that_fails_is_named_and_keeps_nobody_else(storage: Storage) -> None:
    storage.quotas.broken = frozenset({20002})
    kept = storage.hold()
    assert kept.problems == [f"{storage.homes}/jiho: the amount is not in force: Input/output error"]
    assert sorted(storage.quotas.most) == [20001]


def test_limits_on_a_disk_that_the_homes_have_left_are_taken_back(storage: Storage) -> None:
    left = Quotas(most={20001: rounded(100 * MB)})
    before = home_quotas.Set("/dev/old", [home_quotas.Own("minji", 20001, 100 * MB)])
    records.record(f"{storage.places.state}/{home_quotas.RECORD}", before)
    host = storage.host
    both = replace(host, quotas=lambda device: left if device == "/dev/old" else host.quotas(device))  # type: ignore[arg-type,return-value]  # as above
    home_quotas.hold(storage.places, storage.wanted(), host=both)
    assert left.most == {}
    assert sorted(storage.quotas.most) == [20001, 20002]


def test_homes_are_held_to_amounts_by_one_at_a_time(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(home_quotas, "flocked", partial(flocked, seconds=0.1))
    with flocked(f"{storage.places.run}/locks/home-quotas"):
        (problem,) = storage.hold().problems
    assert "has been held for" in problem
    assert not storage.quotas.most


def test_a_limit_that_the_kernel_did_not_take_is_a_problem(storage: Storage) -> None:
    storage.quotas.deaf = True
    assert "minji: the amount of 100.0 MB is not in force" in storage.hold().problems


@pytest.mark.parametrize(
    ("change", "note"),
    [
        (lambda one: replace(one, fstype="btrfs"), "people are told their amounts, and nothing enforces them"),
        (lambda one: replace(one, quotas=Quotas(on=False)), "are off (mount it with usrquota)"),
        (lambda one: replace(one, fstype="xfs", quotas=Quotas(on=False)), "are off (mount it with uquota)"),
    ],
)
def test_where_nothing_can_be_enforced_it_is_said(
    storage: Storage, change: Callable[[Storage], Storage], note: str
) -> None:
    other = change(storage)
    kept = other.hold()
    assert (kept.done, kept.problems, len(kept.notes)) == ([], [], 1)
    assert note in kept.notes[0]
    assert not other.quotas.most


def test_nothing_is_set_on_the_disk_below_one_that_is_not_mounted(storage: Storage) -> None:
    storage.mounted = False
    kept = storage.hold()
    assert not storage.quotas.most
    assert "Mount the disk" in kept.problems[0]


def test_people_are_told_what_the_kernel_counts(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    storage.hold()
    storage.quotas.used[20001] = 95 * MB
    host = storage.host
    monkeypatch.setattr(home_quotas, "Host", lambda: host)
    found = amount_notices.homes(storage.wanted(), {}, storage.places.state)
    assert replace(found["minji"], when=None) == Used(95 * MB, 100_007_936, held=True)
    assert found["jiho"].bytes == 0


def test_the_timer_brings_homes_to_their_amounts(
    storage: Storage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    records.record(f"{storage.places.state}/amounts.json", storage.wanted())
    host = storage.host
    monkeypatch.setattr(home_quotas, "Host", lambda: host)
    assert filling.main(storage.places, str(tmp_path / "text"), str(tmp_path / "warnings")) == 0
    assert sorted(storage.quotas.most) == [20001, 20002]
