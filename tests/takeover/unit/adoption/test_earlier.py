"""What an earlier report says of hosts that are not looked at now."""

from typing import Any

from gpuadmin.takeover.adoption.conflict import Conflict
from gpuadmin.takeover.adoption.earlier import NOTHING, merged, read_earlier

HOST = {"groups": ["gpu"], "why": ["x"], "system": None, "gpus": 1, "people": ["minji"]}


def told(kind: str, *hosts: str, **more: Any) -> dict[str, Any]:
    lines = [f"# as root on {', '.join(hosts)}", "x"]
    return {"kind": kind, "words": "w", "level": "note", "hosts": list(hosts), "people": [], "remedies": lines, **more}


DOCUMENT = {
    "when": "2026-11-20T10:00:00+00:00",
    "hosts": {"gpu1": HOST, "gpu2": HOST},
    "people": {"minji": {"uid": 1001, "hosts": {"gpu1": 1001, "gpu2": 1002}}},
    "silent": {"gone": "does not answer"},
    "conflicts": [
        told("both", "gpu1", "gpu2"), told("second", "gpu2"), told("nobody's"), told("no storage host", "gpu1"),
        told("older", "gpu1", looked="2026-10-01"),
    ],
}  # fmt: skip


def test_what_is_of_the_others_stays_with_its_day() -> None:
    found = read_earlier(DOCUMENT, ["gpu2"], None)
    assert (list(found.hosts), found.uids) == (["gpu1"], {"minji": {"gpu1": 1001}})
    assert found.silent == {"gone": "does not answer"}
    assert [(one.kind, one.hosts, one.looked, one.remedies[0]) for one in found.conflicts] == [
        ("both", ("gpu1",), "2026-11-20", "# as root on gpu1"),
        ("nobody's", (), "2026-11-20", "# as root on "),
        ("older", ("gpu1",), "2026-10-01", "# as root on gpu1"),
    ]


def test_of_hosts_that_nobody_wants_any_more_nothing_stays() -> None:
    assert read_earlier(DOCUMENT, ["gpu1"], ["gpu1"]) == NOTHING
    assert read_earlier(DOCUMENT, ["gpu1", "gpu2", "gone"], None) == NOTHING
    assert read_earlier({**DOCUMENT, "conflicts": [{"kind": 7}]}, ["gpu1"], None) == NOTHING


def test_the_same_of_both_looks_is_one_and_of_now() -> None:
    now = Conflict("both", "w", "note", ("gpu3",), (), ("# as root on gpu3", "x"))
    (one,) = merged([now, *read_earlier({**DOCUMENT, "conflicts": [told("both", "gpu1")]}, [], None).conflicts])
    assert (one.hosts, one.looked, one.remedies) == (("gpu3", "gpu1"), "", ("# as root on gpu3, gpu1", "x"))
