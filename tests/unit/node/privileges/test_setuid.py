"""Programs with privileges, modes and owners, and files of root's that others can change. find(1) itself walks."""

import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import btrfs
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges import modes, setuid
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place
from ansible_collections.gpuadmin.node.plugins.module_utils.run import LateError, run_command

from tests.unit.node.privileges.conftest import Host

pytestmark = pytest.mark.root

ON_DISK = "1 0 0:1 / / rw - ext4 /dev/sda1 rw\n"


def ranks_of(place: Place, mountinfo: str = ON_DISK) -> dict[str, str]:
    return {one.key: one.rank for one in modes.modes(place, mountinfo)}


@pytest.fixture
def tree(host: Host, tmp_path: Path) -> Place:
    place = host({"tmp/x": "", "var/tmp/x": "", "home/x": "", "root/x": "", "etc/sudoers-rs": ""})
    for name, mode in (
        ("tmp", 0o1777),
        ("var/tmp", 0o1777),
        ("etc/shadow", 0o640),
        ("etc/sudoers", 0o440),
        ("etc/sudoers-rs", 0o444),
    ):
        (tmp_path / name).chmod(mode)
    tmp_path.chmod(0o755)
    return place


@pytest.mark.parametrize(
    ("name", "mode", "rank"),
    [
        ("tmp", 0o755, "differs"), ("tmp", 0o777, "differs"), ("var/tmp", 0o700, "differs"),
        ("etc", 0o777, "root"), ("etc", 0o700, "differs"), ("home", 0o750, "differs"), ("root", 0o770, "root"),
        ("etc/shadow", 0o644, "root"), ("etc/passwd", 0o600, "differs"), ("etc/sudoers", 0o460, "root"),
        ("etc/sudoers-rs", 0o464, "root"),
    ],
)  # fmt: skip
def test_each_mode(tree: Place, tmp_path: Path, name: str, mode: int, rank: str) -> None:
    assert ranks_of(tree) == {}
    (tmp_path / name).chmod(mode)
    assert ranks_of(tree) == {f"/{name}": rank}


def test_an_owner_that_is_not_root(tree: Place, tmp_path: Path) -> None:
    os.chown(tmp_path / "etc/sudoers.d", 20000, 0)
    assert ranks_of(tree) == {"/etc/sudoers.d": "root"}


def test_what_is_missing_and_what_loads_into_all(tree: Place, tmp_path: Path) -> None:
    (tmp_path / "tmp/x").unlink()
    (tmp_path / "tmp").rmdir()
    (tmp_path / "etc/ld.so.preload").write_text("/tmp/x.so\n")
    assert ranks_of(tree) == {"/tmp": "differs", "/etc/ld.so.preload": "root"}


def test_homes_on_a_server_are_not_looked_at(tree: Place, tmp_path: Path) -> None:
    (tmp_path / "home").chmod(0o700)
    assert ranks_of(tree, f"{ON_DISK}2 1 0:2 / /home rw - nfs4 storage1:/homes rw\n") == {}
    assert ranks_of(tree, f"{ON_DISK}2 1 0:2 / /home rw - autofs systemd-1 rw\n") == {}


@pytest.mark.parametrize(
    ("subvolume", "read_only", "keys"),
    [("/roots/a", False, ["/"]), ("/roots/a", True, []), ("/", False, [])],
    ids=["open", "closed", "a root of its own"],
)
def test_a_root_that_is_writable(
    host: Host, monkeypatch: pytest.MonkeyPatch, subvolume: str, read_only: bool, keys: list[str]
) -> None:
    seen = SimpleNamespace(read_only=read_only)
    monkeypatch.setattr(btrfs, "inspect", lambda path: seen)
    text = f"1 0 0:1 {subvolume} / rw - btrfs /dev/sda2 rw,subvolid=256\n"
    assert [one.key for one in modes.writable_root(host(), text)] == keys


def found_of(place: Place) -> dict[str, str]:
    return {one.key: one.words for one in setuid.programs(place, mountinfo="")[0]}


def test_what_packages_ship_so(host: Host) -> None:
    assert found_of(host()) == {}, "mount is listed below /bin, which is a link to /usr/bin today"


@pytest.mark.parametrize("name", ["usr/local/bin/mybash", "var/tmp/.b", "opt/x/with\nline"])
@pytest.mark.parametrize("mode", [0o4755, 0o2755])
def test_a_program_that_no_package_owns(host: Host, tmp_path: Path, name: str, mode: int) -> None:
    place = host({name: "#!"})
    (tmp_path / name).chmod(mode)
    assert "no package owns it" in found_of(place)[f"/{name}"]


@pytest.mark.parametrize("name", ["sudo", "sudo.ws", "sudo-rs", "su-rs"])
def test_what_ubuntu_ships_for_sudo(host: Host, tmp_path: Path, name: str) -> None:
    place = host()
    (tmp_path / "usr/bin/find").rename(tmp_path / "usr/bin" / name)
    (tmp_path / "usr/bin" / name).chmod(0o4755)
    for listed in (tmp_path / "var/lib/dpkg/info").glob("*.list"):
        listed.write_text(listed.read_text().replace("/usr/bin/find\n", f"/usr/bin/{name}\n"))
    assert found_of(place) == {}


