"""Asking the Prometheus of this host, over its loopback interface. An answer is kept for some seconds, for everybody.

A hundred phones that look are one question: who comes while it is under way waits for the same answer.
"""

from __future__ import annotations

import asyncio
import http.client
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, TypeVar

from ..common.prometheus import Client, Series
from ..common.samples import Sample
from .files import DashboardError

T = TypeVar("T")
_LARGEST = 64 * 1024 * 1024  # bytes of an answer
_MOST = 500  # answers that are kept
_QUICK, _SLOW = 4, 3  # questions at a time: of how things are, and of how they were, for which no page of now waits
_FAILED = 2.0  # seconds for which a failure is kept: a Prometheus that is away is not asked by each page again
_AGAIN = 3  # times as long as it took, where that is longer: what it cannot answer in time is not all that it does


class Prometheus:
    """Prometheus' HTTP API at an address and port."""

    def __init__(self, port: int = 9090, address: str = "127.0.0.1", timeout: float = 20.0) -> None:
        self._at, self._timeout = (address, port), timeout

    def ask(self, query: str) -> list[Sample]:
        """What holds now. Raises DashboardError."""
        return self._query_api(Client.ask, query)

    def over_time(self, query: str, begin: float, end: float, step: int) -> list[Series]:
        """What held from one moment to another (seconds since 1970), every `step` seconds. Raises DashboardError."""
        return self._query_api(Client.over_time, query, begin, end, step)

    def _query_api(self, question: Callable[..., list[T]], *arguments: Any) -> list[T]:
        connection = http.client.HTTPConnection(*self._at, timeout=self._timeout)
        try:
            return question(Client(connection, self._timeout, _LARGEST), *arguments)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise DashboardError(f"Prometheus does not answer: {error or type(error).__name__}") from None
        finally:
            connection.close()


class Asked:
    """Prometheus, asked at most once in some seconds for the same thing, and out of the event loop."""

    def __init__(self, prometheus: Prometheus) -> None:
        self._prometheus = prometheus
        self._kept: OrderedDict[tuple[Any, ...], tuple[float, Any]] = OrderedDict()
        self._under_way: dict[tuple[Any, ...], asyncio.Task[Any]] = {}
        self._at_once: dict[bool, asyncio.Semaphore] = {}

    async def now(self, query: str, seconds: float = 10.0, *, slow: bool = False) -> list[Sample]:
        """What holds now, or held so many seconds ago. `slow`: it is added up over days. Raises DashboardError."""
        return list(await self._once(("now", query), seconds, slow, self._prometheus.ask, query))

    async def over_time(self, query: str, begin: float, end: float, step: int) -> list[Series]:
        """What held from one moment to another, every `step` seconds. Raises DashboardError."""
        key = ("over time", query, begin, end, step)
        return list(await self._once(key, 300.0, True, self._prometheus.over_time, query, begin, end, step))

    async def _once(self, key: tuple[Any, ...], seconds: float, slow: bool, call: Any, *arguments: Any) -> Any:
        until, kept = self._kept.get(key, (0.0, None))
        if time.monotonic() >= until:
            task = self._under_way.get(key)
            if task is None:  # guard: many who look are one question -> True
                task = asyncio.ensure_future(self._ask(key, seconds, slow, call, arguments))
                self._under_way[key] = task
            # somebody who goes away does not take the answer from others who wait for it
            kept = await asyncio.shield(task)
        if isinstance(kept, DashboardError):
            raise DashboardError(str(kept))
        return kept

    async def _ask(
        self, key: tuple[Any, ...], seconds: float, slow: bool, call: Any, arguments: tuple[Any, ...]
    ) -> Any:
        at_once = self._at_once.setdefault(
            slow,  # guard: how things are does not wait for how they were -> True
            asyncio.Semaphore(_SLOW if slow else _QUICK),
        )
        begun = time.monotonic()
        try:
            answer: Any
            try:
                async with at_once:
                    begun = time.monotonic()
                    answer = await asyncio.to_thread(call, *arguments)
            except DashboardError as error:
                answer, seconds = error, max(_FAILED, _AGAIN * (time.monotonic() - begun))
            self._kept[key] = (time.monotonic() + seconds, answer)
            self._kept.move_to_end(key)
            while len(self._kept) > _MOST:
                self._kept.popitem(last=False)
            return answer
        finally:
            del self._under_way[key]
