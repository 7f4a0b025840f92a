"""The whole look, as the operation answers: a part that hangs is unknown, and what is told is what the border takes."""

import json
import re
import time
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import operation
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges.place import Place

from gpuadmin.ansible.reports import of_text
from gpuadmin.takeover.node.adoption import collect


@pytest.mark.holds("a part that hangs is unknown, and no other is")
def test_one_part_that_hangs_or_fails_stops_no_other() -> None:
    def fails(place: Place) -> list[Any]:
        raise PermissionError(13, "Permission denied", "/etc/shadow")

    parts = {
        "hangs": lambda place: time.sleep(600),  # a file server that is away
        "fails": fails,
        "groups": lambda place: ["x"],
    }
    started = time.monotonic()
    answer = collect.collect(Place(), seconds=3, chosen=parts)
    assert time.monotonic() - started < 60
    assert (answer["groups"], answer["hangs"], answer["fails"]) == (["x"], None, None)
    assert set(answer["unknown"]) == {"hangs", "fails"}


def test_what_this_very_machine_tells_is_understood() -> None:
    result: dict[str, Any] = operation.run("adoption", {"admin": "gpuadmin"}, check=True)
    assert (result["changed"], result["report"]) == (False, {})
    found = of_text("adoption", result["each"]["adoption"])
    assert set(found) == {*collect.PARTS, "unknown"}
    assert "root" in {one["name"] for one in found["accounts"]}
    assert not re.search(r"\$(6|y|5|1)\$", json.dumps(found)), "no hash"
