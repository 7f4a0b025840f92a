"""What a button may ask: written and read again, it is the same; and names that are none."""

import pytest

from gpuadmin.common.pressed import VERBS, parse_line, press

VALUES = {"gpus": "2", "hours": "8", "type": "", "job": "12_3", "at": "2026-12-01T09:00", "number": "1"}


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_written_is_what_is_read(verb: str) -> None:
    pressed = press("minji", "ko", verb, VALUES)
    assert pressed is not None
    assert parse_line(pressed.line()) == pressed
    assert pressed.command()[-1] == "--language=ko"


@pytest.mark.parametrize("name", ["", "../x", "a b", "Minji", "a" * 33, "-x", "minji\n", "root:0"])
def test_a_name_that_is_none(name: str) -> None:
    assert press(name, "en", "cancel", VALUES) is None