def test_a_packaged_program_that_became_setuid(host: Host, tmp_path: Path) -> None:
    place = host()
    (tmp_path / "usr/bin/find").chmod(0o4755)
    assert found_of(place) == {"/usr/bin/find": "has setuid root (mode 4755); its package is not known to ship it so"}
    (tmp_path / "var/lib/dpkg/statoverride").write_text("root root 4755 /usr/bin/find\n")
    assert found_of(place) == {}, "the admin told dpkg"


def test_file_capabilities(host: Host, tmp_path: Path) -> None:
    place = host()
    value = bytes.fromhex("0100000280000000000000000000000000000000")
    try:
        os.setxattr(tmp_path / "usr/bin/find", setuid.CAPABILITIES, value)
    except OSError as error:
        pytest.skip(f"this file system takes no capabilities: {error.strerror}")
    (tmp_path / "usr/bin/find").chmod(0o755)
    assert list(found_of(place)) == ["/usr/bin/find"]


def test_what_people_make_of_their_own_is_not_walked_or_not_root(host: Host, tmp_path: Path) -> None:
    place = host({"tmp/mine": "#!", "home/minji/x": "#!"}, aside=("/home",))
    os.chown(tmp_path / "tmp/mine", 20000, 20000)
    for name in ("tmp/mine", "home/minji/x"):
        (tmp_path / name).chmod(0o4755)
    assert found_of(place) == {}


def test_a_program_that_lost_what_it_needs(host: Host, tmp_path: Path) -> None:
    place = host()
    (tmp_path / "usr/bin/newuidmap").chmod(0o755)
    assert found_of(place) == {"/usr/bin/newuidmap": "is not setuid (mode 755): rootless Docker does not start"}


def test_a_walk_that_is_stopped_says_so_and_keeps_what_it_found(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(command: Sequence[str], *, seconds: float) -> object:
        raise LateError(seconds, "s4755 0 /usr/local/bin/x\0s4755 0 /usr/loc")

    monkeypatch.setattr(setuid, "run_command", stopped)
    place = host(root="/")
    monkeypatch.setattr(setuid, "owned", lambda place, paths: set())
    found, aside = setuid.programs(place, mountinfo="")
    assert "/usr/local/bin/x" in [one.key for one in found]
    assert "/usr/loc" not in [one.key for one in found]
    assert any("/usr, /etc was stopped after" in one for one in aside)
    assert any("owners and modes" in one for one in setuid.foreign(place)[1])


def test_who_makes_millions_of_files_hides_nothing_elsewhere(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(command: Sequence[str], *, seconds: float) -> object:
        if any(one.endswith(("/tmp", "/var/tmp")) for one in command[2 : command.index("-xdev")]):
            raise LateError(seconds, "")
        return run_command(command, seconds=60)

    place = host({"opt/app/x": "#!", "tmp/x": "", "var/tmp/x": ""})
    (tmp_path / "opt/app/x").chmod(0o4755)
    monkeypatch.setattr(setuid, "run_command", slow)
    found, aside = setuid.programs(place, mountinfo="")
    assert [one.key for one in found] == ["/opt/app/x"]
    assert [one for one in aside if "stopped" in one and "/var/tmp" in one]


def test_where_nobody_else_writes_nothing_is_walked_in_its_place(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    walked = []
    monkeypatch.setattr(setuid, "_run", lambda command, end: walked.append(command) or ([], False))
    setuid.programs(host(), mountinfo="")
    assert all(command[2] != "-xdev" for command in walked), "find without a start walks where it is"


def test_a_directory_that_is_left_out_is_a_name_and_no_pattern(host: Host, tmp_path: Path) -> None:
    place = host({"srv/a/x": "#!", "srv/[ab]/x": "#!"}, aside=("/srv/[ab]",))
    for name in ("a", "[ab]"):
        (tmp_path / "srv" / name / "x").chmod(0o4755)
    assert list(found_of(place)) == ["/srv/a/x"]


def test_a_packaged_program_that_a_service_owns_or_nobody_can_run(host: Host, tmp_path: Path) -> None:
    place = host({"usr/bin/x": "", "usr/bin/y": ""})
    for name, mode, uid in (("find", 0o755, 0), ("x", 0o750, 0), ("y", 0o755, 104)):
        os.chown(tmp_path / "usr/bin" / name, uid, 0)
        (tmp_path / "usr/bin" / name).chmod(mode)
    assert {one.key: one.rank for one in setuid.closed(place)} == {"/usr/bin/x": "differs", "/usr/bin/y": "root"}


def test_what_others_can_change(host: Host, tmp_path: Path) -> None:
    place = host({"usr/local/share/theirs/a": "", "etc/open": "", "opt/app/x": "", "usr/share/sticky/x": ""})
    for name in ("usr/local/share/theirs", "usr/local/share/theirs/a", "opt/app"):
        os.chown(tmp_path / name, 20000, 20000)
    (tmp_path / "etc/open").chmod(0o666)
    (tmp_path / "usr/share/sticky").chmod(0o1777)
    found, aside = setuid.foreign(place)
    assert {one.key: one.rank for one in found} == {
        "/usr/local/share/theirs": "root", "/etc/open": "root", "/opt/app": "differs",
    }  # fmt: skip
    assert aside == []
