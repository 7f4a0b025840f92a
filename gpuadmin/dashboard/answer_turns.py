"""Answers in turn: a person gets one answer about the past after the other, and other people get theirs in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from weakref import WeakValueDictionary

from starlette.exceptions import HTTPException

WAITING = 16  # answers for which one person waits at a time


class AnswerTurns:
    """Whose turn it is. Nobody is remembered who waits for nothing."""

    def __init__(self) -> None:
        self._waiting: Counter[str] = Counter()
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @contextlib.asynccontextmanager
    async def take(self, name: str) -> AsyncIterator[None]:
        """Wait for that person's turn. Raises HTTPException for somebody who asks on and on."""
        if self._waiting[name] >= WAITING:  # guard: who asks on and on is told to wait
            raise HTTPException(429)
        lock = self._locks.setdefault(name, asyncio.Lock())
        self._waiting[name] += 1
        try:
            async with lock:  # guard: one person has one answer of how things were at a time
                yield
        finally:
            self._waiting[name] -= 1
            self._waiting = +self._waiting
