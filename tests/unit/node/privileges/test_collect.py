"""The whole look: what hangs or fails is unknown, and the report has its bounds."""

import time

from ansible_collections.gpuadmin.node.plugins.module_utils.privileges import collect
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import (
    DIFFERS,
    LONGEST,
    MOST,
    Found,
    Place,
)


def test_one_part_that_hangs_or_fails_stops_no_other() -> None:
    def fails(place: Place) -> list[Found]:
        raise PermissionError(13, "Permission denied", "/etc/shadow")

    parts = {
        "hangs": lambda place: time.sleep(600),  # a disk that does not answer
        "fails": fails,
        "modes": lambda place: [Found("/tmp", "differs", DIFFERS)],
        "groups": lambda place: ([Found("minji in group sudo", "is root")], ["a disk was not looked at"]),
    }
    started = time.monotonic()
    answer = collect.collect(Place(), seconds=3, chosen=parts)
    assert time.monotonic() - started < 60
    assert [one.key for one in answer.found] == ["minji in group sudo", "/tmp"], "who is root comes first"
    assert set(answer.unknown) == {"hangs", "fails"}
    assert answer.aside == ["a disk was not looked at"]


def test_a_report_has_its_bounds() -> None:
    many = [Found(f"/usr/\x1b[2J{number}" + "x" * 5000, "y" * 5000) for number in range(MOST + 5)]
    found = collect.collect(Place(), chosen={"owners": lambda place: many}).found
    assert len(found) == MOST + 1
    assert found[-1].words == "and 5 more"
    assert max(len(one.key) for one in found) <= LONGEST
    assert "\x1b" not in found[0].key


def test_what_is_said_of_a_path_is_said_once() -> None:
    parts = {
        "owners": lambda place: [Found("/etc/x", "everybody may write it")],
        "modes": lambda place: [Found("/etc/x", "has mode 666"), Found("/tmp", "has mode 755", DIFFERS)],
    }
    assert [one.words for one in collect.collect(Place(), chosen=parts).found] == [
        "everybody may write it", "has mode 755",
    ]  # fmt: skip
