"""What does not fit: a fault of a host or of a person gives the conflict of its kind, and nothing else does."""

import shlex
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuadmin.accounts.importing import read_keys
from gpuadmin.config.fields import key_fingerprint
from gpuadmin.takeover.adoption import page as pages
from gpuadmin.takeover.adoption.conflict import Conflict
from gpuadmin.takeover.adoption.proposal import Proposal, propose
from gpuadmin.takeover.adoption.root_conflicts import find_overlaps
from gpuadmin.takeover.adoption.seen import Host
from tests.support.adoptable import ANSWER, ROOT, account, homes, host, keys, storage
from tests.support.sites import public_key

MINJI, JIHO = account("minji", 1001), account("jiho", 1002)
GPUADMIN = account("gpuadmin", 900, home="/var/home/gpuadmin")
WITH_KEYS = {"minji": keys(public_key("minji")), "jiho": keys(public_key("jiho"))}


def proposal(*hosts: Host, login: str = "gpuadmin") -> Proposal:
    return propose("lab", hosts, login=login)


def conflicts(*hosts: Host, login: str = "gpuadmin") -> dict[str, list[Conflict]]:
    found: dict[str, list[Conflict]] = {}
    for one in proposal(*hosts, login=login).conflicts:
        found.setdefault(one.kind, []).append(one)
    return found


def good(name: str = "gpu1", **parts: Any) -> Host:
    return host(name, **{"accounts": [ROOT, GPUADMIN, MINJI, JIHO], "keys": WITH_KEYS, **parts})


NAS = storage(accounts=[ROOT, GPUADMIN])


def test_a_cluster_in_which_everything_fits_has_no_conflict() -> None:
    assert conflicts(NAS, good(), good("gpu2")) == {}


def accounts(*others: dict[str, Any]) -> dict[str, Any]:
    names = {one["name"] for one in others}
    return {"accounts": [one for one in (ROOT, GPUADMIN, MINJI, JIHO) if one["name"] not in names] + list(others)}


def group(name: str, *members: str, gid: int = 990) -> dict[str, Any]:
    return {"groups": [{"name": name, "gid": gid, "members": list(members)}]}


def ranges(*lines: tuple[str, int | None, int | None]) -> dict[str, Any]:
    told = [{"name": name, "start": start, "count": count} for name, start, count in lines]
    return {"subids": {"subuid": told, "subgid": []}}


def docker(**more: Any) -> dict[str, Any]:
    return {"docker": {**ANSWER["docker"], **more}}


def active(*units: str) -> dict[str, Any]:
    return {"services": {"active": list(units), "repositories": []}}


def with_keys(**whose: dict[str, Any]) -> dict[str, Any]:
    return {"keys": {**WITH_KEYS, **whose}}


def sshd(**settings: list[str]) -> dict[str, Any]:
    return {"sshd": {"include": True, "settings": settings, "problem": None}}


LDAP = {"sources": ["sss"], "accounts": [{"name": "hana", "uid": 1500}]}
ODD_ENTRY = {"name": "a b", "kind": "link", "uid": 0, "owner": "root", "mode": 0o777}
NOBODYS = {"name": "hana", "kind": "directory", "uid": 70001, "owner": None, "mode": 0o700, "problem": None}
LINKED = {"name": "minji", "kind": "link", "uid": 0, "owner": "root", "mode": 0o777, "problem": None,
          "link": {"leads": "/data/minji", "uid": 1001}}  # fmt: skip
