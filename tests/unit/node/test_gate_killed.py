"""The reconciler is killed before and after each thing that it does: nobody keeps what has ended."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import gate, grants, reconcile
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.grants import Grant

from tests.support.gated_host import GatedHost, gated_host

pytestmark = pytest.mark.root

ENDS = Grant("a1", "minji", 20000, ["0"], 1000, 2000, "root@nas")
STAYS = Grant("b1", "jiho", 30000, ["1"], 1000, 9000, "root@nas")
#: What has an effect that stays, in no order. Telling systemd happens for each unit.
EFFECTS = ((grants, "delete"), (reconcile, "apply"), (reconcile, "_remember"), (gate, "write_trial"))


class KilledError(BaseException):
    """As SIGKILL: nothing catches it."""


def killed(name: str, effect: Callable[..., Any], *, before: bool) -> Callable[..., Any]:
    def dies(*arguments: Any, **named: Any) -> None:
        if not before:
            effect(*arguments, **named)
        raise KilledError(name)

    return dies


@pytest.mark.parametrize("boot", [False, True], ids=["alone", "with the host"])
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(("module", "name"), EFFECTS, ids=[name for _, name in EFFECTS])
def test_nobody_keeps_what_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, before: bool, boot: bool
) -> None:
    host = gated_host(tmp_path, monkeypatch)
    host.people["jiho"] = 30000
    for one in (ENDS, STAYS):
        grants.write(one, host.places.state)
    host.go(1500)
    assert [str(tmp_path / "gpu0")] == theirs(host, "user-20000.slice")
    with monkeypatch.context() as patch:
        patch.setattr(module, name, killed(name, getattr(module, name), before=before))
        with pytest.raises(KilledError):
            host.go(2000)
    if boot:
        forget(host)
    # a minute later: the timer, or the unit at boot
    assert host.go(2060).problems == []
    assert theirs(host, "user-20000.slice") == []
    assert theirs(host, "user-30000.slice") == [str(tmp_path / "gpu1")]
    assert [one.id for one in grants.read(host.places.state)[0]] == ["b1"]
    if boot:
        forget(host)
    host.go(1500)  # the clock is put back
    assert theirs(host, "user-20000.slice") == []


@pytest.mark.holds("what a run that was killed has told systemd is told again")
@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
@pytest.mark.parametrize(("module", "name"), EFFECTS[1:], ids=[name for _, name in EFFECTS[1:]])
def test_what_ends_at_once_after_a_kill_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: Any, name: str, *, before: bool
) -> None:
    """A prolog was killed, and its epilog runs. Nobody is in the slice, so no trial finds out that it is open."""
    host = gated_host(tmp_path, monkeypatch)
    host.people["jiho"] = 30000
    host.go(1500)
    grants.write(STAYS, host.places.state)
    with monkeypatch.context() as patch:
        patch.setattr(module, name, killed(name, getattr(module, name), before=before))
        with pytest.raises(KilledError):
            host.go(1500)
    grants.delete(["b1"], host.places.state, host.places.run)
    reconcile.under_lock(host.places, 1510, whole=False)
    assert [path for path in host.allow.get("user-30000.slice", ()) if "/gpu" in path] == []


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_a_grant_that_is_killed_while_it_is_written_is_whole_or_not_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    host = gated_host(tmp_path, monkeypatch)
    with monkeypatch.context() as patch:
        patch.setattr(grants, "write_atomic", killed("write_atomic", grants.write_atomic, before=before))
        with pytest.raises(KilledError):
            grants.write(replace(ENDS, uid=30000), host.places.state)
    found, problems = grants.read(host.places.state)
    assert problems == []
    assert len(found) == (0 if before else 1)


def theirs(host: GatedHost, unit: str) -> list[str]:
    """Which GPUs a unit may open, by what systemd was told."""
    return [path for path in host.allow[unit] if "/gpu" in path]


def forget(host: GatedHost) -> None:
    """What a boot takes away: /run, and what systemd was told for this boot."""
    for path in (*Path(host.places.run).glob("*.json"), *Path(host.places.control).glob("*/*.conf")):
        path.unlink()
    host.allow.clear()
