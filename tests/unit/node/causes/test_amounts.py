"""What somebody has all of: what the kernel refuses is what stops them, what they were told is not."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.amounts import amounts
from ansible_collections.gpuadmin.node.plugins.module_utils.causes.cause import Person


@pytest.mark.parametrize(
    ("place", "held", "percent", "code", "words"),
    [
        ("docker", True, 98, None, ""),
        ("docker", True, 99, "amount-full", "minji's Docker data is full: 198.0 GB of 200.0 GB"),
        ("docker", False, 99, None, ""),
        ("docker", False, 100, "amount-docker-over", "minji's Docker data is more than they may have: 200.0 GB of"),
        ("home", True, 99, "amount-home-full", "minji's home is full: 198.0 GB of 200.0 GB; what writes there fails"),
        ("home", False, 101, "amount-over", "minji's home is more than they may have: 202.0 GB of 200.0 GB"),
    ],
)
def test_an_amount_that_is_used_up(place: str, held: bool, percent: int, code: str | None, words: str) -> None:
    used: dict[str, Any] = {"bytes": percent * 2 * 10**9, "most": 200 * 10**9, "held": held}
    found = list(amounts(Person("minji"), {"amounts": {place: used}}))
    assert [one.code for one in found] == ([] if code is None else [code])
    assert not found or words in found[0].cause


def test_who_has_no_amount_has_used_up_none() -> None:
    assert list(amounts(Person("minji"), {"amounts": None})) == []
