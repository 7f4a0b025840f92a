"""The program that makes a twin's host crooked: what hosts said is data, whatever it looks like."""

from pathlib import Path
from typing import Any

import pytest

from gpuadmin.lab.light import crooked
from tests.support.adoptable import account, homes, keys

pytestmark = pytest.mark.root  # files of other people
PASSWD = "root:x:0:0:root:/root:/bin/bash\ngpuadmin:x:900:900::/var/home/gpuadmin:/bin/bash\n"
NSSWITCH = "passwd: files systemd\ngroup: files\n"
SSHD = "Include /etc/ssh/sshd_config.d/*.conf\n  include /x\nUsePAM yes\n"
HOSTILE = ("a b", "x\ny\x1b[2J", "-rf", "$(id)", "`id`;", "{{ 1 }}", "Ω" * 50, '"', "'", "%s")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "etc/ssh").mkdir(parents=True)
    for name, text in (
        ("passwd", PASSWD), ("shadow", "root:*:1::::::\n"), ("group", "root:x:0:\nsudo:x:27:\nusers:x:100:\n"),
        ("nsswitch.conf", NSSWITCH), ("ssh/sshd_config", SSHD), ("subuid", "gpuadmin:1:2\n"),
    ):  # fmt: skip
        (tmp_path / "etc" / name).write_text(text)
    return tmp_path


def grow(root: Path, **wanted: Any) -> tuple[list[str], list[list[str]]]:
    ran: list[list[str]] = []
    return crooked.grow(wanted, str(root), lambda words: ran.append(words) or True), ran


def lines(root: Path, name: str) -> list[str]:
    return (root / "etc" / name).read_text().splitlines()


def test_accounts_are_as_they_were(root: Path) -> None:
    accounts = [
        account("root", 0, home="/other"), account("toor", 0, home="/root"), account("daemon", 1),
        account("minji", 1002, password="locked", expires=10), account("jiho", 1001, gid=100, password="missing"),
        account("none", 1003, password=None),
    ]  # fmt: skip
    left, ran = grow(root, accounts=accounts)
    assert (left, ran) == ([], [])
    assert lines(root, "passwd")[2:] == [
        "toor:x:0:0::/root:/bin/bash", "minji:x:1002:1002::/home/minji:/bin/bash",
        "jiho:x:1001:100::/home/jiho:/bin/bash", "none:x:1003:1003::/home/none:/bin/bash",
    ]  # fmt: skip
    assert lines(root, "shadow") == [
        "root:*:1::::::", "toor:x:19000:0:99999:7:::", "minji:!x:19000:0:99999:7::10:", "none:*:19000:0:99999:7:::",
    ]  # fmt: skip
    before = (root / "etc/passwd").read_bytes()
    assert grow(root, accounts=accounts)[0] == []
    assert (root / "etc/passwd").read_bytes() == before, "an interrupted run is gone over again"


@pytest.mark.holds("no account of the twin's own becomes somebody's")
@pytest.mark.parametrize(
    "one",
    [
        account("gpuadmin", 1001), account("", 1001), account("a:b", 1001), account("a\nevil:x:0:0::/:/bin/sh", 1001),
        account("eve", 1001, home="/home\nevil:x:0:0::/:/bin/sh"), account("eve", 1001, shell="/bin/sh\n:"),
        account("#eve", 1001), account("+eve", 1001),
    ],
)  # fmt: skip
def test_an_account_that_no_table_can_hold_is_left_and_said(root: Path, one: dict[str, Any]) -> None:
    left, _ = grow(root, accounts=[one])
    assert left == [f"account {one['name']}"]
    assert (root / "etc/passwd").read_text() == PASSWD


def test_groups_and_ranges(root: Path) -> None:
    groups = [
        {"name": "sudo", "gid": 27, "members": ["seo", "a:b"]}, {"name": "docker", "gid": 100, "members": ["minji"]},
        {"name": "minji", "gid": 1001, "members": []}, {"name": "bad\n", "gid": 1, "members": []},
    ]  # fmt: skip
    ranges = [
        {"name": "minji", "start": 1, "count": 2}, {"name": "nonsense", "start": None, "count": None},
        {"name": "a\nb", "start": 1, "count": 2},
    ]  # fmt: skip
    left, _ = grow(root, groups=groups, subids={"subuid": ranges, "subgid": [], "../passwd": ranges})
    assert lines(root, "group") == [
        "root:x:0:", "sudo:x:27:seo", "users:x:100:", "docker:x:999:minji", "minji:x:1001:",
    ]  # fmt: skip
    assert lines(root, "subuid") == ["minji:1:2", "nonsense"]
    assert lines(root, "subgid") == []
    assert left == ["group bad\n", "line of /etc/subuid"]


