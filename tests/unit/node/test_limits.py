"""Limits that nobody sets stand in docs/security.md, as they are in the code."""

import re
from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.module_utils.backups import copy_server, retention

PAGE = Path(__file__).resolve().parents[3] / "docs/security.md"


def test_the_page_says_what_holds() -> None:
    table = PAGE.read_text().partition("## Limits that are not settings")[2].partition("\n## ")[0]
    said = dict(re.findall(r"^\| ([^|]+) \| ([0-9]+)[^|]* \|", table, re.MULTILINE))
    assert {what: int(number) for what, number in said.items()} == {
        "a second copy stays after it came": retention.COPY_DAYS,
        "sets that the backup host takes in 24 hours": copy_server.PER_DAY,
    }
