"""Asking Prometheus: what it answers and does not, and that a hundred who look are one question."""

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from gpuadmin.dashboard import prometheus
from gpuadmin.dashboard.files import DashboardError
from gpuadmin.dashboard.prometheus import Asked, Prometheus
from tests.support.fake_prometheus import Server, answering

VECTOR = {"status": "success", "data": {"resultType": "vector", "result": [
    {"metric": {"__name__": "up", "instance": "gpu01"}, "value": [1, "1"]},
]}}  # fmt: skip


@pytest.fixture
def server() -> Iterator[Server]:
    with answering() as made:
        made.answer = json.dumps(VECTOR).encode()
        yield made


def test_a_hundred_who_look_are_one_question(server: Server) -> None:
    server.seconds = 0.2

    async def hundred() -> list[Any]:
        asked = Asked(Prometheus(server.port))
        first = await asyncio.gather(*(asked.now("up") for _ in range(100)))
        return [*first, *(await asyncio.gather(*(asked.now("up") for _ in range(100))))]

    answers = asyncio.run(hundred())
    assert server.asked == 1
    assert [answer[0].value for answer in answers] == [1.0] * 200


def test_an_answer_is_kept_for_some_seconds_only(server: Server) -> None:
    async def twice() -> None:
        asked = Asked(Prometheus(server.port))
        await asked.now("up", 0.05)
        await asyncio.sleep(0.1)  # longer than it is kept
        await asked.now("up", 0.05)

    asyncio.run(twice())
    assert server.asked == 2


def test_who_goes_away_does_not_take_the_answer_along(server: Server) -> None:
    server.seconds = 0.2

    async def one_leaves() -> Any:
        asked = Asked(Prometheus(server.port))
        leaves = asyncio.ensure_future(asked.now("up"))
        stays = asyncio.ensure_future(asked.now("up"))
        await asyncio.sleep(0.05)  # both wait
        leaves.cancel()
        return await stays

    assert asyncio.run(one_leaves())[0].labels == {"instance": "gpu01"}


def test_a_failure_is_kept_for_a_moment_as_well(server: Server) -> None:
    server.answer = b"not JSON"

    async def failing() -> None:
        asked = Asked(Prometheus(server.port))
        for _ in range(5):
            with pytest.raises(DashboardError, match="does not answer"):
                await asked.now("up")

    asyncio.run(failing())
    assert server.asked == 1


def test_a_failure_that_took_long_is_kept_longer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it cannot answer in time is not asked for again and again, by each page that looks."""
    monkeypatch.setattr(prometheus, "_FAILED", 0.0)
    server.answer, server.seconds = b"not JSON", 1.0  # kept for three more

    async def failing() -> None:
        asked = Asked(Prometheus(server.port))
        begin = time.monotonic()
        while time.monotonic() < begin + 2.2:
            with pytest.raises(DashboardError, match="does not answer"):
                await asked.now("up", slow=True)
            await asyncio.sleep(0.01)

    asyncio.run(failing())
    assert server.asked == 1


def test_what_is_kept_is_bounded(server: Server) -> None:
    async def many() -> int:
        asked = Asked(Prometheus(server.port))
        for number in range(520):
            await asked.now(f"up{number}")
        return len(asked._kept)

    assert asyncio.run(many()) == 500


@pytest.mark.parametrize(
    "answer",
    [
        b"", b"[]", b"null", b'{"status": "error", "error": "query timed out"}', b'{"status": "success", "data": {}}',
        b'{"status":"success","data":{"resultType":"matrix","result":[]}}',
        b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[]}]}}',
    ],
)  # fmt: skip
def test_no_answer(server: Server, answer: bytes) -> None:
    server.answer = answer
    with pytest.raises(DashboardError):
        Prometheus(server.port).ask("up")


def test_over_time(server: Server) -> None:
    server.answer = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": [
        {"metric": {"uuid": "GPU-1"}, "values": [[0, "1"], [30, "NaN"], [60, "0.5"]]},
    ]}}).encode()  # fmt: skip
    (one,) = Prometheus(server.port).over_time("up", 0, 60, 30)
    assert (one.labels, one.values) == ({"uuid": "GPU-1"}, ((0.0, 1.0), (60.0, 0.5)))


def test_a_server_that_hangs_is_left(server: Server) -> None:
    server.seconds = 60
    begin = time.monotonic()
    with pytest.raises(DashboardError, match="does not answer"):
        Prometheus(server.port, timeout=0.2).ask("up")
    assert time.monotonic() - begin < 30