@pytest.mark.holds("no word of what was seen becomes a rule of sudo's")
def test_sudo_sshd_and_names(root: Path) -> None:
    left, ran = grow(
        root, sudo=["yuna", "%staff", "a ALL=(ALL) ALL\n", "ALL", "#0"], include=False, sources=["sss", "a b"]
    )
    assert lines(root, "sudoers.d/twin") == [
        "yuna ALL=(ALL) /bin/true",
        "%staff ALL=(ALL) /bin/true",
        "ALL ALL=(ALL) /bin/true",
    ]
    assert left == ["rule of sudo's for a ALL=(ALL) ALL\n", "rule of sudo's for #0"]
    assert lines(root, "ssh/sshd_config") == ["UsePAM yes"]
    assert lines(root, "nsswitch.conf") == ["passwd: files systemd sss", "group: files"]
    assert ran == [["systemctl", "reload", "ssh"]]


def test_homes_have_odd_names_and_owners(root: Path) -> None:
    found = homes(*HOSTILE)
    of = {"owner": None, "mode": 0o4755, "problem": None}
    found["entries"] += [
        {"name": "link", "kind": "link", "uid": 0, **of}, {"name": "file", "kind": "file", "uid": 70001, **of},
        {"name": "pipe", "kind": "other", "uid": 1001, **of}, {"name": "huge", "kind": "directory", "uid": 2**33, **of},
        {"name": "..", "kind": "directory", "uid": 1, **of}, {"name": "../../x", "kind": "directory", "uid": 1, **of},
        {"name": "a" * 99, "kind": "directory", "uid": 1001, **of},
    ]  # fmt: skip
    left, ran = grow(root, homes=[found], accounts=[account("minji", 1001, gid=100)])
    assert left == ["home ..", "home ../../x"]
    assert ran == []
    there = {one.name: one.lstat() for one in (root / "home").iterdir()}
    assert set(there) == {*HOSTILE, "link", "file", "pipe", "huge", "a" * 99}
    assert [(there[one].st_uid, there[one].st_gid) for one in HOSTILE] == [(1001, 100)] * len(HOSTILE)
    assert (there["file"].st_uid, there["file"].st_mode & 0o7777) == (70001, 0o755), "nothing becomes setuid"
    assert str((root / "home/link").readlink()) == "nowhere"


@pytest.mark.holds("what was seen of another host becomes no configuration of this one")
@pytest.mark.parametrize("path", ["/etc/sudoers.d", "/etc", "/root", "/home/../etc", "/usr/x", "relative", "/", "/h\0"])
def test_nothing_is_made_where_no_homes_are(root: Path, path: str) -> None:
    (root / "root").mkdir()
    left, ran = grow(
        root, homes=[homes("evil", path=path)], exports=[{"path": path, "clients": ""}],
        mounts=[{"source": "nas1:/srv", "point": path}],
        docker={"data": path, "containers": 1, "volumes": ["evil"], "volume_count": 2},
        accounts=[account("eve", 1001, home=path)], keys={"eve": {**keys("ssh-ed25519 AAAA"), "spare": []}},
    )  # fmt: skip
    assert f"homes in {path}" in left
    assert ran == []
    assert not [one for one in root.rglob("*") if one.name in ("evil", "volumes", ".ssh", "exports", "fstab")]


@pytest.mark.holds("keys go into nobody's home but their own")
def test_keys_are_in_the_homes_that_people_own(root: Path) -> None:
    told = {"plain": ["ssh-ed25519 AAAA"], "options": [["from", "evil\n"], ["what"]], "spare": ["k1", "k2"], "odd": 1}
    people = [account("minji", 1001), account("jiho", 1002, home="/home/minji"), account("seo", 1003)]
    left, _ = grow(root, homes=[homes("minji")], accounts=people, keys=dict.fromkeys(("minji", "jiho", "seo"), told))
    file = root / "home/minji/.ssh/authorized_keys"
    assert file.read_text().splitlines() == ["ssh-ed25519 AAAA", 'from="*" k1', "restrict k2", "no key"]
    assert (file.stat().st_uid, file.stat().st_mode & 0o777, file.parent.stat().st_uid) == (1001, 0o600, 1001)
    assert left == ["keys of jiho", "keys of seo"]


def test_docker_units_exports_and_mounts(root: Path) -> None:
    left, ran = grow(
        root, active=["docker.service", "sshd.service", "../x.service"],
        docker={"data": "/var/lib/docker", "containers": 2, "volumes": ["training", "../x"], "volume_count": 4},
        exports=[{"path": "/srv/my homes", "clients": "evil"}],
        mounts=[{"source": "nas1:/srv/my homes", "point": "/home"}],
    )  # fmt: skip
    assert left == []
    assert len(list((root / "var/lib/docker/containers").iterdir())) == 2
    assert len(list((root / "var/lib/docker/volumes").iterdir())) == 3
    assert lines(root, "exports") == ["/srv/my\\040homes *(rw,no_subtree_check)"]
    assert lines(root, "fstab") == ["nas1:/srv/my\\040homes /home nfs4 defaults 0 0"]
    assert [one.name for one in (root / "etc/systemd/system").iterdir()] == ["docker.service"]
    assert ran == [
        ["mount", "-t", "nfs4", "nas1:/srv/my homes", "/home"],
        ["systemctl", "daemon-reload"], ["systemctl", "start", "docker.service"],
    ]  # fmt: skip
