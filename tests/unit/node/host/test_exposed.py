"""Private files that others can read: by name, mode and owner, whatever a person makes of their home."""

import os
import struct
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.host import exposed


def home(top: Path, name: str = "minji", mode: int = 0o755) -> Path:
    path = top / name
    path.mkdir(parents=True)
    path.chmod(mode)
    return path


def put(path: Path, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a secret")
    path.chmod(mode)


def names(top: Path, **more: float) -> list[str]:
    found = exposed.collect([str(top)], **more)  # type: ignore[arg-type]  # two numbers
    assert "a secret" not in str(found)
    return [os.path.relpath(one.path, top) for one in found.found]


@pytest.mark.parametrize(
    ("path", "secret"),
    [
        (".ssh/id_ed25519", True), (".ssh/id_ed25519.pub", False), (".env", True), ("x/.env.local", True),
        (".env.example", False), ("server.pem", True), ("cacert.pem", False), ("fullchain.pem", False),
        (".docker/config.json", True), ("config.json", False), (".kube/config", True), ("token", True),
        ("hf_token", True), ("stop_token", False), ("a/site-packages/x/private.key", False), ("private.key", True),
        (".aws/credentials", True), ("notes.txt", False),
    ],
)  # fmt: skip
def test_what_is_usually_secret(path: str, secret: bool) -> None:
    assert exposed.is_secret(path.encode()) is secret


def test_who_can_read_it(tmp_path: Path) -> None:
    minji = home(tmp_path)
    put(minji / "a.key", 0o644)
    put(minji / "b.key", 0o600)
    put(minji / "c.key", 0o640)
    os.chown(minji / "c.key", os.getuid(), os.getgid())
    put(minji / "closed/d.key")
    (minji / "closed").chmod(0o700)
    # a group that is the owner's own (its gid is the uid) is nobody else
    assert names(tmp_path) == ["minji/a.key"] + (["minji/c.key"] if os.getuid() != os.getgid() else [])


def test_a_home_that_is_closed_is_not_walked(tmp_path: Path) -> None:
    put(home(tmp_path, mode=0o700) / "a.key")
    put(home(tmp_path, "jiho") / "x/y/b.key")
    (tmp_path / "jiho/x").chmod(0o700)
    assert names(tmp_path) == []


def test_what_a_person_puts_there_is_not_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    put(outside / "z.key")
    homes = tmp_path / "homes"
    minji = home(homes)
    (minji / "link").symlink_to(outside)
    (minji / "a.key").symlink_to(outside / "z.key")
    os.mkfifo(minji / "b.key", 0o644)
    (minji / "c.key").mkdir()
    (homes / "jiho").symlink_to(outside)
    put(minji / "\x1b[2J\n/x.key".replace("/", "_"))
    found = exposed.collect([str(homes), str(tmp_path / "none")])
    assert [one.path for one in found.found] == [f"{minji}/?[2J _x.key"]
    assert found.unknown == {}


def test_one_person_does_not_hide_another(tmp_path: Path) -> None:
    many = home(tmp_path, "a")
    put(many / "0.key")
    for number in range(300):
        (many / f"{number}").touch()
    put(home(tmp_path, "b") / "x.key")
    found = exposed.collect([str(tmp_path)], entries=100)
    assert [one.path for one in found.found] == [f"{tmp_path}/a/0.key", f"{tmp_path}/b/x.key"]
    assert list(found.unknown) == [f"{tmp_path}/a"]


@pytest.mark.root
def test_one_persons_files_hide_nobody_elses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 decoys of minji's, in a directory that comes first, and as many of her subuids."""
    monkeypatch.setattr(exposed, "_owner", lambda uid: {33000: "minji", 33001: "jiho"}.get(uid, f"uid {uid}"))
    for person, number, first, step in (("a", 300, 33000, 0), ("b", 300, 200000, 1), ("c", 1, 33001, 0)):
        folder = home(tmp_path, person)
        for name in range(number):
            put(folder / f"{name:04}.key")
            os.chown(folder / f"{name:04}.key", first + name * step, first)
    found = exposed.collect([str(tmp_path)])
    owners = [one.owner for one in found.found]
    assert owners.count("minji") == exposed.MOST_OF_ONE
    assert owners.count("jiho") == 1
    assert len(owners) == 2 * exposed.MOST_OF_ONE + 1
    assert found.more == {"minji": 295, exposed.NAMELESS: 295}


def acl(path: Path, named: int, mask: int) -> None:
    """Give uid 33005 these rights, and the owner's group none."""
    nobody = 2**32 - 1
    entries = [(1, 7, nobody), (2, named, 33005), (4, 0, nobody), (16, mask, nobody), (32, 0, nobody)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *one) for one in entries)
    os.setxattr(path, "system.posix_acl_access", value)