OPTIONED = keys(public_key("minji"), options=[{"names": ["command", "from"], "fingerprint": "SHA256:x"}])
#: What differs on gpu2 from gpu1, where everything fits → the kinds of conflict, with a word of the first.
FAULTS: list[tuple[dict[str, Any], dict[str, str]]] = [
    (accounts(account("minji", 1005)), {"uid differs": "minji has 1001 on gpu1, 1005 on gpu2"}),
    (accounts(account("minji", 1002), account("jiho", 1001)), {"uid swapped": "jiho and minji"}),
    (accounts(account("ham", 1001)) | {"keys": {**WITH_KEYS, "ham": keys(public_key("ham"))}},
     {"uid differs": "ham", "uid shared": "uid 1001 is several people's: ham on gpu2; minji on gpu1, gpu2",
      "key to be decided": "is on gpu2, and not on gpu1", "no key": "ham"}),
    (accounts(account("Park.J", 1007)), {"person left out": "Park.J (1007 on gpu2)"}),
    (accounts(account("jenkins", 1015, shell="/sbin/nologin")), {"account that is no person's": "jenkins"}),
    (accounts({**MINJI, "gid": 100}), {"group differs": "minji"}),
    (group("lab", gid=1002), {"gid taken": "gid 1002, which is jiho's by their uid, is the group lab's"}),
    (group("minji", gid=1012), {"gid differs": "minji: the group of their name has another gid than their uid"}),
    (accounts(account("Prof.Choi", 1003)) | group("Prof.Choi", gid=1002),
     {"gid taken": "is the group Prof.Choi's", "person left out": "Prof.Choi"}),
    (accounts({**MINJI, "expires": 19754}), {"end differs": "no end on gpu1, 2024-01-31 on gpu2"}),
    (accounts({**MINJI, "closed": "renumber"}),
     {"kept out": "minji: gpuadmin renumber has closed their accounts and has not ended"}),
    (accounts({**MINJI, "closed": "move-homes"}), {"kept out": "minji: gpuadmin move-homes"}),
    (accounts({**MINJI, "password": "locked"}), {"password locked": "minji"}),
    (accounts({**MINJI, "password": "empty"}), {"no password": "minji"}),
    (accounts({**MINJI, "shell": "/bin/zsh"}), {"shell differs": "minji"}),
    (accounts({**MINJI, "home": "/data/minji"}), {"home elsewhere": "minji has /data/minji"}),
    (accounts(account("toor", 0)), {"root by another name": "toor"}),
    (with_keys(minji=OPTIONED), {"key with options": "has command, from in front of it"}),
    (with_keys(minji=keys(public_key("minji"), odd=2, why=["is a private key"])),
     {"key damaged": "minji: of a line in a file of keys: is a private key"}),
    (with_keys(jiho=keys(public_key("jiho"), public_key("minji"))), {"key shared": "jiho, minji", "no key": "minji"}),
    (with_keys(jiho=keys(public_key("jiho"), public_key("evil"))),
     {"key to be decided": f"jiho: {key_fingerprint(public_key('evil').split()[1])} is on gpu2, and not on gpu1"}),
    (with_keys(minji=keys(problem="Permission denied")),
     {"keys not read": "Permission denied", "key to be decided": "is on gpu1 (not known of gpu2)", "no key": "minji"}),
    (accounts({**MINJI, "gecos": "Kim,evil@example.org"}),
     {"address to be decided": "evil@example.org is the e-mail address on gpu2, and not on gpu1"}),
    (accounts({**MINJI, "gecos": "\ufffd\ufffd,,,"}), {"full name not read": "minji"}),
    ({"used": {"units": {"minji": "lab.service"}, "idle": None}}, {"person or service": "lab.service runs as it"}),
    (accounts(account("choi", 501)), {"person left out": "choi (501 on gpu2) has a shell and the home /home/choi"}),
    (accounts(account("alum", 1016, shell="/sbin/nologin")) | {"homes": [homes("alum")]},
     {"account that is no person's": "it has a home on gpu2", "homes on the node": "alum"}),
    ({"homes": [homes("minji")]}, {"homes on the node": "/home of gpu2 has 1 home on its own disk"}),
    ({"homes": [homes(mounted=True, source="/dev/sdb1")]}, {"home mount": "/home is a mount of /dev/sdb1 (ext4)"}),
    ({"homes": [homes(mounted=True, source="other:/x", fstype="nfs4")]}, {"home mount": "other:/x"}),
    ({"homes": [homes(mounted=True, source="/etc/auto.home", fstype="autofs")]}, {"home mount": "(autofs)"}),
    ({"homes": [{**homes(), "entries": [LINKED]}]},
     {"homes on the node": "minji", "home that is a link": "/home/minji, the home of minji, is a symbolic link to"}),
    ({"homes": [{**homes(), "entries": [ODD_ENTRY]}]},
     {"homes on the node": "a b", "home that is odd": "/home/a b is a symbolic link of root"}),
    ({"homes": [{**homes(), "entries": [NOBODYS]}]},
     {"homes on the node": "hana", "owner without an account": "/home/hana belongs to uid 70001"}),
    ({"directory": LDAP}, {"names from elsewhere": "takes names from sss as well (/etc/nsswitch.conf): hana"}),
    (group("docker", "minji"), {"in the group docker": "minji"}),
    (accounts({**MINJI, "gid": 990}), {"in the group docker": "minji", "group differs": "minji"}),
    (docker(containers=1, volumes=["data"], volume_count=3),
     {"Docker of root's": "1 container, 3 volumes (named: data)"}),
    (active("docker.service"), {"Docker of root's": "docker.service runs as root"}),
    (active("slurmctld.service"), {"another system": "Slurm"}),
    ({"services": {"active": [], "repositories": ["docker"]}}, {"Docker from docker.com": "download.docker.com"}),
    (ranges(("minji", 100000, 65536), ("jiho", 165535, 65536)), {"subordinate ids overlap": "jiho 165535-231070"}),
    (ranges(("minji", 100000, 65536), ("jiho", 165536, 65536)), {}),
    (ranges(("nonsense", None, None)), {"subordinate ids damaged": "1 line"}),
    ({"sudo": [{"key": "sudo for minji in /etc/sudoers", "words": "minji ALL"}]}, {"sudo by hand": "minji ALL"}),
    (group("sudo", "minji", "gpuadmin"), {"group of root's": "minji: in the group sudo"}),
    ({"sshd": {"include": False, "settings": {}, "problem": None}}, {"sshd without Include": "include"}),
    ({"sshd": {"include": True, "settings": {"allowusers": ["minji"]}, "problem": None}},
     {"sshd keeps people out": "allowusers: minji"}),
    (sshd(authorizedkeyscommand=["/usr/bin/sss_ssh_authorizedkeys %u"]), {"keys from a command": "sss_ssh_auth"}),
    (sshd(authorizedkeyscommand=["none"]), {}),
    ({"sshd": {"include": True, "settings": {}, "problem": "no hostkeys"}}, {"not read": "no hostkeys"}),
    ({"root": {"problems": ["the root is ext4"]}}, {"root without images": "the root is ext4"}),
    ({"system": {**ANSWER["system"], "systemd": False}}, {"system": "without systemd"}),
    ({"system": {**ANSWER["system"], "family": None, "name": "Slackware"}}, {"system": "runs Slackware"}),
    ({"homes": None, "unknown": {"homes": "did not end within 20 seconds"}}, {"not read": "homes: did not end"}),
    (accounts(account("ubuntu", 1000)), {"account that is no person's": "ubuntu"}),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "kinds"), FAULTS, ids=[", ".join(kinds) or "none" for _, kinds in FAULTS])
