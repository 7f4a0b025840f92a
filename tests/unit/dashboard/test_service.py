"""The process: what it needs, which address it listens on, and that it ends when the host has other code."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gpuadmin.dashboard import __main__ as service
from gpuadmin.dashboard import sign_in
from gpuadmin.dashboard.files import DashboardError
from tests.support.dashboard_service import PROXY, ROOT, nginx_conf, written


def test_only_its_unit_starts_it() -> None:
    """Run as the unit runs it."""
    done = subprocess.run(
        [sys.executable, "-sEB", "-m", "gpuadmin.dashboard"], cwd=ROOT, capture_output=True, text=True, check=False,
        env={"PATH": os.environ["PATH"]},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("Error: this is started by gpuadmin-dashboard.service")


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
    with pytest.raises(DashboardError, match=says):
        service.guarded(*given)


@pytest.mark.parametrize(
    "access",
    [
        {"prometheus": 0}, {"prometheus": "9090"}, {"prometheus": True}, {"proxy": {}},
        {"proxy": {**PROXY, "addresses": []}},
        {"proxy": {**PROXY, "addresses": ["proxy.lab"]}}, {"proxy": {**PROXY, "header": "X: Y"}}, {"hosts": None},
    ],
    ids=str,
)  # fmt: skip
def test_settings_that_nobody_wrote(access: dict[str, Any], tmp_path: Path) -> None:
    path = written(tmp_path, access, {})[0]
    with pytest.raises(DashboardError, match="is not what gpuadmin provision writes"):
        sign_in.load_sign_in(path)


@pytest.mark.holds("requests that are under way are bounded")
def test_requests_that_are_under_way_are_bounded(tmp_path: Path) -> None:
    """Who asks and goes away at once is not bounded by connections."""
    guard = service.guarded(*written(tmp_path, {}, {}))
    assert service.configuration(guard, fd=3).limit_concurrency == 1024


def test_settings_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DashboardError, match="gpuadmin provision writes it"):
        sign_in.load_sign_in(str(tmp_path / "none"))
    for text in ("", "[]", "{}", '{"sign_in": 1}'):
        (tmp_path / "some").write_text(text)
        with pytest.raises(DashboardError, match="is not what"):
            sign_in.load_sign_in(str(tmp_path / "some"))
    assert json.loads((Path(written(tmp_path, {}, {})[0])).read_text())["sign_in"]["prometheus"] == 1


@pytest.mark.parametrize(
    ("listen", "ipv6", "expected"),
    [
        ("all", True, ["listen 9443 ssl;", "listen [::]:9443 ssl;"]),
        ("all", False, ["listen 9443 ssl;"]),
        ("loopback", True, ["listen 127.0.0.1:9443 ssl;"]),
    ],
)
def test_where_nginx_listens(listen: str, ipv6: bool, expected: list[str], tmp_path: Path) -> None:
    """A host without IPv6 has no such address, and nginx would not start."""
    lines = [line.strip() for line in nginx_conf(tmp_path, 9443, listen, ipv6=ipv6).splitlines()]
    assert [line for line in lines if line.startswith("listen ")] == expected


def test_only_who_has_a_certificate_of_the_journals_authority_sends_a_journal(tmp_path: Path) -> None:
    text = nginx_conf(tmp_path, 9443, journals=["node1"])
    (server,) = [part for part in text.split("    server {") if "listen 19532 ssl;" in part]
    assert "ssl_verify_client on;" in server
    assert "ssl_client_certificate /authority.pem;" in server
    assert "location = /upload {" in server
    assert "19532" not in nginx_conf(tmp_path, 9443)


def test_systemd_hears_that_it_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(tmp_path / "notify"))
        heard.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
        service._tell_watchdog()
        assert heard.recv(100) == b"WATCHDOG=1"
