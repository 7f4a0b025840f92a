"""Docker's data and scratch held to amounts, on a real btrfs."""

import json
import os
import pwd
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs, qgroups
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import operations as accounts_operations
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Outcome
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Plan
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import amount_notices, filling, operations
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.limits import amounts, place_amounts, room
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.amounts import Amounts, OwnAmounts
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.room import Places
from ansible_collections.gpuadmin.node.plugins.module_utils.me import overview
from ansible_collections.gpuadmin.node.plugins.module_utils.paths import OF_PEOPLE

from tests.support.failing import fail_for
from tests.support.people_disk import MINJI, Disk, as_minji, disk
from tests.support.storage import run

__all__ = ["disk"]
MB = 10**6
SUBUID = 2147483648
pytestmark = [pytest.mark.btrfs]


class Docker:
    """A node's disk with quotas on, and places for Docker's data."""

    def __init__(self, disk: Disk) -> None:
        self.disk, self.data = disk, disk.local / ".docker"
        self.places = Places(disk.places.state, disk.places.run)
        self.warnings = disk.top.parent / "warnings"
        disk.keep()

    def wanted(self, docker: str = "100M", *people: OwnAmounts) -> Amounts:
        return Amounts(docker=docker, people=list(people), data=str(self.data), scratch_in=[])

    def hold(self, docker: str = "100M", *people: OwnAmounts, check: bool = False) -> room.Kept:
        return place_amounts.hold(self.places, self.wanted(docker, *people), check=check)

    def again(self) -> room.Kept:
        """What the timer does."""
        return place_amounts.hold(self.places)

    def place(self, name: str = "minji", uid: int = MINJI) -> Path:
        amounts.make_place(str(self.data / name), name, uid, uid, self.places.state)
        return self.data / name

    def group(self, name: str = "minji") -> qgroups.Group | None:
        return amounts.find_group(str(self.data / name))

    def own_group(self, name: str) -> str:
        """The name of the group of somebody's place."""
        top = btrfs.inspect(str(self.data / name))
        assert top is not None
        return qgroups.own_group(top.id)

    def most(self, name: str = "minji") -> int | None:
        found = self.group(name)
        assert found is not None
        return found.most

    def write(self, path: Path, megabytes: int, uid: int = MINJI) -> bool:
        who = ("setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups")
        command = ("dd", "if=/dev/urandom", f"of={path}", "bs=1M", f"count={megabytes}", "conv=fsync", "status=none")
        return as_minji(*command).returncode == 0 if uid == MINJI else _run(*who, *command)


def _run(*command: str) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0


@pytest.fixture
def docker(disk: Disk) -> Docker:
    return Docker(disk)


@pytest.fixture
def minji(docker: Docker) -> Path:
    """Her place, which is held to the amount of all."""
    docker.hold()
    place = docker.place()
    docker.again()
    return place


def test_somebody_is_stopped_at_their_amount_and_nobody_else(docker: Docker) -> None:
    docker.hold()
    minji, jiho = docker.place(), docker.place("jiho", 20002)
    assert [one.partition(": ")[2] for one in docker.again().done] == [
        "jiho may have 100.0 MB", "minji may have 100.0 MB",
    ]  # fmt: skip
    assert docker.write(minji / "image", 80)
    # a container's files are those of subordinate ids, and count as hers
    (minji / "layer").mkdir()
    os.chown(minji / "layer", SUBUID, SUBUID)
    minji.chmod(0o711)
    assert not docker.write(minji / "layer/file", 30, SUBUID)
    assert docker.write(jiho / "image", 30, 20002)
    assert as_minji("rm", str(minji / "image")).returncode == 0
    run("btrfs", "filesystem", "sync", docker.disk.top)
    assert docker.write(minji / "again", 20)
    assert docker.most() == 100 * MB


