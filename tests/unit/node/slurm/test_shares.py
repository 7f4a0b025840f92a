"""When somebody's turn may come, who ends next, and whose share is how large."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import gpu_words, queue, shares
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm.texts import TEXTS

from tests.support.fake_slurm import row

SSHARE = """root|||1000
 root|root|1|0
 people||10|600
  people|minji|1|340
  people|jiho|1|20
 phd||20|400
  phd|hana|1|400
"""
LATER = 4_000_000_000


def table(*rows: str) -> list[dict[str, Any]]:
    return queue.jobs("\n".join(rows))


def test_who_waits_reads_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[Sequence[str]]()
    monkeypatch.setattr(queue, "ask", lambda command: (asked.append(command), SSHARE)[1])
    many = [row(str(40 + one), f"p{one}", "PENDING", priority=8) for one in range(6)]
    jobs = table(
        row("4", "jiho", "RUNNING", end=LATER + 60, nodes="gpu1"), row("5", "hana", "RUNNING", end=LATER, nodes="gpu2"),
        row("6", "jiho", "PENDING", priority=9), row("7", "jiho", "PENDING", priority=9), *many,
        row("9", "minji", "PENDING", priority=2),
    )  # fmt: skip
    ends, share, before = shares.lines(jobs, "minji", TEXTS["en"])
    assert ends.startswith("Next to end: hana (1 GPU of gpu2) at ")
    assert "you have used 34 %. Your group, people: 10 of 30 shares, 60 % of the use." in share
    assert before.startswith("Before you, with what they have used: jiho (2 %), p0 (0 %), ")
    assert ", 2 more. Who has used least" in before
    assert shares.lines(jobs, "siwoo", TEXTS["en"]) == [], "who does not wait is asked nothing"
    assert len(asked) == 1


@pytest.mark.parametrize("language", ["en", "ko"])
@pytest.mark.parametrize(("start", "known"), [(LATER, True), (None, False), (5, False)])
def test_an_estimate_is_not_a_promise(language: str, start: int | None, known: bool) -> None:
    (one,) = table(row("9", "minji", "PENDING", start=start))
    text = gpu_words.estimate(one, TEXTS[language], time.time())
    assert (gpu_words.clock(LATER) in text) == known
    assert bool(text) == known