def test_a_fault_is_the_conflict_that_it_is(fault: dict[str, Any], kinds: dict[str, str]) -> None:
    found = conflicts(NAS, good(), good("gpu2", **fault))
    assert set(found) == set(kinds)
    for kind, word in kinds.items():
        (one,) = found[kind]
        assert word in one.words
        assert one.words.isprintable()
        assert set(one.hosts) <= {"gpu1", "gpu2"}


@pytest.mark.holds("whoever has a home and is no person by their shell is decided on")
@pytest.mark.parametrize(
    ("name", "there", "level"), [("alum", True, "decide"), ("alum", False, "note"), ("ubuntu", True, "note")]
)
def test_whether_somebody_with_a_home_is_no_person_is_decided(name: str, there: bool, level: str) -> None:
    one = accounts(account(name, 1016, shell="/sbin/nologin"))
    fault = one | {"homes": [homes(*([name] if there else []))]}
    (found,) = conflicts(NAS, good(), good("gpu2", **fault))["account that is no person's"]
    assert found.level == level


@pytest.mark.parametrize(
    "kind", ["uid differs", "uid swapped", "in the group docker", "Docker of root's", "homes on the node"]
)
def test_a_conflict_that_stops_provision_says_what_to_do(kind: str) -> None:
    fault = [fault for fault, kinds in FAULTS if list(kinds) == [kind]][-1]
    (one,) = conflicts(NAS, good(), good("gpu2", **fault))[kind]
    assert (one.level, bool(one.remedies)) == ("stops", True)


