"""A unit says what it has done, and fails where something went wrong."""

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.unit_status import said


def test_what_a_unit_says(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(["this", "that"], []) == 0
    assert capsys.readouterr() == ("this\nthat\n", "")
    assert said([], ["one is open"]) == 1
    assert capsys.readouterr() == ("", "Error: one is open\n")
