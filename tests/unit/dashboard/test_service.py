"""The process: what it needs, which address it listens on, and that it ends when the host has other code."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from ansible_collections.gpuadmin.node.plugins.module_utils import commands
from ansible_collections.gpuadmin.node.plugins.module_utils.dashboard import entrance, service
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.metrics import running

from tests.unit.node.dashboard.doorway import ACCESS, PROXY, free_port, written


def test_only_its_unit_starts_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("CREDENTIALS_DIRECTORY", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    assert commands.main(["dashboard"]) == 1
    assert "systemctl status gpuadmin-dashboard" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda base: (base / "credentials/secret").write_text("abc\n"), "secret is not"),
        (lambda base: (base / "credentials/secret").unlink(), "no credential 'secret'"),
        (lambda base: (base / "credentials/proxy").write_text("short"), "fewer than 16"),
        (lambda base: (base / "state/spent").write_text("?"), "remove it"),
    ],
)
def test_what_it_was_not_given(spoil: Callable[[Path], Any], says: str, tmp_path: Path) -> None:
    given = written(tmp_path, {"proxy": PROXY}, {})
    spoil(tmp_path)
    with pytest.raises(NodeError, match=says):
        service.guarded(entrance.load_entrance(given[0]), *given)


@pytest.mark.parametrize(
    "access",
    [
        {"port": 0}, {"port": "9443"}, {"port": True}, {"listen": "everywhere"}, {"link_minutes": 0},
        {"session_hours": 10**6}, {"proxy": {}}, {"proxy": {**PROXY, "addresses": []}},
        {"proxy": {**PROXY, "addresses": ["proxy.lab"]}}, {"proxy": {**PROXY, "header": "X: Y"}}, {"hosts": None},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_nobody_wrote(access: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path, access, {})[0]
    with pytest.raises(NodeError, match="is not what gpuadmin provision writes"):
        entrance.load_entrance(path)


def test_requests_that_are_under_way_are_bounded(tmp_path: Path) -> None:
    """Who asks and goes away at once is not bounded by connections."""
    given = written(tmp_path, {}, {})
    guard = service.guarded(entrance.load_entrance(given[0]), *given)
    found = service.configuration(guard, f"{given[2]}/certificate", f"{given[2]}/key")
    assert found.limit_concurrency == 1024


def test_settings_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(NodeError, match="gpuadmin provision writes it"):
        entrance.load_entrance(str(tmp_path / "none"))
    for text in ("", "[]", "{}", '{"entrance": 1}'):
        (tmp_path / "some").write_text(text)
        with pytest.raises(NodeError, match="is not what"):
            entrance.load_entrance(str(tmp_path / "some"))
    assert json.loads((Path(written(tmp_path, {}, {})[0])).read_text())["entrance"]["port"] == 1


@pytest.mark.parametrize("listen", ["", "127.0.0.1", "::1"])
def test_where_it_listens(listen: str) -> None:
    if listen == "::1" and not socket.has_dualstack_ipv6():
        listen = "127.0.0.1"  # a machine without IPv6 has no such address
    port = free_port()
    with service.listening(entrance.entrance_of({**ACCESS, "listen": listen, "port": port})) as listener:
        listener.settimeout(5)
        host = listen or "127.0.0.1"
        with socket.create_connection((host, port), 5):
            listener.accept()[0].close()
        if listen == "127.0.0.1":
            other = next(iter({one[4][0] for one in socket.getaddrinfo(socket.gethostname(), None)} - {listen}), None)
            if other is not None and ":" not in str(other) and not str(other).startswith("127."):
                with pytest.raises(OSError, match="refused"):
                    socket.create_connection((str(other), port), 5)


def test_it_ends_when_the_host_has_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link, told = tmp_path / "lib", []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    link.symlink_to("one")
    monkeypatch.setattr(running, "CODE", str(link))
    monkeypatch.setattr(running, "OURS", str(tmp_path / "one"))
    server = uvicorn.Server(uvicorn.Config("app"))
    server.started = True

    async def run() -> None:
        watch = asyncio.ensure_future(service._until_new_code(server, every=0.01))
        await asyncio.sleep(0.1)
        told.append(server.should_exit)
        link.unlink()
        link.symlink_to("two")
        await asyncio.wait_for(watch, 10)

    asyncio.run(run())
    assert (told, server.should_exit) == ([False], True)
    server.should_exit = False
    asyncio.run(asyncio.wait_for(service._until_new_code(server, every=60), 10))
    assert server.should_exit, "it came while this process began"