@pytest.mark.root
@pytest.mark.parametrize(("named", "mask", "seen"), [(4, 4, True), (4, 0, False), (0, 7, False), (7, 7, True)])
def test_what_an_acl_opens_to_one_person(tmp_path: Path, named: int, mask: int, seen: bool) -> None:
    minji = home(tmp_path)
    put(minji / "a.key", 0o600)
    os.chown(minji / "a.key", 33000, 33000)
    acl(minji / "a.key", named, mask)
    assert names(tmp_path) == (["minji/a.key"] if seen else [])


@pytest.mark.root
def test_a_home_that_an_acl_opens_is_walked(tmp_path: Path) -> None:
    minji = home(tmp_path, mode=0o700)
    put(minji / "a.key")
    os.chown(minji, 33000, 33000)
    assert names(tmp_path) == []
    acl(minji, 5, 5)
    assert names(tmp_path) == ["minji/a.key"]


@pytest.mark.root
@pytest.mark.parametrize(("mode", "gid", "seen"), [(0o710, 33005, True), (0o710, 33000, False), (0o700, 33005, False)])
def test_a_home_that_a_group_can_enter_is_walked(tmp_path: Path, mode: int, gid: int, seen: bool) -> None:
    """Unless that is the owner's own group, whose gid is the uid."""
    minji = home(tmp_path)
    put(minji / "a.key")
    os.chown(minji, 33000, gid)
    minji.chmod(mode)
    assert names(tmp_path) == (["minji/a.key"] if seen else [])


def test_who_was_not_looked_at_is_counted(tmp_path: Path) -> None:
    for number in range(exposed.MOST_UNKNOWN + 5):
        many = home(tmp_path, f"p{number:02}")
        for name in range(20):
            (many / f"{name}").touch()
    unknown = exposed.collect([str(tmp_path)], entries=5).unknown
    assert len(unknown) == exposed.MOST_UNKNOWN + 1
    assert unknown[exposed.OTHERS] == "5 more were not looked at to the end"


@pytest.mark.root
def test_homes_of_the_host_s_own_accounts(tmp_path: Path) -> None:
    """An admin's, a service's: those that are theirs, that no place has, and that are no file server's."""
    passwd, place = tmp_path / "passwd", tmp_path / "srv"
    put(home(tmp_path / "home", "seed") / ".ssh/id_rsa")
    put(home(place) / "a.key")
    for name in ("far", "later"):
        put(home(tmp_path / name, "jiho") / "b.key")
    (tmp_path / "link").symlink_to(tmp_path / "home/seed")
    (tmp_path / "other").mkdir()
    os.chown(tmp_path / "other", 33000, 33000)
    given = [
        "home/seed", "home/seed/", "link", "srv/minji", "far/jiho", "later/jiho", "other", "none", "passwd/x"
    ]  # fmt: skip
    lines = [f"a{number}:x:{os.getuid()}:1::{tmp_path}/{one}:/bin/sh" for number, one in enumerate(given)]
    passwd.write_text("\n".join([*lines, f"root:x:{os.getuid()}:0::/:/bin/sh", "b:x:1:1:::", "+::::::"]) + "\n")
    mounts = "".join(
        f"{number} 1 0:{number} / {point} rw - {kind} x rw\n"
        for number, (point, kind) in enumerate(
            [("/", "ext4"), (f"{tmp_path}/far", "nfs4"), (f"{tmp_path}/later", "autofs")]
        )
    )
    found = exposed.local_homes([str(place)], str(passwd), mounts)
    assert found == [f"{tmp_path}/home/seed"]
    named = exposed.collect([str(place)], found)
    assert [one.path for one in named.found] == [f"{place}/minji/a.key", f"{tmp_path}/home/seed/.ssh/id_rsa"]
    (tmp_path / "home/seed").chmod(0o700)
    assert [one.path for one in exposed.collect([], found).found] == []
