"""What each person may take of a walk: entries, time and links, their own alone."""

import os
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import shares as package
from ansible_collections.gpuadmin.node.plugins.module_utils.disk.shares import Shares


def of(uid: int) -> os.stat_result:
    return os.stat_result((0o100644, 1, 1, 1, uid, uid, 0, 0, 0, 0))


def test_each_has_their_own() -> None:
    shares = Shares(entries=2)
    assert [shares.spend(of(1)) for _ in range(4)] == [True, True, False, False]
    assert shares.over(of(1))
    assert shares.spend(of(2))
    assert not shares.over(of(2))
    assert shares.problems == {1: "more than 2 entries"}


def test_roots_directories_lead_to_everybody() -> None:
    shares = Shares(entries=1)
    assert all(shares.spend(of(0)) for _ in range(5))
    assert not shares.over(of(0))


def test_time_is_charged_to_whose_entry_it_took(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 10.0, 11.0, 21.0, 22.0])
    monkeypatch.setattr(package, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    shares = Shares(seconds=15)
    assert [shares.spend(of(uid)) for uid in (1, 2, 1, 2)] == [True, True, False, True]
    assert shares.problems == {1: "takes longer than 15 seconds"}


def test_links_end_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "LINKS", 1)
    shares = Shares()
    assert [shares.link(of(1)) for _ in range(2)] == [True, False]
    assert shares.link(of(2))
    assert not shares.over(of(1)), "other files of theirs are counted"


def test_a_persons_uids_are_one() -> None:
    shares = Shares(lambda uid: 7 if uid > 100 else uid, entries=2)
    assert [shares.spend(of(uid)) for uid in (101, 102, 103)] == [True, True, False]
    assert shares.person(500) == 7
