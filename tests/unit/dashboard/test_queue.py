"""The queue's page: one's own place first, who has and who waits; nothing made up where it does not answer."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from gpuadmin.common.samples import Sample
from gpuadmin.common.waiting import WHY
from gpuadmin.dashboard.queue import OLD, queue
from gpuadmin.dashboard.texts import TEXTS
from tests.support.dashboard_app import Scene, get, plain, rows
from tests.support.metrics_cluster import node
from tests.support.prometheus import blocks, prometheus
from tests.support.queue_series import queue_lines


def sample(name: str, value: float, **labels: str) -> Sample:
    return Sample(name, {"instance": "nas1", **labels}, value)


def measured(now: float, *more: Sample, up: int = 1) -> list[Sample]:
    when = sample("gpuadmin_collector_sample_timestamp_seconds", now, source="queue")
    return [sample("gpuadmin_queue_up", up), when, *more]


def scene(directory: Path, now: float, found: Sequence[str]) -> Iterator[Scene]:
    with prometheus(directory, blocks(directory, found)) as port:
        yield Scene(port, now, directory)


@pytest.fixture(scope="module")
def queued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    now = time.time()
    yield from scene(tmp_path_factory.mktemp("queued"), now, list(queue_lines(now)))


@pytest.mark.needs("promtool", "prometheus")
def test_ones_own_place_and_everybody(queued: Scene) -> None:
    client = queued.client()
    status, html = get(client, "/queue", "haeun")
    text = plain(html)
    assert status == 200
    assert "Yours Place 2, GPUs: 6 × 2. Slurm's own reason" in text.replace("&#39;", "'")
    assert rows(html)["minji"].startswith("minji 2 gpu01 ")
    assert "1 jiho 2 – Others come first" in rows(html)["1"]
    assert text.count("by what jobs have asked for.") == 2, "in one's own line, and in everybody's"
    assert "Not before" in rows(html)["2"]
    assert re.search(
        r"Ended in the last day Job 3, [-0-9 :]+: it took more memory than it had asked for\. Who has", text
    )
    assert "gpu01 : &lt;b&gt;new image" in text
    assert "GPUs: 2, on gpu01, until" in plain(get(client, "/queue", "minji")[1])
    assert "GPU 2개(gpu01)" in plain(get(client, "/queue", "minji", **{"accept-language": "ko"})[1])
    # who made an exception, and why, is everybody's to read
    assert "seoyeon an exception, made by kim@ctl : &lt;b&gt;paper 2 gpu01 " in " ".join(rows(html).values())
    assert text.count("an exception") == 1
    own = plain(get(client, "/queue", "seoyeon", **{"accept-language": "ko"})[1])
    assert "따로 준 관리자: kim@ctl : &lt;b&gt;paper" in own
    assert "You have no GPU from the queue" in plain(get(client, "/queue", "siwoo")[1])
    assert "Who waits : jiho (GPUs: 2) , haeun (GPUs: 6 × 2)" in plain(get(client, "/")[1])
    assert "요청 시각" in plain(get(client, "/queue", "haeun", **{"accept-language": "ko"})[1])
    none = plain(get(client, "/free?gpus=3")[1])
    assert re.search(
        r"Ends next: minji, GPUs: 2, on gpu01, until \d{4}-\d\d-\d\d \d\d:\d\d\. People waiting: 2\.", none
    )
    assert "Ends next" not in get(client, "/free?gpus=2")[1]


@pytest.mark.needs("promtool", "prometheus")
def test_a_site_without_a_queue_has_no_page_of_it(tmp_path_factory: pytest.TempPathFactory) -> None:
    now, directory = time.time(), tmp_path_factory.mktemp("without")
    for one in scene(directory, now, list(node("gpu01", now))):
        client = one.client()
        assert get(client, "/queue")[0] == 404
        assert 'href="/queue"' not in get(client, "/")[1]


@pytest.mark.holds("a queue that does not answer is not shown as empty")
def test_a_queue_that_does_not_answer_is_not_empty() -> None:
    assert queue([], 1000) is None
    now = 10_000.0
    known = queue(measured(now), now)
    assert known is not None
    assert known.known
    for found in (measured(now, up=0), measured(now - OLD - 1), [sample("gpuadmin_queue_up", 1)]):
        away = queue(found, now)
        assert away is not None
        assert not away.known


@pytest.mark.parametrize(("code", "why"), [*((one, one) for one in WHY), ("something-new", "other")])
def test_each_reason_that_nodes_know_has_its_sentence(code: str, why: str) -> None:
    found = queue(measured(1000, sample("gpuadmin_queue_place", 1, id="5", user="jiho", gpus="2", why=code)), 1000)
    assert found is not None
    assert [one.why for one in found.waits] == [why]
    assert f"queue-why-{why}" in TEXTS