def test_the_same_on_several_hosts_is_one_conflict() -> None:
    fault = group("docker", "minji")
    (one,) = conflicts(NAS, good("gpu1", **fault), good("gpu2", **fault))["in the group docker"]
    assert one.hosts == ("gpu1", "gpu2")
    assert one.remedies == ("# as root on gpu1, gpu2", "gpasswd -d minji docker")


AUTOMOUNTED = {"homes": [homes("minji", mounted=True, source="/etc/auto.home", fstype="autofs", network=True)]}


def test_homes_on_a_disk_of_their_own_are_moved_before_it_is_unmounted() -> None:
    lines = conflicts(NAS, good(homes=[homes("minji", mounted=True, source="/dev/sdb1")]))["home mount"][0].remedies
    assert [line.split()[:2] for line in lines] == [
        ["gpuadmin", "provision"], ["gpuadmin", "move-homes"], ["#", "as"], ["umount", "/home"],
    ]  # fmt: skip
    assert "after move-homes" in lines[-1]


def test_umount_is_no_way_out_of_an_automounter() -> None:
    lines = conflicts(NAS, good(**AUTOMOUNTED))["home mount"][0].remedies
    assert any("auto.master" in line for line in lines)
    assert not any(line.startswith("umount") for line in lines)


def test_whose_first_group_it_is_gets_one_of_their_own() -> None:
    both = accounts({**MINJI, "gid": 990}) | group("docker", "jiho")
    lines = conflicts(NAS, good(**both))["in the group docker"][0].remedies
    assert "gpasswd -d jiho docker" in lines
    assert not any(line.startswith("gpasswd -d minji") for line in lines)
    assert any("usermod -g minji minji" in line for line in lines)


@pytest.mark.parametrize(("days", "asked"), [((400, 900), True), ((400, 3), False), ((400, None), False)])
def test_who_has_not_logged_in_for_a_year_is_asked_about(days: tuple[int | None, ...], asked: bool) -> None:
    told = [{"units": {}, "idle": None if one is None else {"minji": one, "jiho": 1}} for one in days]
    found = conflicts(NAS, *(good(f"gpu{place}", used=one) for place, one in enumerate(told)))
    assert [one.people for one in found.get("person or service", [])] == ([("minji",)] if asked else [])


@pytest.mark.holds("what is an account's home is not moved away")
def test_no_account_s_home_is_moved_away() -> None:
    """Whoever it is: somebody whom users.yml cannot have, with a low uid, another's files, or a link in its place."""
    names = ("j.doe", "MinJi", "choi", "alum", "p.alum")
    ones = [account("j.doe", 1101), account("MinJi", 1102), account("choi", 501), account("p.alum", 1103),
            account("alum", 1104, home="//home/alum/", shell="/sbin/nologin"), MINJI]  # fmt: skip
    there = {"homes": [homes(*names, "nobodys", "cut?")]}
    (one,) = conflicts(NAS, good(accounts=[ROOT, GPUADMIN, *ones], **there))["homes on the node"]
    moved = [line for line in one.remedies if "mv " in line]
    assert [line for line in moved if not line.endswith("mv -n /home/nobodys /home.before/")] == []
    assert len(moved) == 1, "of a name that was not told whole there is no command"
    page = pages.page(proposal(NAS, good(accounts=[ROOT, GPUADMIN, *ones], **there)), datetime(2026, 12, 1))
    assert "; 4 people are left out: MinJi, choi, j.doe, p.alum." in page
    assert all(name in "\n".join(one.remedies) for name in (*names, "cut?"))
    odd = conflicts(NAS, good(accounts=[ROOT, GPUADMIN, *ones], **there)).get("home that is odd", [])
    assert not any(name in one.words for one in odd for name in names), "each of them has it as its home"


