"""What goes to whoever helps: only what is named, and nothing of a person's."""

from __future__ import annotations

import io
import json
import tarfile
from typing import Any

from gpuadmin.diagnosis.bundle import archive, contents
from gpuadmin.diagnosis.finding import Finding
from tests.unit.support import public_key

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
    Finding(
        "container-oom", "minji's container my-container was killed", "x", ("train --password hunter2",), ("node1",)
    ),
    Finding("docker-daemon", "it last said: train --password hunter2", "x", (), ("node1",)),
    Finding("unknown", "containers: not known, the daemon answered train --password hunter2", "x", (), ("node1",)),
    Finding("locked", "minji's account is locked in users.yml", "gpuadmin unlock-user minji"),
]


def test_nothing_of_a_persons_is_in_it() -> None:
    files = contents("minji", FOUND, {"node1": FACTS}, ["minji", "jiho"])
    whole = "\n".join(files.values())
    assert [one for one in SECRETS if one in whole] == []
    assert public_key("x").split()[1] not in whole
    assert "PERSON's account is locked in users.yml" in whole
    assert json.loads(files["hosts/node1.json"])["docker"] == {"daemon": True}


def test_it_can_be_unpacked_and_says_nothing_of_who_packed_it() -> None:
    files = contents(None, FOUND[-1:], {"node1": FACTS}, [])
    with tarfile.open(fileobj=io.BytesIO(archive(files))) as tar:
        entries = tar.getmembers()
        assert [one.name for one in entries] == [f"diagnosis/{name}" for name in files]
        assert {(one.uid, one.uname, one.mtime) for one in entries} == {(0, "", 0)}
    assert archive(files) == archive(files)


NAMES_OF_TWO = ["kj", "an", "on", "mode"]


def test_a_name_of_two_letters_is_hidden_and_no_word_of_the_text() -> None:
    facts = {
        "node": True, "home": {"path": "/home/an", "owner": "kj", "mode": "0700", "error": "kj on /home/on/x: mode"},
    }  # fmt: skip
    found = [
        Finding("locked", "an's account is on hold in users.yml; it is an account of kj (uid 20001)", "x", (), ("n1",))
    ]
    files = contents("an", found, {"n1": facts}, NAMES_OF_TWO)
    home = json.loads(files["hosts/n1.json"])["home"]
    assert home == {
        "path": "/home/PERSON", "owner": "SOMEBODY", "mode": "0700", "error": "SOMEBODY on /home/SOMEBODY/x: SOMEBODY",
    }  # fmt: skip
    cause = json.loads(files["findings.json"])[0]["cause"]
    assert cause == "PERSON's account is on hold in users.yml; it is an account of SOMEBODY (uid 20001)"
    assert files["README.txt"].startswith("A diagnosis by gpuadmin.\n\nLeft out")


def test_the_archive_can_be_read_whatever_people_are_called() -> None:
    facts = {"node": True, "memory": {"total": 5, "available": 3}}
    people = ["memory", "node", "a", "total", "code", "n1", "true"]
    files = contents("cause", FOUND[-1:], {"n1": facts}, people)
    assert json.loads(files["hosts/n1.json"]) == facts
    assert json.loads(files["findings.json"])[0]["code"] == "locked"
