"""What of a host's privileges is looked for, and what is found: accounts, packages, sudo, sshd, and the whole look."""

import errno
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges import accounts, collect, packages, sshd, sudo
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import (
    DIFFERS,
    LONGEST,
    MOST,
    Found,
    Place,
    build_place,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.run import LateError

from gpuadmin.common.records.audits import PrivilegesOrder
from tests.support.sites import public_key
from tests.unit.node.privileges.conftest import FILES, PASSWD, Host


def test_one_part_that_hangs_or_fails_stops_no_other() -> None:
    def fails(place: Place) -> list[Found]:
        raise PermissionError(13, "Permission denied", "/etc/shadow")

    parts = {
        "hangs": lambda place: time.sleep(600),  # a disk that does not answer
        "fails": fails,
        "modes": lambda place: [Found("/tmp", "differs", DIFFERS)],
        "groups": lambda place: ([Found("minji in group sudo", "is root")], ["a disk was not looked at"]),
    }
    started = time.monotonic()
    answer = collect.collect(Place(), seconds=3, chosen=parts)
    assert time.monotonic() - started < 60
    assert [one.key for one in answer.found] == ["minji in group sudo", "/tmp"], "who is root comes first"
    assert set(answer.unknown) == {"hangs", "fails"}
    assert answer.aside == ["a disk was not looked at"]


def test_a_report_has_its_bounds() -> None:
    many = [Found(f"/usr/\x1b[2J{number}" + "x" * 5000, "y" * 5000) for number in range(MOST + 5)]
    found = collect.collect(Place(), chosen={"owners": lambda place: many}).found
    assert len(found) == MOST + 1
    assert found[-1].words == "and 5 more"
    assert max(len(one.key) for one in found) <= LONGEST
    assert "\x1b" not in found[0].key


def test_what_is_said_of_a_path_is_said_once() -> None:
    parts = {
        "owners": lambda place: [Found("/etc/x", "everybody may write it")],
        "modes": lambda place: [Found("/etc/x", "has mode 666"), Found("/tmp", "has mode 755", DIFFERS)],
    }
    assert [one.words for one in collect.collect(Place(), chosen=parts).found] == [
        "everybody may write it", "has mode 755",
    ]  # fmt: skip


def keys(found: list[Found]) -> list[str]:
    return [one.key for one in found]


def test_a_host_on_which_nobody_is_root_who_should_not(host: Host) -> None:
    place = host()
    assert accounts.accounts(place) == accounts.groups(place) == []


@pytest.mark.parametrize("group", sorted(accounts.GROUPS))
def test_members_of_each_group_of_privilege(host: Host, group: str) -> None:
    other = "".join(line for line in FILES["etc/group"].splitlines(True) if not line.startswith(f"{group}:"))
    place = host({"etc/group": f"{other}{group}:x:77:gpuadmin,minji\n"})
    assert keys(accounts.groups(place)) == [f"minji in group {group}"]


def test_a_group_that_is_somebodys_first(host: Host) -> None:
    place = host({"etc/passwd": f"{PASSWD}jiho:x:20001:27::/home/jiho:/bin/bash\n"})
    assert keys(accounts.groups(place)) == ["jiho in group sudo"]


def test_who_may_be_root_by_the_site(host: Host) -> None:
    place = host({"etc/group": "sudo:x:27:gpuadmin,ubuntu,minji\n"}, declared=frozenset({"ubuntu"}))
    assert keys(accounts.groups(place)) == ["minji in group sudo"]


def test_root_by_another_name_and_no_password(host: Host) -> None:
    place = host(
        {"etc/passwd": f"{PASSWD}toor:x:0:0::/:/bin/sh\nopen::20002:5::/:/bin/sh\n", "etc/shadow": "minji:::::::\n:\n"}
    )
    assert keys(accounts.accounts(place)) == ["uid 0: toor", "no password: open"]
    place = host({"etc/shadow": "minji::1::::::\n"})
    assert keys(accounts.accounts(place)) == ["no password: minji"]


def test_groups_of_a_directory(host: Host) -> None:
    def members(group: str) -> list[str]:
        return {"sudo": ["gpuadmin", "jiho"], "docker": ["minji"]}[group]

    place = host({"etc/group": "docker:x:990:minji\n"})
    assert keys(accounts.directory(place, members)) == ["jiho in group sudo"], "the files' own are said by groups"


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("??5??????   /usr/sbin/sshd", ("/usr/sbin/sshd", "content", "root")),
        ("??5?????? c /etc/login.defs", ("/etc/login.defs", "content", "differs")),
        ("missing     /usr/lib/x", ("/usr/lib/x", "is missing", "differs")),
        ("missing     /usr/share/doc/bash/README.gz", None),
        ("?????????   /usr/bin/x", None),
        ("S.5....T.    /usr/bin/su", ("/usr/bin/su", "content", "root")),
        (".M...UG..    /usr/bin/su", ("/usr/bin/su", "mode, owner, group", "root")),
        ("........P    /usr/bin/newuidmap", ("/usr/bin/newuidmap", "capabilities", "root")),
        (".......T.  c /etc/x", None),
        ("missing   c /etc/x (Permission denied)", ("/etc/x", "is missing", "differs")),
        ("dpkg: a word that nobody knows", None),
    ],
)
def test_a_line(line: str, found: tuple[str, str, str] | None) -> None:
    seen = [(one.key, one.words, one.rank) for one in packages.read([line])]
    assert [(key, words[: len(found[1])] if found else words, rank) for key, words, rank in seen] == [found] * bool(
        found
    )