def test_a_name_that_cannot_be_leads_to_renumber() -> None:
    (one,) = conflicts(NAS, good("gpu1", **accounts(account("Park.J", 1007))))["person left out"]
    assert "with uid 1007, into users.yml" in one.remedies[0]
    assert one.remedies[1] == "gpuadmin renumber --rename Park.J=NEWNAME"


def test_the_storage_host_is_told_apart_from_nodes() -> None:
    """People's homes and root's Docker are in nobody's way on the host that serves the homes."""
    server = storage(accounts=[ROOT, GPUADMIN], homes=[homes("minji")], **active("docker.service"))
    assert "homes on the node" not in conflicts(server, good())
    assert "Docker of root's" not in conflicts(server, good())


@pytest.mark.parametrize(
    ("systems", "kinds", "mountpoint"),
    [
        ([("/", "ext4"), ("/srv", "btrfs")], set(), "/srv"),
        ([("/", "ext4"), ("/srv", "xfs"), ("/srv/homesick", "btrfs")], {"homes without backups"}, "/srv"),
        ([("/", "btrfs")], {"homes on the root file system"}, None),
        ([], set(), None),
    ],
)
def test_what_the_homes_are_on(systems: list[tuple[str, str]], kinds: set[str], mountpoint: str | None) -> None:
    told = [{**ANSWER["file_systems"][0], "point": point, "fstype": fstype} for point, fstype in systems]
    found = proposal(storage(accounts=[ROOT, GPUADMIN], file_systems=told), good())
    assert {one.kind for one in found.conflicts} == kinds
    assert found.chosen.homes.mountpoint == mountpoint


@pytest.mark.parametrize("source", ["nas1:/srv/homes", "systemd-1"])
def test_what_gpuadmin_itself_mounts_is_in_nobody_s_way(source: str) -> None:
    assert conflicts(NAS, good(homes=[homes("minji", source=source, fstype="nfs4", mounted=True)])) == {}


def test_a_look_without_root_says_so_and_claims_nothing_else() -> None:
    blind = Host("gpu2", {**good().answer, "keys": {}, "sshd": {"include": True, "settings": {}, "problem": "no"},
                          "sudo": [{"key": "/etc/sudoers", "words": "was not read"}],
                          "unknown": {"x": "denied"}}, without_root="a password is required")  # fmt: skip
    found = conflicts(NAS, good(), blind)
    assert set(found) == {"read without root"}
    assert found["read without root"][0].hosts == ("gpu2",)
    assert "could not become root there: a password is required. Not known" in found["read without root"][0].words


@pytest.mark.parametrize(
    ("login", "uid", "admin"),
    [("root", 0, "gpuadmin"), ("gpuadmin", 900, "gpuadmin"), ("ops", 950, "ops"), ("minji", 1001, "gpuadmin")],
)
def test_whom_gpuadmin_logs_in_as_from_now_on(login: str, uid: int, admin: str) -> None:
    ones = [ROOT, account(login, uid)] if uid else [ROOT]
    found = proposal(storage(accounts=ones), host(accounts=ones, keys={}), login=login)
    assert found.chosen.admin.user == admin
    made = [one for one in found.conflicts if one.kind == "no admin account"]
    assert bool(made) == (login != admin), "bootstrap makes it where it is missing"


def test_all_hosts_agree_is_said_first() -> None:
    agreed = pages.uid_sentence(proposal(NAS, good(), good("gpu2")))
    assert agreed.startswith("All hosts agree on the uids of all 2 people")
    assert "uid_first: 1000" in agreed
    crooked = pages.uid_sentence(proposal(NAS, good(), good("gpu2", **accounts(account("minji", 1005)))))
    assert crooked.startswith("Hosts agree on the uids of 1 of 2 people")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 200), st.integers(1, 50)), max_size=8))
def test_ranges_that_overlap_are_found_and_no_others(many: list[tuple[str, int, int]]) -> None:
    ranges = sorted(many, key=lambda one: one[1])
    found = list(find_overlaps(ranges))
    for left, right in found:
        assert left[0] != right[0]
        assert max(left[1], right[1]) < min(left[1] + left[2], right[1] + right[2])
    some = any(
        one[0] != other[0] and one[1] < other[1] + other[2] and other[1] < one[1] + one[2]
        for place, one in enumerate(ranges)
        for other in ranges[:place]
    )
    assert bool(found) == some


