"""A node fetches the cluster's state from the real dashboard behind a real nginx, in its own name and for no more."""

import hashlib
import json
import ssl
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import cluster_view
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError

from gpuadmin.common import tokens
from gpuadmin.dashboard.access import COOKIE
from gpuadmin.monitoring import certificates
from tests.support.dashboard_service import SECRET, SITE_SECRET, Running, link, running

pytestmark = pytest.mark.needs("nginx")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("dashboard")) as found:
        yield found


def shown() -> str:
    identity = certificates.dashboard(SITE_SECRET, ["monitor.example", "localhost", "127.0.0.1"])
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(identity.certificate)).hexdigest()


def fetch(tmp_path: Path, service: Running, *, key: bytes | None = None, **settings: Any) -> str | None:
    """Run what the unit runs; return what is in the file then."""
    known = {"node": "node1", "monitor": "127.0.0.1", "port": service.port, "certificate": shown(), **settings}
    (tmp_path / "links.json").write_text(json.dumps(known))
    own = tokens.signing_key(SECRET, tokens.LINK, "node1") if key is None else key
    (tmp_path / "key").write_text(f"{own.hex()}\n")
    target = tmp_path / "now.json"
    assert cluster_view.main(str(tmp_path / "links.json"), str(tmp_path / "key"), str(target)) == 0
    return target.read_text() if target.exists() else None


def test_a_node_learns_of_all_nodes(service: Running, tmp_path: Path) -> None:
    assert fetch(tmp_path, service) is not None
    found = cluster_view.load(str(tmp_path / "now.json"))
    assert found is not None
    assert [one.name for one in found.nodes] == ["node1", "node2"]
    assert abs(found.when - time.time()) < 60
    assert stat.S_IMODE((tmp_path / "now.json").stat().st_mode) == 0o644, "for everybody on this node"


@pytest.mark.parametrize(
    "odd",
    [
        {"node": "node9"}, {"node": "node2"}, {"key": bytes(32)}, {"key": tokens.signing_key(SECRET, "link", "node2")},
        {"monitor": "127.0.0.2", "port": 1},
    ],
    ids=str,
)  # fmt: skip
def test_nobody_else_is_told(odd: dict[str, Any], service: Running, tmp_path: Path) -> None:
    """A node that is not the site's, another's name, another's key; and a host that is away ends no unit."""
    assert fetch(tmp_path, service, **odd) is None


@pytest.mark.holds("only a node of the site is told who holds what")
def test_without_a_nodes_token_there_is_no_answer(service: Running) -> None:
    with service.client() as browser:
        for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": f"Bearer {link()}"}):
            assert browser.get(cluster_view.PATH, headers=headers).status_code == 401, "a person's link is none"
        assert browser.post(cluster_view.PATH).status_code == 405


def test_a_nodes_token_lets_nobody_in(service: Running) -> None:
    key = tokens.view_key(tokens.signing_key(SECRET, tokens.LINK, "node1"))
    text = tokens.sign(key, tokens.VIEW, "node1", "node1", int(time.time()))
    late = tokens.sign(key, tokens.VIEW, "node1", "node1", int(time.time()) - tokens.VIEW_SECONDS)
    with service.client() as browser:
        assert browser.get(cluster_view.PATH, headers={"Authorization": f"Bearer {text}"}).status_code == 200
        assert browser.get(cluster_view.PATH, headers={"Authorization": f"Bearer {late}"}).status_code == 401
        assert browser.post("/enter", data={"link": text}).status_code == 403
        assert browser.get("/", headers={"Cookie": f"{COOKIE}={text}"}).status_code == 303
        assert browser.get("/data/cluster", headers={"Authorization": f"Bearer {text}"}).status_code == 401


@pytest.mark.holds("a node shows its key to the monitor host alone")
def test_a_host_with_another_certificate_gets_no_token(
    service: Running, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fetch(tmp_path, service, certificate="0" * 64) is None
    assert "another certificate" in capsys.readouterr().err


@pytest.mark.holds("what is no answer of the dashboard's replaces no answer")
def test_what_is_no_answer_leaves_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "now.json"
    (tmp_path / "links.json").write_text("{}")
    (tmp_path / "key").write_text("00" * 32)
    target.write_text('{"when": 5, "nodes": []}')
    odd = (b'{"when": "x", "nodes": []}', b'{"when": 1, "nodes": [{"name": 5}]}')
    for raw in (b"<html>", b"[" * 100_000, b"[]", *odd):
        monkeypatch.setattr(cluster_view, "_fetch", lambda _known, _key, raw=raw: raw)
        assert cluster_view.main(str(tmp_path / "links.json"), str(tmp_path / "key"), str(target)) == 0
        assert cluster_view.load(str(target)).when == 5  # type: ignore[union-attr]  # it is there


def test_a_file_of_somebody_elses_making(tmp_path: Path) -> None:
    assert cluster_view.load(str(tmp_path / "none")) is None
    (tmp_path / "link").symlink_to("/etc/passwd")
    with pytest.raises(NodeError):
        cluster_view.load(str(tmp_path / "link"))