def test_what_is_not_compared_in_time_is_said_and_what_was_found_stays(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        if len(command) > 2:
            return subprocess.CompletedProcess(command, 1, "??5??????   /usr/sbin/sshd\n", "")
        raise LateError(6, "??5??????   /usr/bin/x\n??5??????   /usr/bi")

    monkeypatch.setattr(packages, "run_command", answer)
    found, aside = packages.differing(host({"var/lib/dpkg/info/openssh-server.list": ""}))
    assert [one.key for one in found] == ["/usr/sbin/sshd", "/usr/bin/x"]
    assert aside == ["packaged files: not all packages could be compared within 6 s"]


def test_packages_that_are_not_dpkgs(host: Host) -> None:
    found, aside = packages.differing(host(debian=False))
    assert found == []
    assert "does not know this host's kind of packages" in aside[0]


def test_a_host_that_cannot_compare_is_unknown(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess((), 2, "", "dpkg: error: database is locked")
    monkeypatch.setattr(packages, "run_command", lambda *_, **__: done)
    with pytest.raises(NodeError, match="database is locked"):
        packages.differing(host())


def look_for(order: dict[str, object]) -> Place:
    return build_place(parse(PrivilegesOrder, order, "order"))


@pytest.mark.parametrize("names", [{"admin": ""}, {"admin": "x\n"}, {"admin": "a", "declared": [5]}, {}])
def test_names_that_nobody_has_are_refused(names: dict[str, object]) -> None:
    with pytest.raises(NodeError, match=r"is refused|is missing|is 5, not text"):
        look_for(names)


def test_only_whole_paths_are_left_out() -> None:
    aside = ["/home/", "x", "/", "//", "/home/a", "/homes"]
    place = look_for({"admin": "gpuadmin", "declared": ["ubuntu"], "aside": aside})
    assert place.aside == ("/home", "/homes")
    assert place.expected == {"root", "gpuadmin", "ubuntu"}


def test_keys_of_admins_who_have_sudo() -> None:
    """One who has none, or whose last day was, is not asked about: they are not declared."""
    admins = [
        {"name": "jiwon", "uid": 990, "sudo": True, "keys": ["ssh-ed25519 AAAA jiwon@x"]},
        {"name": "guest", "uid": 990, "sudo": False, "keys": []},
        {"name": "ended", "uid": 990, "sudo": True, "keys": []},
    ]
    place = look_for({"admin": "gpuadmin", "declared": ["jiwon"], "admins": admins})
    assert place.keys == {"jiwon": {"ssh-ed25519 AAAA"}}


BOTH = ["/var/lib/gpuadmin/keys/%u", ".ssh/authorized_keys"]
SERVE = "/usr/bin/python3 -I /var/lib/gpuadmin/lib/gpuadmin_node/cli.py serve-backups /srv/copies True"
OURS = f'restrict,from="10.0.0.1",command="{SERVE}" '


def test_settings_that_matter_and_what_releases_call_the_same() -> None:
    settings = {"port": ["22"], "usedns": ["no"], "denyusers": ["minji", "jiho"], "ciphers": ["a,b"]}
    assert sshd.known(settings) == {"usedns": ["no"], "denyusers": ["minji", "jiho"]}
    older = {"permitrootlogin": ["without-password"], "tcpkeepalive": ["yes"]}
    newer = {"permitrootlogin": ["prohibit-password"], "tcpkeepalive": ["true"]}
    assert sshd.known(older) == sshd.known(newer)
    closes = {"channeltimeout": ["session:shell=60m"]}
    assert sshd.known({**closes, "ciphers": ["x"]}) == closes, "which audit.ssh.idle_minutes asks for"
    assert sshd.known({"channeltimeout": ["none"]}) == {}, "as older releases say it"


def test_keys_of_roots(host: Host) -> None:
    """Also in the directory of keys that is gpuadmin's own."""
    place = host(
        {
            "root/.ssh/authorized_keys": f"# mine\n\n{public_key('evil')}\n",
            "var/lib/gpuadmin/keys/root": public_key("x"),
        }
    )
    found = {one.key.partition(" in ")[2]: one for one in sshd.keys(place, BOTH)[0]}
    assert set(found) == {"/root/.ssh/authorized_keys", "/var/lib/gpuadmin/keys/root"}
    assert found["/root/.ssh/authorized_keys"].key.startswith("SHA256:")
    assert found["/root/.ssh/authorized_keys"].words == "logs in as root: evil"


def test_the_key_that_hands_over_backups_is_ours_and_none_that_looks_like_it(host: Host) -> None:
    assert sshd.keys(host({"root/.ssh/authorized_keys": OURS + public_key("x")}), BOTH)[0] == []
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


def test_rules_that_the_site_means(host: Host, tmp_path: Path) -> None:
    assert sudo.sudo(host()) == []
    assert sudo.sudo(Place(root=str(tmp_path))) == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("minji ALL=(ALL) NOPASSWD: ALL", "sudo for minji in /etc/sudoers.d/x"),
        ("minji\tALL = NOPASSWD:\\\n  /usr/bin/less", "sudo for minji in /etc/sudoers.d/x"),
        ("root , minji ALL=ALL", "sudo for root, minji in /etc/sudoers.d/x"),
        ("%students ALL=(ALL) ALL # for the course", "sudo for %students in /etc/sudoers.d/x"),
        ("#20000 ALL=ALL", "sudo for #20000 in /etc/sudoers.d/x"),
        ("ALL ALL=(ALL) ALL", "sudo for ALL in /etc/sudoers.d/x"),
        ("User_Alias OPS = root, minji : OTHERS = jiho\nOPS ALL=ALL", "sudo for root, minji in /etc/sudoers.d/x"),
        ("Defaults:minji !authenticate", "sudo without a password in /etc/sudoers.d/x"),
        ("Defaults exempt_group = users", "sudo without a password in /etc/sudoers.d/x"),
    ],
)
def test_a_rule_for_somebody_else(host: Host, text: str, key: str) -> None:
    (found,) = sudo.sudo(host({"etc/sudoers.d/x": f"# by hand\n{text}\n"}))
    assert found.key == key


