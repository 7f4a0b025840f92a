"""Whom a host is told about."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import people
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.common.records.people import PersonEntry


@pytest.mark.parametrize(
    "given_",
    [
        [PersonEntry("root", 0)],
        [PersonEntry("minji", 20000), PersonEntry("minji", 20001)],
        [PersonEntry("minji", 20000), PersonEntry("jiho", 20000)],
    ],
)
def test_people_who_cannot_be_told_apart_are_refused(given_: list[PersonEntry]) -> None:
    with pytest.raises(NodeError):
        people.parse(given_)
