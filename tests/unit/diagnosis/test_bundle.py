"""What goes to whoever helps: only what is named, and nothing of a person's."""

import io
import json
import re
import tarfile
from typing import Any

import pytest

from gpuadmin.common.causes.cause import Cause
from gpuadmin.diagnosis.bundle import PERSONS, make_files, pack_archive
from gpuadmin.diagnosis.wording import Wording
from tests.support.sites import public_key

SECRETS = (
    "minji",
    "jiho",
    "minji@example.org",
    "10.0.0.7",
    "train --password hunter2",
    "SHA256:abcdef",
    "my-container",
)
FACTS: dict[str, Any] = {
    "node": True, "late": [], "unknown": {
        "home": "minji@example.org at 10.0.0.7 " + public_key("x"),
        "containers": "the daemon answered HTTP/1.0 500 train --password hunter2",
    },
    "account": {"passwd": {"uid": 20000, "home": "/home/minji"}, "others": ["jiho"]},
    "keys": {"site": {"keys": [{"kind": "ssh-ed25519", "problem": None, "fingerprint": "SHA256:abcdef"}]}},
    "sshd": {"lines": ["Failed publickey for minji from 10.0.0.7"]},
    "docker": {"words": ["train --password hunter2"], "daemon": True},
    "containers": {"asked": True, "ended": [{"name": "my-container", "error": "train --password hunter2"}]},
    "memory": {"total": 5, "kills": ["Killed process 7 (train --password hunter2)"]},
    "something new": "train --password hunter2",
}  # fmt: skip
FOUND = [
    Cause("container-oom", "minji's container my-container was killed", "x", ("train --password hunter2",), ("node1",)),
    Cause("docker-daemon", "it last said: train --password hunter2", "x", (), ("node1",)),
    Cause("unknown", "containers: not known, the daemon answered train --password hunter2", "x", (), ("node1",)),
    Cause("locked", "minji's account is locked in users.yml", "gpuadmin unlock-user minji"),
]


def test_nothing_of_a_persons_is_in_it() -> None:
    files = make_files("minji", FOUND, {"node1": FACTS}, ["minji", "jiho"])
    whole = "\n".join(files.values())
    assert [one for one in SECRETS if one in whole] == []
    assert public_key("x").split()[1] not in whole
    assert "PERSON's account is locked in users.yml" in whole
    assert json.loads(files["hosts/node1.json"])["docker"] == {"daemon": True}


@pytest.mark.holds("why a person's part is not known stays out of the bundle")
@pytest.mark.parametrize("part", PERSONS)
def test_why_a_persons_part_is_not_known_is_not_in_it(part: str) -> None:
    facts = {"node": True, "unknown": {part: "thesis.tex cannot be read", "memory": "it did not answer in 3 s"}}
    (host,) = (json.loads(text) for name, text in make_files(None, [], {"n1": facts}, []).items() if "n1" in name)
    assert host["unknown"] == {part: "(left out)", "memory": "it did not answer in 3 s"}


def test_it_can_be_unpacked_and_says_nothing_of_who_packed_it() -> None:
    files = make_files(None, FOUND[-1:], {"node1": FACTS}, [])
    with tarfile.open(fileobj=io.BytesIO(pack_archive(files))) as tar:
        entries = tar.getmembers()
        assert [one.name for one in entries] == [f"diagnosis/{name}" for name in files]
        assert {(one.uid, one.uname, one.mtime) for one in entries} == {(0, "", 0)}
    assert pack_archive(files) == pack_archive(files)


NAMES_OF_TWO = ["kj", "an", "on", "mode"]


def test_a_name_of_two_letters_is_hidden_and_no_word_of_the_text() -> None:
    facts = {
        "node": True, "home": {"path": "/home/an", "owner": "kj", "mode": "0700", "error": "kj on /home/on/x: mode"},
    }  # fmt: skip
    found = [
        Cause("locked", "an's account is on another in users.yml; it is an account of kj (uid 20001)", "x", (), ("n1",))
    ]
    files = make_files("an", found, {"n1": facts}, NAMES_OF_TWO)
    home = json.loads(files["hosts/n1.json"])["home"]
    assert home == {
        "path": "/home/PERSON", "owner": "SOMEBODY", "mode": "0700", "error": "SOMEBODY on /home/SOMEBODY/x: SOMEBODY",
    }  # fmt: skip
    cause = json.loads(files["findings.json"])[0]["cause"]
    assert cause == "PERSON's account is on another in users.yml; it is an account of SOMEBODY (uid 20001)"
    assert files["README.txt"].startswith("A diagnosis by gpuadmin.\n\nLeft out")


