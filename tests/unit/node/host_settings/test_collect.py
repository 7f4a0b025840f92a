"""All sections: one that hangs or fails is unknown, and no other."""

import time

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings import collect
from ansible_collections.gpuadmin.node.plugins.module_utils.host_settings.place import MOST, Place, Settings

from gpuadmin.common.sections import SECTIONS


def test_the_sections_are_those_that_are_compared() -> None:
    assert list(collect.SECTIONS) == list(SECTIONS)


@pytest.mark.holds("a part that hangs is unknown, and no other is")
def test_one_that_hangs_or_fails_stops_no_other() -> None:
    def hangs(place: Place) -> Settings:
        time.sleep(600)  # a program that does not end
        return {}

    def fails(place: Place) -> Settings:
        raise PermissionError(13, "Permission denied", "/etc/sudoers")

    def refuses(place: Place) -> Settings:
        raise NodeError("nft is broken")

    parts = {
        "hangs": hangs, "fails": fails, "refuses": refuses, "good": lambda place: {"x": "1"},
        "huge": lambda place: {str(number): "" for number in range(MOST + 1)},
    }  # fmt: skip
    started = time.monotonic()
    found = collect.collect(Place(), seconds=3, chosen=parts)
    assert time.monotonic() - started < 60
    assert found["sections"] == {"good": {"x": "1"}}
    assert set(found["unknown"]) == {"hangs", "fails", "refuses", "huge"}
    assert found["unknown"]["refuses"] == "nft is broken"


def test_only_what_was_asked_for() -> None:
    found = collect.collect(Place(), only=frozenset(["b"]), chosen={"a": lambda _: {}, "b": lambda _: {"x": "1"}})
    assert found == {"sections": {"b": {"x": "1"}}, "unknown": {}}
