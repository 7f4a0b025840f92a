"""How many connections there are at a time, whose, and which of them goes first."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.dashboard import listener
from ansible_collections.gpuadmin.node.plugins.module_utils.dashboard.listener import Listener


@pytest.fixture
def socket_of_ours(monkeypatch: pytest.MonkeyPatch) -> Iterator[Listener]:
    monkeypatch.setattr(listener, "MOST", 3)
    monkeypatch.setattr(listener, "MOST_HERE", 5)
    monkeypatch.setattr(listener, "MOST_IN_ALL", 8)
    with Listener(socket.create_server(("127.0.0.1", 0), backlog=64)) as found:
        found.settimeout(5)
        yield found


class Guests:
    """Those who connect, from addresses of the loopback interface, and what they are accepted as."""

    def __init__(self, to: Listener, stack: contextlib.ExitStack) -> None:
        self.to, self.stack = to, stack

    def come(self, address: str) -> tuple[socket.socket, socket.socket]:
        """Both ends."""
        end = socket.create_connection(self.to.getsockname(), 5, source_address=(address, 0))
        self.stack.enter_context(end)
        while True:
            with contextlib.suppress(BlockingIOError):  # a turn is over
                return end, self.stack.enter_context(self.to.accept()[0])


@pytest.fixture
def guests(socket_of_ours: Listener) -> Iterator[Guests]:
    with contextlib.ExitStack() as stack:
        yield Guests(socket_of_ours, stack)


def over(end: socket.socket) -> bool:
    """Whether the other side has hung up."""
    end.settimeout(0.05)
    try:
        return end.recv(1) == b""
    except TimeoutError:
        return False


def test_whoever_has_too_many_loses_the_oldest(guests: Guests) -> None:
    held = [guests.come("127.0.0.7")[0] for _ in range(5)]
    assert [over(end) for end in held] == [True, True, False, False, False]
    assert not over(guests.come("127.0.0.8")[0]), "another address has its own"


def test_one_that_has_ended_is_no_more_in_the_way(guests: Guests) -> None:
    held = [guests.come("127.0.0.7") for _ in range(3)]
    held[2][1].close()
    guests.come("127.0.0.7")
    assert not over(held[0][0])


def test_in_all_there_are_so_many_and_whoever_has_most_makes_room(guests: Guests) -> None:
    alone = guests.come("127.0.0.2")[0]
    many = [guests.come("127.0.0.7")[0] for _ in range(3)]
    others = [guests.come(f"127.0.1.{number}")[0] for number in range(1, 6)]
    assert [over(end) for end in (alone, *many, *others)] == [False, True, False, False, *[False] * 5]


def test_who_does_not_go_takes_no_room_without_end(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were hung up on and are still there are bounded too."""
    monkeypatch.setattr(listener, "LINGERING", 2)
    for number in range(10):
        guests.come(f"127.0.2.{number + 1}")
    with pytest.raises(ConnectionAbortedError):
        guests.come("127.0.3.1")


def test_a_turn_of_the_event_loop_takes_so_many(guests: Guests, monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio would accept two thousand in one, before one that has lost its place can end."""
    monkeypatch.setattr(listener, "AT_ONCE", 4)
    for _ in range(6):
        guests.stack.enter_context(socket.create_connection(guests.to.getsockname(), 5))
    for _ in range(4):
        guests.stack.enter_context(guests.to.accept()[0])
    with pytest.raises(BlockingIOError):
        guests.to.accept()
    guests.stack.enter_context(guests.to.accept()[0])


@pytest.mark.parametrize(
    ("text", "value"),
    [("127.0.0.1", "127.0.0.1"), ("::ffff:10.0.0.5", "10.0.0.5"), ("fe80::1%eth0", "fe80::1"), ("", ""), ("x", "")],
)
def test_an_address_is_compared_as_one(text: str, value: str) -> None:
    assert listener.address(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("10.0.0.5", "10.0.0.5"), ("::ffff:10.0.0.5", "10.0.0.5"), ("::1", "::1"), ("::ffff:127.0.0.1", "127.0.0.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"), ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
    ],
)  # fmt: skip
def test_of_ipv6_a_network_is_one(text: str, value: str) -> None:
    """A machine has any address of its own, without end."""
    assert listener.counted_for(text) == value
