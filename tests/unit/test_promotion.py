"""Which copy each person's home is made from, what is newer elsewhere, and what keeps two hosts from serving."""

from __future__ import annotations

import pytest

from gpuadmin.answers import Answers
from gpuadmin.config.inventory import Host
from gpuadmin.config.schema import Settings
from gpuadmin.promotion import Choice, choose, find_left, find_refusal
from tests.support.copies import COPIES, END, FIRST, PEOPLE, SECOND, THIRD, backup, home


def test_each_has_the_newest_copy_of_their_own() -> None:
    theirs = [backup(THIRD, minji=home(20000)), backup(FIRST, jiho=home(20001))]
    found = choose(COPIES, PEOPLE, ["junho"], theirs, END)
    assert found.homes == {"minji": SECOND, "jiho": FIRST, "_slurm": SECOND}
    assert found.without == {
        "seo": "the copy is of uid 20009, not 20002: gpuadmin restore-home seo", "yuna": "there is no copy",
    }  # fmt: skip
    assert found.unverified == {"minji"}
    assert found.newer == {"minji": THIRD}
    first, second = found.lines()
    assert "2 homes as of 2026-12-22" in first
    assert first.endswith(": _slurm, minji; not verified since it came, or damaged since: minji")
    assert "1 home as of 2026-12-21" in second
    assert second.endswith(": jiho")


def test_where_a_directory_knows_who_there_is() -> None:
    found = choose(COPIES, None, ["junho"], [], END)
    assert (sorted(found.homes), found.without) == (["_slurm", "jiho", "minji", "minji.restored-x", "seo"], {})
    assert choose([], PEOPLE, [], [], END).homes == {}
    assert Choice().lines() == []


def test_a_clock_that_was_wrong_makes_no_copy_the_newest() -> None:
    late = backup("20310101T010203Z-daily", minji=home(20000), yuna=home(20003))
    found = choose([late, *COPIES], PEOPLE, [], [], END)
    assert (found.homes["minji"], found.homes["yuna"]) == (SECOND, late["name"]), "better than nothing"


NAS = Host("nas2", ("backup",))
OLD, BACK = Host("nas1", ("storage",)), Host("nas1", ("backup",))
IDLE = {"answers": False, "mounts": ["/home"], "held": {}}
#: What it is → the old host, whether it answers the controller, who reaches its NFS port, words of the refusal.
REFUSED: dict[str, tuple[Host, str, tuple[str, ...], str]] = {
    "dead": (OLD, "away", (), ""),
    "its NFS server is stopped": (OLD, "known", (), ""),
    "alive": (
        OLD,
        "known",
        ("gpu1", "nas2"),
        "gpu1, nas2. gpuadmin run gpu -- sync; gpuadmin run nas1 -- systemctl disable --now nfs-server; then, ",
    ),
    "cut off from this machine alone": (OLD, "away", ("gpu1",), "gpuadmin power off nas1 --hard"),
    "answers badly": (OLD, "failed", (), "nas1 answers, and could not be looked at: full"),
    "back again": (BACK, "known", ("gpu1",), "gpuadmin provision --limit nas1 takes its export away"),
}


@pytest.mark.parametrize(("old", "state", "reach", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_two_hosts_never_serve(old: Host, state: str, reach: tuple[str, ...], words: str) -> None:
    known = {"nas2": {"backups": COPIES}, **({"nas1": {"backups": []}} if state == "known" else {})}
    unknown = {} if state == "known" else {"nas1": "full" if state == "failed" else "timed out"}
    copies = Answers(known, unknown, frozenset(unknown) if state == "failed" else frozenset())
    serves = {one: {**IDLE, "answers": one in reach} for one in ("nas2", "gpu1")}
    found = find_refusal(NAS, old, copies, Answers(serves, {"gpu2": "timed out"}))
    assert bool(found) == bool(words)
    assert words in found


@pytest.mark.parametrize("silent", ["copies", "serves"])
def test_a_host_that_says_nothing_takes_nothing_over(silent: str) -> None:
    copies = Answers({"nas2": {}}, {"nas1": "away"})
    serves = Answers({"nas2": IDLE})
    nothing = Answers({}, {"nas2": "timed out"})
    given = (nothing, serves) if silent == "copies" else (copies, nothing)
    assert find_refusal(NAS, OLD, *given) == "nas2: timed out"


def test_what_stays_there_is_said() -> None:
    settings = Settings.model_validate({"name": "x", "shared": [{"name": "sets", "backup": False}]})
    words = "\n".join(find_left(settings, Host("nas1", ("storage", "slurm", "monitor"))))
    for one in ("the attic", "/shared/sets", "images are on nas1", "the queue", "measurements"):
        assert one in words
    named = Settings.model_validate({"name": "x", "images": {"server": "nas3"}})
    assert len(find_left(named, OLD)) == 1
