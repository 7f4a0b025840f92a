"""Whom a host is told about."""

from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import people
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError


@pytest.mark.parametrize(
    "given_",
    [
        [{"name": "root", "uid": 0}],
        [{"name": 5, "uid": 20000}],
        [{"name": "minji", "uid": 20000}, {"name": "minji", "uid": 20001}],
        [{"name": "minji", "uid": 20000}, {"name": "jiho", "uid": 20000}],
    ],
)
def test_people_who_cannot_be_told_apart_are_refused(given_: list[dict[str, Any]]) -> None:
    with pytest.raises(NodeError):
        people.parse(given_)