_TEXT = st.text(max_size=40)


@settings(deadline=None, max_examples=60)
@given(_TEXT, _TEXT, _TEXT, _TEXT)
def test_whatever_hosts_say_the_page_holds_it_as_data(name: str, home: str, entry: str, line: str) -> None:
    """No line of the page begins with what a host said, nothing that a terminal obeys is in it, and fences are even."""
    odd = {"name": entry, "kind": "other", "uid": 7, "owner": name, "mode": 0}
    liar = good(
        "gpu2",
        homes=[{**homes(), "entries": [odd]}],
        sudo=[{"key": line, "words": line}],
        subids={"subuid": [{"name": line, "start": None, "count": None}], "subgid": []},
        docker={**ANSWER["docker"], "volumes": [entry], "volume_count": 1, "data": home},
        **accounts(account(name, 1009, home=home, gecos=line)),
    )
    found = proposal(NAS, good(), liar)
    text = pages.page(found, datetime(2026, 12, 1))
    assert not any(ord(one) < 32 and one != "\n" for one in text)
    fence = [number for number, one in enumerate(text.split("\n")) if one.startswith("```")]
    assert len(fence) % 2 == 0
    allowed = ("#", "|", "-", "```", "`gpuadmin", "**", "")
    inside = False
    for one in text.split("\n"):
        if one.startswith("```"):
            inside = not inside
        elif not inside and one:
            assert (
                one.startswith(allowed) or one[0].isalnum() or one[0] in "\\/_'\".,:;()?=+$%^@" or not one[0].isascii()
            )
            assert "<" not in one.replace("\\<", "")


def test_a_home_that_cannot_be_looked_at_is_its_person_s_alone() -> None:
    there = homes("minji")
    entry = {"kind": "unknown", "uid": None, "owner": None, "mode": None, "problem": "Permission denied"}
    there["entries"].append({"name": "jiho", **entry})
    found = conflicts(good(homes=[there]), NAS)
    [one] = found["home that cannot be looked at"]
    assert one.people == ("jiho",)
    assert one.words == "/home/jiho cannot be looked at: Permission denied"
    assert not {"home that is odd", "owner without an account"} & set(found)


def test_what_comes_next_has_bootstrap_where_there_is_no_admin_account() -> None:
    missing = proposal(host("gpu1"), storage(), login="root")
    next_ = list(pages.next_commands(missing))
    assert next_ == ["gpuadmin check", "gpuadmin bootstrap gpu1 nas1 --as root", "gpuadmin provision --check"]
    assert (
        "\ngpuadmin bootstrap gpu1 nas1 --as root" in pages.page(missing, datetime(2026, 12, 1)).partition("## Next")[2]
    )
    assert list(pages.next_commands(proposal(good(), NAS))) == ["gpuadmin check", "gpuadmin provision --check"]
    differ = proposal(good(), good("gpu2", **accounts(account("minji", 1005))), NAS)
    assert list(pages.next_commands(differ))[-1] == "gpuadmin provision --limit nas1", "renumber needs accounts there"


def test_keys_that_are_to_be_decided_can_be_added_as_they_are_printed() -> None:
    """Each is a command that change-user takes. A comment, which whoever wrote the key has chosen, is in none."""
    two = [f"{public_key(seed)} x' $(reboot) `id`" for seed in ("a", "b")]
    found = proposal(NAS, good(), good("gpu2", **with_keys(jiho=keys(public_key("jiho"), *two))))
    (one,) = (one for one in found.conflicts if one.kind == "key to be decided")
    asked, *lines = one.remedies
    assert asked.startswith("# ask jiho ")
    words = [shlex.split(line) for line in lines]
    assert [line[:4] for line in words] == [["gpuadmin", "change-user", "jiho", "--add-key"]] * 2
    assert [read_keys([line[4]]) for line in words] == [(public_key(seed).rpartition(" ")[0],) for seed in ("a", "b")]
    assert "| jiho | 1002 | 1, and 2 to be decided |" in pages.page(found, datetime(2026, 12, 1))
