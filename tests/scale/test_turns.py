"""The mails of a thousand ends: each costs as much as one of a hundred."""

import json
import time

import pytest

from tests.support.mail_server import StartServer, serve
from tests.support.queue_host import NOW, Host, host, over

__all__ = ["host", "serve"]
FEW, MANY = 100, 1000


def take(host: Host, first: int, number: int) -> float:
    """Seconds for the mails of so many people, one job of each."""
    host.rows = [over(str(one), end=int(host.now) + 1, User=f"p{one:04}") for one in range(first, first + number)]
    began = time.perf_counter()
    host.look()
    return time.perf_counter() - began


@pytest.mark.slow
def test_a_thousand_ends(host: Host, serve: StartServer) -> None:
    server = serve()
    host.port = server.port
    people = {f"p{one:04}": f"p{one:04}@example.org" for one in range(FEW + MANY + 1)}
    (host.directory / "people.json").write_text(json.dumps(people))
    host.now = NOW
    host.look()
    few = take(host, 0, FEW)
    many = take(host, FEW, MANY)
    assert len(server.recipients) == len(set(server.recipients)) == FEW + MANY
    print(f"{FEW} mails: {few:.2f} s, {MANY}: {many:.2f} s, each {many / MANY * FEW / few:.2f} times as long")
    assert many / MANY < 2 * few / FEW
    # one person's thousand jobs are one mail, and cost no more than a hundred people's
    host.rows = [over(str(one), end=int(host.now) + 1) for one in range(5000, 5000 + MANY)]
    (host.directory / "people.json").write_text('{"minji": "minji@example.org"}')
    began = time.perf_counter()
    host.look(700)
    one = time.perf_counter() - began
    assert len(server.recipients) == FEW + MANY + 1
    assert one < 2 * few + 1
    assert "and 960 more" in server.messages[-1].get_content()
