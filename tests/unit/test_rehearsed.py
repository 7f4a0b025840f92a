"""A plan that was rehearsed, and the one for the real hosts."""

from pathlib import Path

import pytest

from gpuadmin.errors import RefusedError
from gpuadmin.jsontext import json_text
from gpuadmin.plan import Plan, Step
from gpuadmin.rehearsed import VARIABLE, differences, refuse_another


def plan(*steps: tuple[str, str]) -> Plan:
    return Plan("x", tuple(Step(*step) for step in steps))


def test_what_a_twin_cannot_have_is_no_difference() -> None:
    twin = plan(("site", "mail minji@twin.invalid"), ("nas1", "back up 3 homes, 12 kB, as 20261125T101112"))
    real = plan(("site", "mail minji@example.org"), ("nas1", "back up 3 homes, 1.2 TiB, as 20261125T101530"))
    assert differences(twin.document(), real.document()) == []


def test_how_many_homes_is_one() -> None:
    twin, real = plan(("nas1", "wipe 1 homes")), plan(("nas1", "wipe 9 homes"))
    assert len(differences(twin.document(), real.document())) == 2


def test_a_host_or_a_person_more_is_one() -> None:
    twin = plan(("node1", "account minji, uid 20000"))
    real = plan(("node1", "account minji, uid 20001"), ("node2", "account minji, uid 20000"))
    assert differences(twin.document(), real.document()) == [
        "rehearsed alone: node1: account minji, uid 20000",
        "new: node1: account minji, uid 20001",
        "new: node2: account minji, uid 20000",
    ]


@pytest.mark.holds("nothing is done on real hosts that was not rehearsed")
def test_another_plan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = plan(("node1", "lock minji")), plan(("node1", "lock jiho"))
    refuse_another(other, "nothing was changed")  # nothing was rehearsed
    (tmp_path / "plan.json").write_text(json_text(one.document()))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "plan.json"))
    refuse_another(one, "nothing was changed")
    with pytest.raises(RefusedError, match=r"nothing was changed:\n  rehearsed alone: .*\n  new: node1: lock jiho"):
        refuse_another(other, "nothing was changed")


def test_a_part_has_fewer_steps_and_no_others() -> None:
    """Of a reset, who leaves is decided before its phases have plans."""
    whole = plan(("leaves", "minji (uid 20000)"), ("site", "lock minji"))
    assert differences(whole.document(), plan(("leaves", "minji (uid 20000)")).document(), part=True) == []
    assert differences(whole.document(), plan(("leaves", "jiho (uid 20001)")).document(), part=True) == [
        "new: leaves: jiho (uid 20001)"
    ]
