"""Private files that others can read: by name, mode and owner, whatever a person makes of their home."""

import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import exposed


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
    return [os.path.relpath(one["path"], top) for one in found["found"]]


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


@pytest.mark.holds("what others cannot enter is not walked")
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
    assert [one["path"] for one in found["found"]] == [f"{minji}/?[2J _x.key"]
    assert found["unknown"] == {}


@pytest.mark.holds("one person's files do not take the time of all")
def test_one_person_does_not_hide_another(tmp_path: Path) -> None:
    many = home(tmp_path, "a")
    put(many / "0.key")
    for number in range(300):
        (many / f"{number}").touch()
    put(home(tmp_path, "b") / "x.key")
    found = exposed.collect([str(tmp_path)], entries=100)
    assert [one["path"] for one in found["found"]] == [f"{tmp_path}/a/0.key", f"{tmp_path}/b/x.key"]
    assert list(found["unknown"]) == [f"{tmp_path}/a"]


def test_what_is_reported_has_bounds(tmp_path: Path) -> None:
    minji = home(tmp_path)
    for number in range(exposed.MOST + 50):
        put(minji / f"{number:04}.key")
    put(home(tmp_path, "jiho") / "x.key")
    found = exposed.collect([str(tmp_path)])
    assert len(found["found"]) == exposed.MOST
    assert found["more"] == 51


@pytest.mark.holds("whose files were not looked at is said, or how many they are")
def test_who_was_not_looked_at_is_counted(tmp_path: Path) -> None:
    for number in range(exposed.MOST_UNKNOWN + 5):
        many = home(tmp_path, f"p{number:02}")
        for name in range(20):
            (many / f"{name}").touch()
    unknown = exposed.collect([str(tmp_path)], entries=5)["unknown"]
    assert len(unknown) == exposed.MOST_UNKNOWN + 1
    assert unknown[exposed.OTHERS] == "5 more were not looked at to the end"
