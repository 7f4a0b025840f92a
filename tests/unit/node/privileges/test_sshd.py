"""sshd's settings, and the keys by which somebody is root."""

import errno
import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges import sshd

from tests.support.sites import public_key
from tests.unit.node.privileges.conftest import FILES, Host

BOTH = ["/var/lib/gpuadmin/keys/%u", ".ssh/authorized_keys"]
SERVE = "/usr/bin/python3 -I /var/lib/gpuadmin/lib/gpuadmin_node/cli.py serve-backups /srv/copies True"
OURS = f'restrict,from="10.0.0.1",command="{SERVE}" '


def test_settings_that_matter() -> None:
    settings = {"port": ["22"], "usedns": ["no"], "denyusers": ["minji", "jiho"], "ciphers": ["a,b"]}
    assert sshd.known(settings) == {"usedns": ["no"], "denyusers": ["minji", "jiho"]}


def test_what_releases_call_the_same_is_the_same() -> None:
    older = {"permitrootlogin": ["without-password"], "tcpkeepalive": ["yes"]}
    newer = {"permitrootlogin": ["prohibit-password"], "tcpkeepalive": ["true"]}
    assert sshd.known(older) == sshd.known(newer)


def test_a_key_of_roots(host: Host) -> None:
    place = host({"root/.ssh/authorized_keys": f"# mine\n\n{public_key('evil')}\n"})
    (found,), _ = sshd.keys(place, BOTH)
    assert found.key.startswith("SHA256:")
    assert found.key.endswith(" in /root/.ssh/authorized_keys")
    assert found.words == "logs in as root: evil"


def test_a_key_in_gpuadmins_own_directory_of_keys_is_roots_as_well(host: Host) -> None:
    (found,), _ = sshd.keys(host({"var/lib/gpuadmin/keys/root": public_key("evil")}), BOTH)
    assert "/var/lib/gpuadmin/keys/root" in found.key


def test_the_key_that_hands_over_backups_is_ours(host: Host) -> None:
    assert sshd.keys(host({"root/.ssh/authorized_keys": OURS + public_key("x")}), BOTH)[0] == []


def test_one_that_only_looks_like_it_is_not(host: Host) -> None:
    for forged in (
        OURS.replace("restrict,", "restrict,pty,"),
        OURS.replace("restrict,", ""),
        OURS.replace("serve-backups /srv", "serve-backups /srv; sh /srv"),
        OURS.replace("/usr/bin/python3 -I", "/bin/sh -c x; python3 -I"),
    ):
        found, _ = sshd.keys(host({"root/.ssh/authorized_keys": forged + public_key("x")}), BOTH)
        assert len(found) == 1, forged


def test_the_admins_keys_are_for_comparison(host: Host) -> None:
    found, keys = sshd.keys(host({"var/home/gpuadmin/.ssh/authorized_keys": public_key("a") + "\n"}), BOTH)
    assert found == []
    assert [one[:7] for one in keys["gpuadmin"]] == ["SHA256:"]


@pytest.mark.holds("a key that an admin has and the site does not is named")
def test_an_admins_key_that_nobody_declared(host: Host) -> None:
    passwd = FILES["etc/passwd"] + "jiwon:x:901:901::/var/home/jiwon:/bin/sh\n"
    mine = " ".join(public_key("jiwon").split()[:2])
    place = host(
        {
            "etc/passwd": passwd,
            "var/home/jiwon/.ssh/authorized_keys": f'{mine} laptop\nfrom="10.0.0.1" {mine}\n{public_key("stolen")}\n',
        },
        keys={"jiwon": frozenset({mine}), "away": frozenset()},
    )
    (found,), _ = sshd.keys(place, BOTH)
    assert found.key.endswith(" in /var/home/jiwon/.ssh/authorized_keys")
    assert found.words == "logs in as jiwon, who may be root: stolen"
    assert found.rank == "root"


@pytest.mark.root  # a home that root may not look into is made by owners and modes
@pytest.mark.holds("an admin's keys are read as that admin")
def test_a_home_that_root_may_not_look_into(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a node whose storage host shows root nothing: there sshd, which asks as the admin, does get the keys."""
    passwd = FILES["etc/passwd"] + "jiwon:x:901:902::/home/jiwon:/bin/sh\n"
    place = host(
        {"etc/passwd": passwd, "home/jiwon/.ssh/authorized_keys": public_key("stolen")}, keys={"jiwon": frozenset()}
    )
    Path(place.path("/home/jiwon")).chmod(0o700)
    for name in ("", ".ssh", ".ssh/authorized_keys"):
        os.chown(place.path(f"/home/jiwon/{name}"), 901, 902)
    whole = sshd.read_small

    def squashed(path: str, directory: int | None = None) -> bytes:
        if os.geteuid() == 0 and "home/" in path:
            raise PermissionError(errno.EACCES, "Permission denied", path)
        assert os.getegid() == (902 if "jiwon" in path else os.geteuid())
        return whole(path, directory)

    monkeypatch.setattr(sshd, "read_small", squashed)
    (found,), _ = sshd.keys(place, BOTH)
    assert found.words == "logs in as jiwon, who may be root: stolen"
    assert os.geteuid() == 0
    Path(place.path("/home/jiwon/.ssh/authorized_keys")).chmod(0)  # nor may jiwon
    (found,), _ = sshd.keys(place, BOTH)
    assert (found.key, found.words) == (
        "/home/jiwon/.ssh/authorized_keys",
        "decides who is jiwon, and was not read: Permission denied",
    )
