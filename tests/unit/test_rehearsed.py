"""A plan that was rehearsed, and the one for the real hosts."""

from pathlib import Path

import pytest

from gpuadmin.errors import RefusedError
from gpuadmin.jsontext import json_text
from gpuadmin.plan import Plan, Step
from gpuadmin.rehearsed import VARIABLE, differences, refuse_another


def plan(*steps: tuple[str, str]) -> Plan:
    return Plan("x", tuple(Step(*step) for step in steps))


@pytest.mark.holds("nothing is done on real hosts that was not rehearsed")
def test_another_plan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = plan(("node1", "lock minji")), plan(("node1", "lock jiho"))
    refuse_another(other, "nothing was changed")  # nothing was rehearsed
    (tmp_path / "plan.json").write_text(json_text(one.document()))
    monkeypatch.setenv(VARIABLE, str(tmp_path / "plan.json"))
    refuse_another(one, "nothing was changed")
    with pytest.raises(RefusedError, match=r"nothing was changed:\n  rehearsed alone: .*\n  new: node1: lock jiho"):
        refuse_another(other, "nothing was changed")
    for odd in ("", "{"):
        (tmp_path / "plan.json").write_text(odd)
        with pytest.raises(RefusedError, match="does not say what was rehearsed; nothing was changed"):
            refuse_another(one, "nothing was changed")


def of(*actions: str, **more: object) -> dict[str, object]:
    return {**plan(*(("node1", action) for action in actions)).document(), **more}


@pytest.mark.parametrize(
    ("twin", "real"),
    [
        ("lab1 files", "lab999 files"),
        ("keep 3 homes", "keep 0 homes"),
        ("GPU 1 until 2026-11-25 10:00", "GPU 1 until 2036-11-25 10:00"),
        ("GPU 1 until 2026-11-25T10:00", "GPU 1 until 2036-11-25T10:00"),
        ("limits: memory 64 GiB", "limits: memory 1 GiB"),
        ("quota 64 GiB", "quota 1 GiB"),
        ("lock kim@a.example minji", "lock kim@a.example jiho"),
        ("kim@a jiho", "minji@b jiho"),
        ("rsync root@node1:/home/kim", "rsync root@node2:/home/jiho"),
        ("rsync root@node1.example.org:/home/kim", "rsync root@node2.example.org:/home/kim"),
        ("account kim, valid until 2026-12-31", "account kim, valid until 2027-12-31"),
    ],
)
def test_what_is_no_amount_and_no_address_is_compared(twin: str, real: str) -> None:
    assert differences(of(twin), of(real))


@pytest.mark.parametrize(
    ("twin", "real"),
    [
        ("mail minji@twin.invalid", "mail minji@example.org"),
        ("back up 3 homes, 12 kB, as 20261125T101112", "back up 3 homes, 1.2 TiB, as 20261125T101530"),
        ("GPU 1 until 2026-11-25 10:00", "GPU 1 until 2026-11-25 10:07"),
        ("home kim; 3 files, 12 kB", "home kim; 90000 files, 1.5 TiB"),
        ("back up as 20261125T235959", "back up as 20261126T000412"),
        ("kim <kim@twin.invalid>: welcome", "kim <kim@example.org>: welcome"),
        ("kim <kim@twin.invalid>: welcome", "kim <20261125T101112@example.org>: welcome"),
    ],
)
def test_amounts_and_moments_of_runs_are_not(twin: str, real: str) -> None:
    assert differences(of(twin), of(real)) == []


WARNED = ["wipes /local"]


@pytest.mark.holds(
    "a warning that nobody has seen at the rehearsal is a difference",
    "what destroys something is not a rehearsal of what does not",
    "what was rehearsed in another order was not rehearsed",
)
@pytest.mark.parametrize(
    ("twin", "real", "found"),
    [
        (of("wipe 1 homes"), of("wipe 9 homes"), ["rehearsed alone: node1: wipe 1 homes", "new: node1: wipe 9 homes"]),
        (of("uid 20000"), of("uid 20001"), ["rehearsed alone: node1: uid 20000", "new: node1: uid 20001"]),
        (of("pack", "remove"), of("remove", "pack"), ["in another order than was rehearsed"]),
        (of("reboot"), of("reboot", "reboot"), ["new: node1: reboot"]),
        (of("lock"), plan(("node1", "lock"), ("node2", "lock")).document(), ["new: node2: lock"]),
        (of(), of(destroys=True), ["new: it destroys something"]),
        (of(destroys=True), of(destroys=True), []),
        (of(), of(warnings=WARNED), ["new warning: wipes /local"]),
        (of(warnings=WARNED), of(), []),
    ],
)
def test_another_plan(twin: dict[str, object], real: dict[str, object], found: list[str]) -> None:
    assert differences(twin, real) == found


def test_a_part_has_fewer_steps_and_no_others() -> None:
    """Of a reset, who leaves is decided before its phases have plans."""
    whole = of("minji (uid 20000)", "lock minji")
    assert differences(whole, of("minji (uid 20000)"), part=True) == []
    assert differences(whole, of("jiho (uid 20001)"), part=True) == ["new: node1: jiho (uid 20001)"]