def test_a_subvolume_of_their_own_is_no_way_around_it(docker: Docker, minji: Path) -> None:
    assert as_minji("btrfs", "subvolume", "create", str(minji / "own")).returncode == 0
    assert docker.write(minji / "own/before", 90), "until the timer's next minute"
    assert "1 subvolume counted differently" in docker.again().done[0]
    assert docker.again().done == []
    assert not docker.write(minji / "own/after", 20)
    assert not docker.write(minji / "beside", 20)


def test_nobody_fills_the_amount_of_another(docker: Docker) -> None:
    docker.hold()
    docker.place()
    jiho = docker.place("jiho", 20002)
    docker.again()
    create = ("btrfs", "subvolume", "create", "-i", docker.own_group("jiho"))
    assert as_minji(*create, str(docker.data / "minji/trap")).returncode == 0
    assert docker.write(docker.data / "minji/trap/file", 60)
    docker.again()
    assert (found := docker.group("jiho")) is not None
    assert found.used < MB
    assert docker.write(jiho / "image", 60, 20002)


def test_an_amount_that_another_has_used_up_is_given_back(docker: Docker) -> None:
    docker.hold()
    minji, jiho = docker.place(), docker.place("jiho", 20002)
    docker.again()
    create = ("btrfs", "subvolume", "create", "-i", docker.own_group("jiho"))
    assert as_minji(*create, str(minji / "trap")).returncode == 0
    assert not docker.write(minji / "trap/file", 110), "all that jiho may have"
    # to the last byte: how much a write that is refused leaves over is btrfs's own
    run("btrfs", "qgroup", "limit", str(MB), docker.own_group("jiho"), docker.disk.top)
    assert not docker.write(jiho / "image", 1, 20002)
    held = docker.again()
    assert f"{jiho}: 1 subvolume of minji no longer counted as jiho's" in held.done
    assert held.problems == []
    assert docker.write(jiho / "image", 60, 20002)
    assert not docker.write(minji / "more", 1), "it is hers"


@pytest.mark.holds("groups are changed where no limit holds")
def test_an_amount_that_is_used_up_is_changed_and_ended(docker: Docker, minji: Path) -> None:
    assert not docker.write(minji / "image", 110)
    docker.disk.fill()
    for amount in ("20M", "150M"):
        assert docker.hold(amount).problems == []
        assert docker.most() == int(amount[:-1]) * MB
    held = docker.hold("unlimited")
    assert (held.problems, qgroups.own_groups(docker.disk.uuid)) == ([], [])


@pytest.mark.holds("who moves their subvolumes is held to their amount all the same")
def test_a_subvolume_that_is_gone_when_it_is_opened_does_not_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there").mkdir()
    monkeypatch.setattr(btrfs, "nested", lambda handle: iter(["moved", "there"]))
    monkeypatch.setattr(btrfs, "read_subvolume", lambda handle: btrfs.Subvolume(301, False, "", "", ""))
    assert list(room.below(str(tmp_path))) == [(301, 0)]


def test_who_has_ever_more_subvolumes_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def below(path: str) -> Iterator[tuple[int, int]]:
        yield from ((301, 5), (302, 5), (303, 5))
        raise AssertionError("it goes on and on")

    monkeypatch.setattr(place_amounts, "MOST", 2)
    monkeypatch.setattr(btrfs, "inspect", lambda path: btrfs.Subvolume(300, False, "", "", ""))
    monkeypatch.setattr(room, "below", below)
    held = room.Kept()
    found = place_amounts._own("/data/minji", "minji", 5, held)
    assert found is not None
    assert found.ids == {300, 301, 302}
    assert held.notes == ["/data/minji: minji has more than 2 subvolumes: not all of them count"]


def test_whoever_has_just_got_a_place_is_held_at_once(docker: Docker) -> None:
    docker.hold()
    docker.place()
    assert place_amounts.follow(docker.places) == []
    assert (docker.again().done, docker.disk.keep().done) == ([], [])
    assert not docker.write(docker.data / "minji/image", 110)


