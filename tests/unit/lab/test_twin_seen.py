"""Seen, kept, made and seen again: a host that was made from adoption.json has the same conflicts."""

import json
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import to_plain
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place

from gpuadmin.config.load import load_site
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.lab import state, twin_state
from gpuadmin.lab.light import crooked
from gpuadmin.takeover.adoption.page import document
from gpuadmin.takeover.adoption.proposal import propose
from gpuadmin.takeover.adoption.seen import Host
from gpuadmin.takeover.node.adoption import accounts, machine
from gpuadmin.takeover.node.adoption import homes as looked
from tests.support.adoptable import ROOT, account, homes, host, keys
from tests.support.sites import public_key

pytestmark = pytest.mark.root
PEOPLE = [
    account("minji", 1001, password="none"), account("jiho", 1002), account("Park.J", 1004),
    account("seo", 1003, password="locked", expires=19754), account("toor", 0, home="/root"),
    account("jenkins", 1015, shell="/usr/sbin/nologin"),
    account("taeho", 1008, home="/data/taeho", gid=100, shell="/bin/zsh"), account("eve", 1009, password="empty"),
]  # fmt: skip
RENUMBERED = [account("jiho", 1001), account("minji", 1002), account("ham", 1004)]
DOCKER = {"data": "/var/lib/docker", "containers": 3, "volumes": ["training"], "volume_count": 2, "program": False,
          "lingering": []}  # fmt: skip
RANGES = [
    {"name": "minji", "start": 100000, "count": 65536}, {"name": "jiho", "start": 130000, "count": 65536},
    {"name": "nonsense", "start": None, "count": None},
]  # fmt: skip
OPTIONS = {"names": ["from", "command"], "fingerprint": "x"}
ODD = [
    {"name": "hana", "kind": "directory", "uid": 70001, "owner": None, "mode": 0o700, "problem": None},
    {"name": "link", "kind": "link", "uid": 0, "owner": "root", "mode": 0o777, "problem": None},
    {"name": "x ?[2J", "kind": "file", "uid": 1002, "owner": "jiho", "mode": 0o600, "problem": None},
]
LOCAL = {**homes(), "entries": [*homes("minji", "minji old")["entries"], *ODD]}
ANSWERS: dict[str, dict[str, Any]] = {
    "gpu1": {
        "accounts": [ROOT, *PEOPLE],
        "groups": [
            {"name": "docker", "gid": 990, "members": ["minji", "eve"]},
            {"name": "sudo", "gid": 27, "members": ["seo"]},
            {"name": "project", "gid": 1002, "members": []},
        ],
        "subids": {"subuid": RANGES, "subgid": RANGES},
        "directory": {"sources": ["sss"], "accounts": []},
        "homes": [LOCAL, {**homes("taeho", path="/data"), "entries": [{**homes("taeho")["entries"][0], "uid": 1008}]}],
        "keys": {
            "minji": keys(public_key("minji"), public_key("both"), options=[OPTIONS]),
            "taeho": keys(public_key("both"), odd=2),
        },
        "docker": DOCKER, "services": {"active": ["docker.service", "slurmd.service"], "repositories": []},
        "sudo": [{"key": "sudo for eve in /etc/sudoers.d/people", "words": "eve ALL = NOPASSWD: ALL"}],
        "sshd": {"include": False, "settings": {}, "problem": None},
    },
    "gpu2": {"accounts": [ROOT, *RENUMBERED], "homes": [homes()], "keys": {}},
}  # fmt: skip


def seen_again(root: Path, before: Host) -> Host:
    """What adopt's look says of the files of a host that was made; of the rest, what it said before."""
    place = Place(root=str(root))
    units = [one.name for one in (root / "etc/systemd/system").glob("*.service")]
    found = {
        "accounts": accounts.accounts(place), "groups": accounts.groups(place), "subids": accounts.subids(place),
        "directory": {"sources": accounts.directory(place).sources, "accounts": []},
        "homes": [
            {**vars(one), "fstype": "ext4", "source": "/dev/sda1", "mounted": False, "network": False}
            for one in looked.homes(place)
        ],
        "keys": looked.keys(place), "docker": machine.docker(place), "exports": machine.exports(place),
        "services": {"active": sorted(units), "repositories": []}, "sudo": machine.sudo(place),
        "sshd": {**before.part("sshd"), "include": machine.sshd(place).include},
    }  # fmt: skip
    return Host(before.name, {**before.answer, **to_plain(found)})


def what(found: Any) -> set[tuple[str, tuple[str, ...], tuple[str, ...]]]:
    return {(one.kind, tuple(sorted(one.hosts)), tuple(sorted(one.people))) for one in found.conflicts}


def test_it_has_the_same_conflicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # people do not get through the directories of tests
    monkeypatch.setattr(looked, "acting_as", lambda _uid, _gid: nullcontext())
    original = [host(name, **parts) for name, parts in ANSWERS.items()]
    proposal = propose("lab", original, login="root")
    file = tmp_path / "adoption.json"
    file.write_text(json.dumps(document(proposal, datetime(2026, 1, 1, tzinfo=UTC), "")))
    write_site(tmp_path / "site", name="lab", settings={}, hosts=[SiteHost(one, ("gpu",)) for one in ANSWERS])
    real, found = load_site(str(tmp_path / "site")), twin_state.read(file)
    lab = state.Lab("twin", 1024, 5555, light=True, like=str(real.directory))
    lines = twin_state.key_lines(lab, found, {"minji"})

    again = []
    for one in original:
        root = tmp_path / one.name
        (root / "etc/ssh").mkdir(parents=True)
        for name, text in (
            ("passwd", "root:x:0:0:root:/root:/bin/bash\n"), ("shadow", "root:*:1::::::\n"),
            ("group", "root:x:0:\nsudo:x:27:\nusers:x:100:\n"), ("nsswitch.conf", "passwd: files\n"),
            ("sudoers", "root ALL=(ALL) ALL\n@includedir /etc/sudoers.d\n"),
            ("ssh/sshd_config", "Include /etc/ssh/sshd_config.d/*.conf\n"),
        ):  # fmt: skip
            (root / "etc" / name).write_text(text)
        told = json.loads(json.dumps(twin_state.wanted(real, found, one.name, lines, lab)))
        assert crooked.grow(told, str(root), lambda _words: True) == []
        again.append(seen_again(root, one))
    made = propose("lab", again, login="root")
    assert what(made) == what(proposal)
    kinds = {one.kind for one in made.conflicts}
    assert kinds >= {
        "uid swapped", "uid shared", "person left out", "account that is no person's", "group differs", "gid taken",
        "account ends", "password locked", "no password", "key with options", "key shared", "key damaged",
        "shell differs", "homes on the node", "home elsewhere", "home that is odd", "owner without an account",
        "names from elsewhere", "in the group docker", "Docker of root's", "subordinate ids damaged",
        "subordinate ids overlap", "sudo by hand", "group of root's", "root by another name", "sshd without Include",
        "another system",
    }, kinds  # fmt: skip
