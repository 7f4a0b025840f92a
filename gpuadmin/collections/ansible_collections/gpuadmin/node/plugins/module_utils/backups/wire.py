"""What two hosts say to each other about a home: records with a few fields, some with bytes, each of bounded length.

A record is the length of its fields (4 bytes), its fields as JSON, and as many bytes as its field ``bytes`` says.
Names are bytes: those that are no UTF-8 are sent unchanged.
"""

from __future__ import annotations

import json
import os
import select
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..budget import ENTRIES, Budget
from ..errors import NodeError
from ..fields import CONTROL
from .copy_stream import BOUNDS, Bounds

HEAD = 4 << 20  # bytes of the fields of a record
BLOCK = 1 << 20  # bytes after them
_KEPT = 4000  # bytes of complaints
_BUFFER = 1 << 18


class Stopped(NodeError):
    """The other side stands still, takes too long, or has gone."""


class Link:
    """Two pipes, and perhaps a third for complaints. Raises Stopped when nothing moves, or all takes too long."""

    def __init__(
        self, source: int, sink: int, *, complaints: int | None = None, bounds: Bounds = BOUNDS,
        close: Callable[[], object] = lambda: None,
    ) -> None:  # fmt: skip
        self._close = close
        self._source = source
        self._sink = sink
        self._complaints = complaints
        self._bounds = bounds
        self._end = time.monotonic() + bounds.total
        self._out = bytearray()
        self._in = bytearray()
        self._complained = b""
        for handle in (source, sink, *(() if complaints is None else (complaints,))):
            os.set_blocking(handle, False)

    def _wait(self, handle: int, event: int) -> None:
        """Wait until a handle is ready. Keeps the end of what the other side complains about meanwhile."""
        idle = time.monotonic() + self._bounds.idle
        poll = select.poll()
        poll.register(handle, event)
        if self._complaints is not None:
            poll.register(self._complaints, select.POLLIN)
        while True:
            now = time.monotonic()
            if now > min(idle, self._end):  # guard: what does not move is ended
                late = "stood still" if now > idle else "took too long"
                raise Stopped(
                    f"the other host {late}: ended after {now - (self._end - self._bounds.total):.0f} seconds"
                )
            ready = [one for one, _event in poll.poll(1000)]
            if self._complaints in ready:
                poll = self._hear(poll)
            if handle in ready:
                return

    def _hear(self, poll: select.poll) -> select.poll:
        assert self._complaints is not None
        heard = os.read(self._complaints, _KEPT)
        self._complained = (self._complained + heard)[-_KEPT:]
        if not heard:
            poll.unregister(self._complaints)
            self._complaints = None
        return poll

    def hear(self) -> None:
        """Read what the other side has complained about so far."""
        poll = select.poll()
        if self._complaints is not None:
            poll.register(self._complaints, select.POLLIN)
        while self._complaints is not None and poll.poll(0):
            self._hear(poll)

    def words(self) -> str:
        """The last words of the other side's complaints."""
        text = self._complained.decode(errors="replace").strip()[-400:]
        return CONTROL.sub("?", text.removeprefix("Error: "))

    def say(self, data: bytes) -> None:
        """Send bytes that are not a record."""
        self._out += data
        self.flush()

    def close(self) -> None:
        """Send what is left, and close."""
        self.flush()
        self._close()

    def rest(self, most: int) -> bytes:
        """Everything that comes until the other side ends. Raises NodeError if it is more than ``most`` bytes."""
        while True:
            if len(self._in) > most:
                raise NodeError(f"the answer is longer than {most} bytes")
            if not self._more():
                found = bytes(self._in)
                self._in.clear()
                return found

    def flush(self) -> None:
        while self._out:
            self._wait(self._sink, select.POLLOUT)
            try:
                del self._out[: os.write(self._sink, self._out[:_BUFFER])]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                raise Stopped("the other host has stopped taking data") from None

    def put(self, operation: str, data: bytes = b"", /, **fields: object) -> None:
        """Send a record. Names and texts in it may hold bytes that are no UTF-8, as ``os.fsdecode`` gives them.

        Raises NodeError if its fields are too long.
        """
        head: dict[str, object] = {"op": operation, **fields}
        if data:
            head["bytes"] = len(data)
        text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")
        if len(text) > HEAD:
            raise NodeError(f"holds something with attributes of more than {HEAD >> 20} MiB")
        self._out += struct.pack(">I", len(text)) + text + data
        if len(self._out) >= _BUFFER:
            self.flush()

    def _more(self) -> bool:
        """Wait for what comes, and take it. Returns False at its end."""
        while True:
            self._wait(self._source, select.POLLIN)
            try:
                data = os.read(self._source, _BUFFER)
            except BlockingIOError:
                continue
            self._in += data
            return bool(data)

    def _take(self, size: int) -> bytes:
        while len(self._in) < size:
            if not self._more():
                raise Stopped("the other host stopped before the end")
        result = bytes(self._in[:size])
        del self._in[:size]
        return result

    def get(self) -> tuple[str, Mapping[str, Any], bytes]:
        """The next record: its operation, fields and bytes. Raises NodeError for anything that is not a record."""
        (length,) = struct.unpack(">I", self._take(4))
        if length > HEAD:
            raise NodeError("what came is not a record: its fields are too long")
        text = self._take(length)
        try:
            head = json.loads(text.decode("utf-8", "surrogateescape"))
        except (ValueError, RecursionError) as error:
            raise NodeError(f"what came is not a record: {error}") from error
        size = head.get("bytes", 0) if isinstance(head, dict) else -1
        if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= BLOCK:
            raise NodeError("what came is not a record: its bytes are not counted, or too many")
        return str(head.get("op")), head, self._take(size)

    def wait(self) -> tuple[str, Mapping[str, Any], bytes]:
        """The next record, signs of life left out."""
        self.flush()
        while (record := self.get())[0] == "wait":
            pass
        return record


class Pulse(Budget):
    """The budget of a home that is sent. While there is nothing to send, it gives the other host signs of life."""

    EVERY = 60.0  # seconds

    def __init__(self, link: Link, seconds: float, most: float = ENTRIES) -> None:
        super().__init__(seconds, most)
        self._link = link
        self._pulsed = time.monotonic()

    def check(self) -> None:
        super().check()
        if time.monotonic() - self._pulsed > self.EVERY:
            self._pulsed = time.monotonic()
            self._link.put("wait")
            self._link.flush()

    def again(self) -> Budget:
        result = Pulse(self._link, self.seconds, self.entries)
        result._end = self._end
        return result
