"""Whoever is locked or removed loses what they were granted, at once; nobody else does."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import operations
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Outcome
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Plan
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import flocked
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import grants, leaving, reconcile, telling
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant

from tests.support.gated_host import GatedHost, gated_host

FAR = 4_000_000_000


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedHost:
    found = gated_host(tmp_path, monkeypatch)
    for name, gpu in (("minji", "0"), ("jiho", "1")):
        grants.write(Grant(f"of-{name}", name, found.people[name], [gpu], 1, FAR, "root@nas"), found.places.state)
    found.go(2000)
    monkeypatch.setattr(operations, "converge", lambda *_, **__: Outcome(False, Plan(DesiredState()), {}))
    monkeypatch.setattr(telling, "Places", lambda **_: found.places)
    found.told.clear()
    return found


def converged(people: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
    return operations.converge_accounts(operations.AccountsOrder(**people), check).result("users")


MINJI = {"name": "minji", "uid": 20000}
GONE = [{"users": [{**MINJI, "locked": True}]}, {"absent": [MINJI]}]


@pytest.mark.holds("who is locked or removed keeps no grant")
@pytest.mark.parametrize("people", GONE, ids=["locked", "removed"])
def test_who_is_locked_or_removed_keeps_no_grant(host: GatedHost, people: dict[str, Any]) -> None:
    looked = converged(people, check=True)
    assert host.told == []
    assert len(grants.read(host.places.state)[0]) == 2, "a check ends nothing"
    done = converged(people)
    assert done["operations"] == looked["operations"] == ["user minji: end the grant of-minji (GPU 0)"]
    assert done["changed"] is looked["changed"] is True
    assert host.units() == {"user-20000.slice": []}, "at once, and nobody else's"
    assert [one.id for one in grants.read(host.places.state)[0]] == ["of-jiho"]
    assert converged(people)["changed"] is False
    assert converged({"users": [MINJI]})["changed"] is False, "an unlock brings nothing back"
    assert [one.id for one in grants.read(host.places.state)[0]] == ["of-jiho"]


@pytest.mark.parametrize("people", [{"users": [MINJI]}, {"users": [MINJI], "absent": [{**MINJI, "uid": 20007}]}])
def test_who_stays_keeps_theirs(host: GatedHost, people: dict[str, Any]) -> None:
    assert converged(people)["changed"] is False
    assert len(grants.read(host.places.state)[0]) == 2


@pytest.mark.holds("grants of who leaves end while nobody else changes any")
def test_grants_end_while_nobody_else_changes_any(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaving, "flocked", partial(flocked, seconds=0.1))
    with flocked(reconcile.lock_path(host.places)), pytest.raises(NodeError, match="has been held for"):
        leaving.end(["minji"], host.places)
    assert len(grants.read(host.places.state)[0]) == 2


@pytest.mark.holds("grants that cannot be ended deny nothing else")
def test_grants_that_cannot_be_ended_are_told(host: GatedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    def hangs(names: object, places: object) -> list[str]:
        raise NodeError("the lock has been held for 120 s")

    monkeypatch.setattr(leaving, "end", hangs)
    done = converged(GONE[0])
    assert done["conflicts"] == ["the accounts are done, grants of minji are not: the lock has been held for 120 s"]
