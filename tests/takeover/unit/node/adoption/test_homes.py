"""Homes and the public keys in them: no private key and no option's value is told, and nothing is followed."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place
from hypothesis import given
from hypothesis import strategies as st

from gpuadmin.common.records.adoption import Keys, Link
from gpuadmin.takeover.node.adoption import bounds, homes
from tests.support.sites import public_key

KEY = public_key("minji")
MOUNTS = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:50 / /home rw - nfs4 nas1:/srv/ho\\040mes rw\n"


def home(tmp_path: Path, text: str) -> str:
    path = tmp_path / "minji" / ".ssh"
    path.mkdir(parents=True)
    (path / "authorized_keys").write_text(text)
    return str(path.parent)


@pytest.mark.holds("of a file of keys only public keys leave a host")
def test_of_a_file_of_keys_only_public_keys_are_told(tmp_path: Path) -> None:
    secret = "c2VjcmV0LXByaXZhdGUta2V5"
    text = f'# x\n{KEY}\n  {public_key("2")}\nfrom="10.*",command="run --token t0ken" {public_key("3")}\n'
    text += f"-----BEGIN OPENSSH PRIVATE KEY-----\n{secret}\nssh-ed25519 AAAA cut\npassword: hunter2\n"
    found = homes.of_home(home(tmp_path, text))
    assert found.plain == [KEY, public_key("2")]
    assert [one.names for one in found.options] == [["from", "command"]]
    assert found.odd == 4
    told = json.dumps(found, default=vars)
    assert not [word for word in (secret, "t0ken", "hunter2", "10.*") if word in told]


@given(st.text(max_size=80))
def test_whatever_is_in_front_of_a_key_only_names_of_options_are_told(text: str) -> None:
    for name in homes.option_names(f"{text} {KEY}"):
        assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")


@pytest.mark.parametrize("odd", ["link to .ssh", "link to the file", "a pipe", "a directory"])
def test_what_is_no_plain_file_is_not_read(tmp_path: Path, odd: str) -> None:
    path = home(tmp_path, KEY)
    file = tmp_path / "minji/.ssh/authorized_keys"
    elsewhere = tmp_path / "elsewhere"
    if odd == "link to .ssh":
        (tmp_path / "minji/.ssh").rename(elsewhere)
        (tmp_path / "minji/.ssh").symlink_to(elsewhere)
    else:
        file.rename(elsewhere)
        {"link to the file": lambda: file.symlink_to(elsewhere), "a pipe": lambda: os.mkfifo(file),
         "a directory": file.mkdir}[odd]()  # fmt: skip
    found = homes.of_home(path)
    assert (found.plain, bool(found.problem)) == ([], True)


def test_a_home_without_keys_has_no_problem(tmp_path: Path) -> None:
    assert homes.of_home(str(tmp_path / "missing")) == Keys([], [], 0, [], None)


def test_somebody_with_too_many_keys(tmp_path: Path) -> None:
    found = homes.of_home(home(tmp_path, "".join(f"{public_key(str(one))}\n" for one in range(60))))
    assert (len(found.plain), found.odd) == (bounds.MOST_OF_ONE, 10)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (f"{KEY}\r\n".encode("utf-16"), "the file is UTF-16, which sshd does not read"),
        (f"---- BEGIN SSH2 PUBLIC KEY ----\n{KEY.split()[1]}\n".encode(), "is a key as PuTTYgen saves it"),
        (b"ssh-ed25519-cert-v01@openssh.com AAAA minji\n", "is a certificate"),
    ],
)
def test_what_is_no_key_is_named_for_what_it_is(tmp_path: Path, data: bytes, why: str) -> None:
    path = home(tmp_path, "")
    (tmp_path / "minji/.ssh/authorized_keys").write_bytes(data)
    found = homes.of_home(path)
    assert (found.plain, found.odd > 0) == ([], True)
    assert found.why[0].startswith(why)


def test_keys_are_read_where_sshd_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second file of its own list, another one in the home, and the host's, by its name or by uid."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # the directories of tests are root's
    (tmp_path / "etc/keys").mkdir(parents=True)
    (tmp_path / "etc/passwd").write_text("minji:x:1001:1001::/home/minji/:/bin/bash\n")
    (tmp_path / "etc/shadow").touch()
    files = {
        "home/minji/.ssh/authorized_keys2": "2",
        "home/minji/keys": "keys",
        "etc/keys/minji": "u",
        "etc/keys/1001": "U",
    }
    for path, seed in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(public_key(seed))
    place = Place(root=str(tmp_path))

    def plain(*patterns: str) -> list[str]:
        found: list[str] = homes.keys(place, MOUNTS, lambda _name: patterns)["minji"].plain
        return found

    assert homes.keys(place, MOUNTS)["minji"].plain == [public_key("2")]
    assert plain("%h/keys", "/etc/keys/%u", "/etc/keys/%U") == [public_key(seed) for seed in ("keys", "u", "U")]
    assert plain() == []


@pytest.mark.root
@pytest.mark.holds("what is a person's is asked for as that person")
def test_keys_are_read_as_their_person(tmp_path: Path) -> None:
    """What the person cannot read is not read for them, though we are root; afterwards we are root again."""
    tmp_path.chmod(0o755)
    for directory in tmp_path.parents:
        if directory.stat().st_mode & 0o005 != 0o005 and directory != Path("/"):
            directory.chmod(directory.stat().st_mode | 0o055)
    path = tmp_path / "home/minji/.ssh"
    path.mkdir(parents=True)
    (path / "authorized_keys").write_text(KEY)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text("minji:x:54321:54321::/home/minji:/bin/bash\n")
    (tmp_path / "etc/shadow").write_text("")
    (path / "authorized_keys").chmod(0o600)  # root's
    place = Place(root=str(tmp_path))
    assert homes.keys(place)["minji"].problem == "Permission denied"
    assert os.geteuid() == 0
    os.chown(path / "authorized_keys", 54321, 54321)
    assert homes.keys(place)["minji"].plain == [KEY]


def test_what_is_in_a_directory_of_homes(tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(
        "minji:x:1001:1001::/home/minji:/bin/bash\ntaeho:x:1002:1002::/data/taeho:/bin/bash\nx:x:1003:1003::/:/bin/sh\n"
    )
    (tmp_path / "etc/shadow").write_text("")
    (tmp_path / "home/minji").mkdir(parents=True)
    (tmp_path / "home/x\ny\x1b[2J").mkdir()
    (tmp_path / "home/link").symlink_to("/root")
    (tmp_path / "home/moved").symlink_to("/home/minji")
    (tmp_path / "etc/exports").write_text("/srv/homes *(rw)\n/ *(ro)\n")
    found = homes.homes(Place(root=str(tmp_path)), MOUNTS)
    first, second, third = found
    assert {one.name: one.link for one in first.entries if one.link} == {
        "link": Link("/root", None),
        "moved": Link("/home/minji", os.geteuid()),
    }
    assert (third.path, third.problem) == ("/srv/homes", "missing")
    assert (first.path, first.fstype, first.source, first.mounted, first.network) == (
        "/home", "nfs4", "nas1:/srv/ho mes", True, True,
    )  # fmt: skip
    assert [(one.name, one.kind) for one in first.entries] == [
        ("link", "link"), ("minji", "directory"), ("moved", "link"), ("x y?[2J", "directory"),
    ]  # fmt: skip
    assert (second.path, second.problem, second.network) == ("/data", "missing", False)


def test_what_an_automounter_mounts_is_not_on_the_host_s_own_disk(tmp_path: Path) -> None:
    for path in ("etc/passwd", "etc/shadow"):
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    text = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:50 / /home rw - autofs /etc/auto.home rw\n"
    (found,) = homes.homes(Place(root=str(tmp_path)), text)
    assert (found.fstype, found.mounted, found.network) == ("autofs", True, True)


def test_the_directories_that_homes_are_in() -> None:
    assert homes.roots(["/data/a", "/data/b", "/x/c", "/", "/proc/1/x", "relative"]) == ["/home", "/data", "/x"]
    assert len(homes.roots([f"/d{number}/x" for number in range(100)])) == homes.MOST_ROOTS


@pytest.mark.holds("what one home does hides no other")
@pytest.mark.parametrize("mounted", [True, False])
def test_what_somebody_mounts_over_their_home_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounted: bool
) -> None:
    """Root may not look at a FUSE mount of somebody's, and one whose server is gone never answers."""
    (tmp_path / "etc").mkdir()
    for path in ("etc/passwd", "etc/shadow"):
        (tmp_path / path).write_text("")
    for name in ("fuse", "hangs", "jiho", "minji"):
        (tmp_path / "home" / name).mkdir(parents=True)
    plain = os.lstat

    def lstat(path: str) -> os.stat_result:
        if str(path).endswith("/hangs"):
            time.sleep(600)  # a FUSE server that is gone
        if str(path).endswith("/fuse"):
            raise PermissionError(13, "Permission denied", path)
        return plain(path)

    monkeypatch.setattr(os, "lstat", lstat)
    text = MOUNTS + (f"3 1 0:60 / {tmp_path}/home/hangs rw - fuse x rw\n" if mounted else "")
    begun = time.monotonic()
    entries = {one.name: one for one in homes.homes(Place(root=str(tmp_path)), text)[0].entries}
    assert time.monotonic() - begun < 10
    assert {name: one.kind for name, one in entries.items()} == {
        "fuse": "unknown", "hangs": "unknown", "jiho": "directory", "minji": "directory",
    }  # fmt: skip
    assert entries["hangs"].problem == "did not answer in 1 s"
    assert entries["fuse"].problem == "Permission denied"