def test_a_check_says_what_a_run_does_and_a_second_run_does_nothing(docker: Docker, minji: Path) -> None:
    docker.write(docker.data / "minji/image", 80)
    run("btrfs", "filesystem", "sync", docker.disk.top)
    narrow = OwnAmounts(["minji"], docker="50M")
    said = docker.hold("100M", narrow, check=True).done
    assert docker.most() == 100 * MB
    assert amounts.load(docker.places.state) == docker.wanted()
    assert docker.hold("100M", narrow).done == said
    assert said[0] == f"{docker.data}: a person's Docker data may have 100.0 MB; minji: 50.0 MB"
    assert "minji may have 50.0 MB; 83.9 MB are there: minji can write nothing until it is less" in said[1]
    assert docker.hold("100M", narrow).done == docker.hold("100M", narrow, check=True).done == []


def test_what_somebody_took_away_by_hand_is_told_and_put_back(docker: Docker, minji: Path) -> None:
    run("btrfs", "qgroup", "limit", "none", docker.own_group("minji"), docker.disk.top)
    assert "minji may have 100.0 MB" in str(docker.hold(check=True).done)
    docker.hold()
    assert docker.most() == 100 * MB


@pytest.fixture
def accounts(monkeypatch: pytest.MonkeyPatch) -> None:
    of = {"minji": MINJI, "jiho": 20002}
    monkeypatch.setattr(pwd, "getpwnam", lambda name: pwd.struct_passwd((name, "x", of[name], 0, "", "", "")))


@pytest.mark.usefixtures("accounts")
def test_without_the_setting_nothing_is_left(docker: Docker) -> None:
    docker.hold()
    docker.place()
    docker.place("jiho", 20002)
    docker.again()
    docker.write(docker.data / "minji/image", 95)
    run("btrfs", "filesystem", "sync", docker.disk.top)
    filling.main(docker.disk.places, str(docker.disk.top.parent / "metrics"), str(docker.warnings))
    assert sorted(one.name for one in docker.warnings.iterdir()) == ["minji.en", "minji.ko"]
    facts = (docker.warnings / "minji.en").stat()
    assert (facts.st_mode & 0o777, facts.st_uid) == (0o400, MINJI)
    assert "your Docker data on this node: 99.6 MB of 100.0 MB (99%)" in (docker.warnings / "minji.en").read_text()
    said = docker.hold("unlimited", check=True).done
    answer = operations.hold_amounts(
        operations.DiskAmounts("unlimited", "unlimited", amounts_data=str(docker.data)), False, docker.places,
        str(docker.warnings),
    )  # fmt: skip
    assert list(answer.operations) == said
    gone = [f"{docker.data}/{name}: no amount any more" for name in ("minji", "jiho")]
    assert said == ["nobody has an amount of the disks any more", *gone]
    assert qgroups.own_groups(docker.disk.uuid) == []
    assert not docker.warnings.exists()
    assert not (Path(docker.places.state) / amounts.RECORD).exists()
    assert docker.write(docker.data / "minji/more", 50)
    assert docker.disk.group.most is not None, "what is kept for root stays"


def test_the_group_of_who_has_gone_goes(docker: Docker, minji: Path) -> None:
    run("btrfs", "subvolume", "delete", "--commit-after", docker.data / "minji")
    run("btrfs", "subvolume", "sync", docker.disk.top)
    held = docker.again()
    assert (held.done, held.problems) == ([], [])
    assert qgroups.own_groups(docker.disk.uuid) == []


def test_a_subvolume_that_the_kernel_has_dropped_meanwhile_is_in_no_group(docker: Docker) -> None:
    docker.hold()
    top = btrfs.inspect(str(docker.place()))
    assert top is not None
    docker.again()
    group = qgroups.own_group(top.id)
    qgroups.part(str(docker.data), [top.id + 1000, top.id], group)
    assert qgroups.all_members(str(docker.data)).get(group) is None