def test_the_archive_can_be_read_whatever_people_are_called() -> None:
    facts = {"node": True, "memory": {"total": 5, "available": 3}}
    people = ["memory", "node", "a", "total", "code", "n1", "true"]
    files = make_files("cause", FOUND[-1:], {"n1": facts}, people)
    assert json.loads(files["hosts/n1.json"]) == facts
    assert json.loads(files["findings.json"])[0]["code"] == "locked"


#: Whoever is on a host and in no users.yml, and what they can call things. None of these is a word of gpuadmin's.
STRANGERS = [
    "eunseo",
    "kim_minjun",
    "dr-park-lab",
    "x1lim",
    "Seoyeon",
    "서연",
    "zhang.wei",
    "o'neill",
    "lee__",
    "a1b2c3zz",
]


@pytest.mark.holds("an archive has no word that is neither gpuadmin's nor the system's")
@pytest.mark.parametrize("stranger", STRANGERS)
def test_a_name_that_nobody_knows_is_not_in_it(stranger: str) -> None:
    """Holders of GPUs, mount points, and whatever a key or a sentence has: in no users.yml, and still a name."""
    facts = {
        "node": True, "late": [],
        "unknown": {"disks": f"/media/{stranger}/my disk: Transport endpoint is not connected"},
        "gpus": {"number": 1, "gpus": [{"index": 0, "name": "NVIDIA H100 80GB HBM3", "holders": [stranger]}]},
        "disks": [{"mount": f"/mnt/{stranger}", "type": f"fuse.{stranger}", "bytes": 5, "read_only": False}],
        "mount": {"point": f"/home/{stranger}", "source": f"nas1:/srv/{stranger}", "type": "nfs4"},
        "units": ["sshd.service", f"{stranger}-backup.service"], "account": {"groups": [stranger], "today": 5},
        "homes": {stranger: {"path": f"/home/{stranger}"}}, "reboot": {"kernel": "6.12.57+deb13-amd64", "uptime": 5},
        "home": {"path": f"/home/{stranger}", "owner": stranger, "error": "Permission denied"},
    }  # fmt: skip
    found = [
        Cause("gpu-held", f"GPU 0 is held by {stranger}", "x", (), ("node1",)),
        Cause("homes-stale", f"/home/{stranger} cannot be looked at", "x", (), ("node1",)),
    ]
    whole = "\n".join(make_files("minji", found, {"node1": facts}, ["minji", "jiho"]).values())
    for piece in re.findall(r"\w{3,}", stranger):
        assert piece.lower() not in whole.lower()
    known = json.loads(make_files("minji", found, {"node1": facts}, [])["hosts/node1.json"])
    assert known["gpus"]["gpus"][0]["name"] == "NVIDIA H100 80GB HBM3"
    assert known["reboot"] == {"kernel": "6.12.57+deb13-amd64", "uptime": 5}
    assert known["disks"][0]["bytes"] == 5
    assert known["units"][0] == "sshd.service"
    assert known["home"]["error"] == "Permission denied"
    name = known["gpus"]["gpus"][0]["holders"][0]
    assert known["home"]["path"] == f"/home/{name}"


def test_what_an_honest_host_says_stays_readable() -> None:
    """The sentences of a diagnosis, each as its table of faults has it, lose names and no more."""
    wording = Wording(["node1"])
    for text in (
        "the disk of /home is full: 0 bytes of 1.0 TB free", "3 units of the system failed: sshd.service",
        "PERSON may not use their own home: it has mode 0000", "7 of 8 expected GPUs answer",
    ):  # fmt: skip
        assert wording.hide(text) == text
