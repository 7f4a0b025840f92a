"""What is in the way of a renumbering in the trees of a host, before anybody is closed for it."""

import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import mounts
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host

from gpuadmin.takeover.node.renumbering import looking, trees
from gpuadmin.takeover.node.renumbering.decide import Numbers, Wanted
from gpuadmin.takeover.node.renumbering.task import Tally

MINJI, JIHO = 39101, 39102
HERS = Tally(uids={MINJI: [3, 4096]})
READ_ONLY, NOSUID = os.ST_RDONLY, os.ST_NOSUID
DISK = "1 1 0:1 / {} rw - ext4 /dev/sda rw\n"
NFS = "2 1 0:2 / /nfs rw{} - nfs4 nas:/x rw\n"
FIXED = "is read-only, and has files of theirs: mount it with nosuid first"
ABROAD = "a setuid program in /nfs, which keeps the old ids, would run as another"


@pytest.fixture
def look(host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Tally, int, str], Any]:
    """What a host with the two says, given what a walk saw, the flags of each file system, and what is mounted."""
    for name, line in (("passwd", "{0}:x:{1}:{1}::/:/bin/sh\n"), ("group", "{0}:x:{1}:\n")):
        with Path(host.path(f"etc/{name}")).open("a") as stream:
            stream.write(line.format("minji", MINJI) + line.format("jiho", JIHO))
    for module, function in ((mounts, "keep_own"), (trees, "run")):  # nothing is mounted
        monkeypatch.setattr(module, function, lambda *_, **__: None)
    monkeypatch.setattr(trees, "RUN", str(tmp_path / "run"))

    def ask(tally: Tally, flags: int, table: str) -> Any:
        monkeypatch.setattr(mounts, "read_mountinfo", lambda: table)
        monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_flag=flags))
        monkeypatch.setattr(looking, "crawl", lambda *_, **__: tally)
        swap = [Wanted("minji", JIHO), Wanted("jiho", MINJI)]
        return looking.look(swap, Numbers(), host, measure=True, site=["storage1"])

    return ask


@pytest.mark.parametrize(
    ("tally", "flags", "table", "words"),
    [
        (HERS, 0, DISK.format("/data"), {}),
        (HERS, READ_ONLY, DISK.format("/data"), {"minji": FIXED}),
        (HERS, READ_ONLY | NOSUID, DISK.format("/data"), {}),
        (HERS, READ_ONLY, DISK.format("/"), {}),  # which is opened for it
        (Tally(gids={JIHO: [1, 0]}), READ_ONLY, DISK.format("/data"), {"jiho": FIXED}),
        (Tally(), READ_ONLY, DISK.format("/data"), {}),
        (Tally(), 0, NFS.format(""), {"minji": ABROAD, "jiho": ABROAD}),
        (Tally(), 0, NFS.format(",nosuid"), {}),
        (Tally(), 0, NFS.format("").replace("nas", "storage1"), {}),
        (Tally(taken={f"uid {JIHO}": [1, 0]}), 0, DISK.format("/data"),
         {"minji": f"uid {JIHO} has 1 entry of /data already: chown or delete them first"}),
        (Tally(taken={f"gid {MINJI}": [2, 0]}), 0, DISK.format("/data"), {"jiho": f"gid {MINJI} has 2 entries"}),
        (Tally(within_reach=["'/x'"]), 0, DISK.format("/data"),
         dict.fromkeys(("minji", "jiho"), "people can reach '/x' in /data, which is read-only")),
    ],
)  # fmt: skip
@pytest.mark.holds("nobody's program on a read-only disk runs as another")
def test_what_is_in_the_way(
    look: Callable[[Tally, int, str], Any], tally: Tally, flags: int, table: str, words: dict[str, str]
) -> None:
    """Nobody is closed for what would leave a file, or a program, to the next owner of an id."""
    found = look(tally, flags, table)
    assert bool(found["trees"]) is bool(tally.uids or tally.gids)
    assert found["problems"].keys() == words.keys()
    assert all(text in found["problems"][name] for name, text in words.items())


def test_what_keeps_the_old_ids_and_is_in_nobodys_way_is_a_note(look: Callable[[Tally, int, str], Any]) -> None:
    there = Tally(uids=HERS.uids, acls=1, snapshots=2, words=["'x' is odd"])
    assert look(there, READ_ONLY | NOSUID, DISK.format("/data"))["notes"] == [
        "/data is read-only: what is there keeps the old ids",
        "/data: 1 ACL with their ids",
        "/data: 2 read-only subvolumes not looked at: what is in them keeps the old ids",
        "/data: 'x' is odd",
    ]
    assert look(HERS, 0, DISK.format("/data"))["notes"] == []


def test_who_has_a_grant_of_gpus_is_named_before_anybody_is_closed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looking, "find_grants", lambda *_: {"minji": "has a grant"})
    assert looking.look([], Numbers(), host, measure=False)["problems"] == {"minji": "has a grant"}