@pytest.mark.usefixtures("accounts")
def test_a_directory_from_before_is_told_of(docker: Docker) -> None:
    docker.place()
    os.chown(docker.data / "minji", 0, 0)
    held = docker.hold()
    assert (
        "minji: made before limits.docker, so people are told their amounts, and nothing enforces them" in held.notes[0]
    )
    own = Path(docker.places.state) / OF_PEOPLE
    own.mkdir()
    measured = {"docker": {"bytes": 97 * MB, "when": 9.0, "partial": False}}
    (own / "minji.json").write_text(json.dumps(measured))
    found = amounts.of_node(docker.wanted(), amounts.DOCKER, "minji", docker.places.state)
    assert found == amounts.Used(97 * MB, 100 * MB, held=False, when=9.0)
    amount_notices.tell_node(docker.wanted(), str(docker.warnings), docker.places.state)
    assert "Please stay below it" in (docker.warnings / "minji.en").read_text()
    assert docker.group() is None


def test_where_quotas_are_off_people_are_told(docker: Docker) -> None:
    docker.disk.keep("0")
    held = docker.hold()
    assert "quotas of btrfs are off, since limits.disk_reserve is 0" in held.notes[0]
    assert held.problems == []
    docker.place()
    assert docker.again().done == []


def test_off_btrfs_people_are_told(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    places = Places(str(tmp_path / "state"), str(tmp_path / "run"))
    held = place_amounts.hold(places, Amounts(docker="100M", data=str(data)))
    assert "people are told their amounts, and nothing enforces them" in held.notes[0]
    amounts.make_place(str(data / "minji"), "minji", MINJI, MINJI, places.state)
    assert (data / "minji").stat().st_uid == MINJI
    assert [one.name for one in data.iterdir()] == ["minji"]


def test_what_fails_for_one_is_told_and_holds_for_the_others(docker: Docker, monkeypatch: pytest.MonkeyPatch) -> None:
    docker.hold()
    docker.place()
    docker.place("jiho", 20002)
    docker.place("sua", 20003)
    limit = qgroups.limit
    minji, jiho = docker.own_group("minji"), docker.own_group("jiho")

    def odd(path: str, most: int, name: str = qgroups.GROUP) -> None:
        if name == jiho:
            raise NodeError("Input/output error")
        if name != minji:
            limit(path, most, name)

    monkeypatch.setattr(qgroups, "limit", odd)
    held = docker.again()
    assert held.problems == [
        f"{docker.data}/jiho: the amount is not in force: Input/output error",
        f"{docker.data}/minji: the amount of 100.0 MB is not in force",
    ]
    assert docker.most("sua") == 100 * MB


def test_who_cannot_be_looked_at_keeps_the_amount(docker: Docker, minji: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    docker.place("sua", 20003)
    fail_for(monkeypatch, room, "below", lambda path: path.endswith("minji"), OSError(5, "Input/output error"))
    assert "Input/output error" in docker.again().problems[0]
    for name in ("minji", "sua"):
        assert docker.most(name) == 100 * MB


def scratch(docker: Docker, amount: str = "100M", *, check: bool = False) -> room.Kept:
    """Everybody has an amount of Docker's data and of scratch, on the same disk."""
    local = [str(docker.disk.local)]
    wanted = Amounts(docker="100M", data=str(docker.data), scratch=amount, scratch_in=local)
    return place_amounts.hold(docker.places, wanted, check=check)


def make_scratch(docker: Docker, name: str = "minji", uid: int = MINJI) -> Path:
    path = docker.disk.local / name
    amounts.make_place(str(path), name, uid, uid, docker.places.state, amounts.SCRATCH)
    return path


@pytest.mark.usefixtures("accounts")
def test_scratch_is_held_beside_dockers_data(docker: Docker) -> None:
    scratch(docker)
    own, data = make_scratch(docker), docker.place()
    said = scratch(docker, check=True).done
    assert [one.partition(": ")[2] for one in said] == ["minji may have 100.0 MB"] * 2
    assert scratch(docker).done == said
    assert scratch(docker).done == []
    assert not docker.write(own / "file", 110)
    assert docker.write(data / "image", 60), "each has an amount of its own"
    # a subvolume below, and one that was put into the other's group, count as scratch
    assert as_minji("rm", str(own / "file")).returncode == 0
    run("btrfs", "filesystem", "sync", docker.disk.top)
    create = ("btrfs", "subvolume", "create", "-i", docker.own_group("minji"))
    assert as_minji(*create, str(own / "own")).returncode == 0
    held = docker.again()
    assert (held.problems, len(held.done)) == ([], 2)
    assert not docker.write(own / "own/file", 110)
    assert docker.write(data / "more", 30)
    run("btrfs", "filesystem", "sync", docker.disk.top)
    used = amounts.of_node(amounts.load(docker.places.state) or Amounts(), amounts.SCRATCH, "minji")
    assert used is not None
    assert (used.held, used.most, used.percent >= amounts.NEARLY) == (True, 100 * MB, True)
    told = docker.disk.top.parent / "warnings"
    amount_notices.tell_node(amounts.load(docker.places.state), str(told), docker.places.state)
    text = (told / "minji.en").read_text()
    assert text.startswith("your Docker data on this node: ")
    assert "your scratch on this node: " in text
    # the one amount goes, and the other stays
    assert scratch(docker, "unlimited").done[-1] == f"{own}: no amount any more"
    assert docker.most() == 100 * MB
    assert docker.write(own / "rest", 30)


@pytest.mark.usefixtures("accounts")
def test_scratch_in_one_of_several_directories_is_shown(docker: Docker) -> None:
    """The site has another one, which this node lacks, or in which somebody has nothing."""
    local = [str(docker.disk.top / "missing"), str(docker.disk.local)]
    wanted = Amounts(scratch="100M", scratch_in=local)
    place_amounts.hold(docker.places, wanted)
    own = make_scratch(docker)
    place_amounts.hold(docker.places)
    found = overview.scratch(Subject(name="minji", uid=MINJI, state_directory=docker.places.state))
    assert found is not None
    assert (found["path"], found["amount"]["most"]) == (str(own), 100 * MB)


def test_dockers_data_is_held_once() -> None:
    """A site may wipe it as scratch, too; one place has one amount."""
    wanted = Amounts(docker="100M", data="/local", scratch="50M", scratch_in=["/local", "/other"])
    assert (wanted.directories(amounts.SCRATCH), wanted.directories(amounts.DOCKER)) == (["/other"], ["/local"])


def test_what_is_no_persons_scratch_has_no_amount(docker: Docker) -> None:
    run("btrfs", "subvolume", "create", docker.disk.local / "datasets")
    (docker.disk.local / "jiho").mkdir()
    os.chown(docker.disk.local / "jiho", 20002, 20002)
    held = scratch(docker)
    assert qgroups.own_groups(docker.disk.uuid) == []
    before = "jiho: made before limits.scratch, so nothing enforces amounts of scratch there"
    assert [one for one in held.notes if "scratch" in one] == [f"{docker.disk.local}: {before}"]


def test_a_directory_that_cannot_be_looked_at_keeps_its_amounts(
    docker: Docker, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch(docker)
    make_scratch(docker)
    docker.place()
    docker.again()
    fail_for(monkeypatch, room, "subvolume", lambda path: path.endswith(".docker"), OSError(5, "Input/output error"))
    assert docker.again().problems == [f"{docker.data}: no amount is in force: Input/output error"]
    assert docker.most() == 100 * MB


@pytest.mark.holds("amounts that fail do not deny what was done to accounts")
def test_amounts_that_fail_do_not_deny_what_was_done_to_accounts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / amounts.RECORD).write_text("{")
    monkeypatch.setattr(accounts_operations, "converge", lambda *_, **__: Outcome(True, Plan(DesiredState()), {}))
    (problem,) = accounts_operations.converge_accounts(
        accounts_operations.AccountsOrder(state_directory=str(tmp_path)), False
    ).conflicts
    assert problem.startswith("the accounts are done, amounts of the disks are not: ")
    assert "amounts.json is damaged" in problem
