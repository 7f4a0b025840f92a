"""Amounts of what a node has: what is taken, what is refused with what would be right, and how much it is."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from gpuadmin.common.amounts import (
    ask_for_disk,
    ask_for_memory,
    ask_for_processors,
    ask_for_reserve,
    ask_for_swap,
    ask_for_tasks,
    compute_amount,
    disk_amount,
)

Ask = Callable[[Any], Any]


@pytest.mark.parametrize(
    ("ask", "value", "whole", "amount"),
    [
        (ask_for_memory, "80%", 1000, 800),
        (ask_for_memory, "100%", 1000, 1000),
        (ask_for_memory, "64G", 1, 64 << 30),
        (ask_for_memory, "128M", 1, 128 << 20),
        (ask_for_memory, "unlimited", 1000, None),
        (ask_for_swap, 0, 1000, 0),
        (ask_for_swap, "1T", 1000, 1 << 40),
        (ask_for_tasks, 4096, 1000, 4096),
        (ask_for_tasks, "10%", 1000, 100),
        (ask_for_processors, 16, 64, 16),
        (ask_for_processors, "50%", 64, 32),
        (ask_for_reserve, "5%", 1000, 50),
        (ask_for_reserve, 0, 1000, 0),
        (ask_for_reserve, "50G", 1000, 50 << 30),
    ],
)
def test_an_amount(ask: Ask, value: object, whole: int, amount: int | None) -> None:
    assert compute_amount(ask(value), whole) == amount


@pytest.mark.parametrize(
    ("ask", "value", "words"),
    [
        (ask_for_memory, 64, "64 is not an amount; write 80% (of the node's memory), or a size such as 64G"),
        (ask_for_memory, "64 GB", "'64 GB' is not an amount"),
        (ask_for_memory, "0%", "is not an amount"),
        (ask_for_memory, "101%", "is not an amount"),
        (ask_for_memory, "-1G", "is not an amount"),
        (ask_for_memory, "64M", "is too little to log in with; give 128M or more"),
        (ask_for_memory, None, "None is not an amount"),
        (ask_for_memory, "{{ x }}", "is not an amount"),
        (ask_for_swap, "no", "or unlimited"),
        (ask_for_tasks, True, "True is not an amount"),
        (ask_for_tasks, 10, "is too little to log in with; give 64 or more"),
        (ask_for_tasks, "64G", "or a number such as 4096"),
        (ask_for_processors, 0, "is not an amount"),
        (ask_for_disk, 500, "500 is not an amount; write a size such as 500G, or unlimited"),
        (ask_for_disk, "80%", "'80%' is not an amount"),
        (ask_for_disk, "500GB", "'500GB' is not an amount"),
        (ask_for_disk, None, "None is not an amount"),
        (ask_for_disk, "99M", "is too little to work with; give 100M or more"),
        (ask_for_processors, 1.5, "is not an amount"),
        (ask_for_processors, ["x"], "is not an amount"),
        (ask_for_reserve, "51%", "leaves people less than half of the disk; give 50% or less"),
        (ask_for_reserve, "unlimited", "is not an amount; write 5% of the disk, a size such as 50G, or 0 for nothing"),
    ],
)
@pytest.mark.holds("an amount that nobody understands is refused")
def test_refused(ask: Ask, value: object, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        ask(value)


@pytest.mark.parametrize(
    ("text", "amount"), [("500G", 500 * 10**9), ("1T", 10**12), ("100M", 10**8), ("unlimited", None)]
)
def test_an_amount_of_a_disk_is_what_people_are_told(text: str, amount: int | None) -> None:
    assert disk_amount(ask_for_disk(text)) == amount
