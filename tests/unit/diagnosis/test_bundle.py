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