def test_who_mounts_something_that_hangs_has_no_keys_and_others_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home(tmp_path / "home", KEY)
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc/passwd").write_text(
        "hana:x:1001:1001::/home/hana:/bin/bash\nminji:x:1002:1002::/home/minji:/bin/bash\n"
    )
    (tmp_path / "etc/shadow").write_text("")
    plain = homes.of_home

    def of_home(path: str, *files: list[str]) -> Any:
        if path.endswith("hana"):
            time.sleep(600)  # a FUSE server that is gone
        return plain(path, *files)

    monkeypatch.setattr(homes, "of_home", of_home)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)  # the directories of tests are root's
    found = homes.keys(Place(root=str(tmp_path)), MOUNTS)
    assert found["minji"].plain == [KEY]
    assert (found["hana"].plain, found["hana"].problem) == ([], "did not answer in 1 s")


def test_whose_keys_are_elsewhere_by_a_match_block_is_asked_of_sshd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a Match block one answer is everybody's; where sshd does not answer it is what it does by itself."""
    asked: list[tuple[str, ...]] = []

    def ask(*options: str) -> dict[str, list[str]]:
        asked.append(options)
        if any("user=hana" in one for one in options):
            raise NodeError("sshd does not accept its own settings")
        return {"authorizedkeysfile": ["/srv/%u" if options else ".ssh/authorized_keys"]}

    monkeypatch.setattr(homes, "ask_sshd", ask)
    monkeypatch.setattr(homes, "matches", lambda _place: [])
    assert list(homes.find_key_files(Place())("minji")) == [".ssh/authorized_keys"]
    assert asked == [()]
    monkeypatch.setattr(homes, "matches", lambda _place: ["Match Group students"])
    files = homes.find_key_files(Place())
    assert (list(files("minji")), list(files("hana"))) == (["/srv/%u"], [".ssh/authorized_keys"])

    def refuse(*_options: str) -> dict[str, list[str]]:
        raise NodeError("no hostkeys available")

    monkeypatch.setattr(homes, "ask_sshd", refuse)
    monkeypatch.setattr(homes, "matches", lambda _place: [])
    assert list(homes.find_key_files(Place())("minji")) == [".ssh/authorized_keys", ".ssh/authorized_keys2"]