@pytest.mark.parametrize(("there", "hidden"), [("etc/sudoers", "etc/sudoers-rs"), ("etc/sudoers-rs", "etc/sudoers")])
def test_an_alias_of_the_other_sudo_hides_nobody(host: Host, there: str, hidden: str) -> None:
    rule = "OPS ALL=(ALL) NOPASSWD: ALL\n"
    place = host({there: f"User_Alias OPS = minji\n{rule}", hidden: f"User_Alias OPS = root\n{rule}"})
    assert [one.key for one in sudo.sudo(place)] == [f"sudo for minji in /{there}"]


def test_a_file_that_both_read_is_told_of_once(host: Host) -> None:
    place = host({"etc/sudoers-rs": "@includedir /etc/sudoers.d\n", "etc/sudoers.d/x": "minji ALL=ALL\n"})
    assert [one.key for one in sudo.sudo(place)] == ["sudo for minji in /etc/sudoers.d/x"]


@pytest.mark.parametrize("name", ["sudoers", "sudoers-rs"])
def test_rules_that_sudo_refuses(host: Host, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = host({"etc/sudoers-rs": ""})

    def visudo(command: tuple[str, ...]) -> SimpleNamespace:
        bad = command[-1] == place.path(f"/etc/{name}")
        return SimpleNamespace(returncode=int(bad), stdout="", stderr="line 1: syntax error\n")

    monkeypatch.setattr(sudo, "look", visudo)
    assert [(one.key, one.words) for one in sudo.sudo_accepts(place)] == [
        (f"/etc/{name}", "sudo refuses it: line 1: syntax error")
    ]


def test_what_sudo_does_not_read_is_no_rule(host: Host) -> None:
    rule = "minji ALL=ALL\n"
    place = host(
        {"etc/sudoers.d/x.bak": rule, "etc/sudoers.d/x~": rule, "etc/sudoers.d/y": f"#{rule}Cmnd_Alias X = /x\n"}
    )
    assert sudo.sudo(place) == []


def test_a_file_that_is_included_from_elsewhere(host: Host) -> None:
    place = host({"etc/sudoers.d/x": "#include ../../opt/rules\n", "opt/rules": "minji ALL=ALL\n"})
    assert [one.key for one in sudo.sudo(place)] == ["sudo for minji in /opt/rules"]


def test_files_that_include_each_other_come_to_an_end(host: Host) -> None:
    found = sudo.sudo(host({"etc/sudoers.d/x": "@include /etc/sudoers.d/x\n"}))
    assert [one.words for one in found] == [f"and what comes after it is not read: more than {sudo.MOST_FILES} files"]


def test_a_file_that_cannot_be_read_is_said(host: Host, tmp_path: Path) -> None:
    place = host()
    (tmp_path / "etc/sudoers.d/x").symlink_to("gpuadmin")
    (found,) = sudo.sudo(place)
    assert "was not read" in found.words


def test_doas_and_polkit(host: Host) -> None:
    rules = {"etc/doas.conf": "# x\npermit nopass minji\ndeny jiho\n", "etc/polkit-1/rules.d/00-x.rules": "polkit"}
    brought = {
        "etc/polkit-1/rules.d/50-default.rules": "",
        "var/lib/dpkg/info/polkitd.list": "/etc/polkit-1/rules.d/50-default.rules\n",
    }
    assert [one.key for one in sudo.others(host({**rules, **brought}))] == [
        "doas in /etc/doas.conf", "/etc/polkit-1/rules.d/00-x.rules",
    ]  # fmt: skip
