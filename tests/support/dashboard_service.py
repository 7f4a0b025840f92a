"""The dashboard in this process, behind an nginx that is told what the role tells it, on a port of the loopback."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import uvicorn
import yaml
from jinja2 import Environment

from gpuadmin.common import tokens
from gpuadmin.dashboard import __main__ as service
from gpuadmin.lab.programs import search_path
from gpuadmin.monitoring import certificates
from tests.support.fake_prometheus import answering
from tests.support.prometheus import free_port

ROOT = Path(__file__).parents[2]
SITE_SECRET = bytes(range(32))
SECRET = tokens.dashboard_secret(SITE_SECRET)
PROXY_SECRET = "a secret of the proxy alone"
PROXY = {"header": "X-Remote-User", "addresses": ["127.0.0.1"], "admins": ["yseong"]}
ACCESS: Mapping[str, Any] = {
    "prometheus": 1, "hosts": ["monitor.example"], "proxy": None,
}  # fmt: skip


def link(name: str = "minji", signer: str = "node1", at: float | None = None, kind: str = tokens.LINK) -> str:
    """A link as a node signs it, or as the controller does."""
    key = tokens.signing_key(SECRET, kind, signer)
    return tokens.sign(key, kind, signer, name, int(time.time() if at is None else at))


def admin_link() -> str:
    return link("yseong@desk", tokens.CONTROLLER, kind=tokens.ADMIN_LINK)


class Running:
    """A service that answers at `url`. `said`: what nginx writes to its journal."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory, self.port, self.said = directory, port, directory / "nginx.log"
        self.url = f"https://localhost:{port}"

    def client(self, **options: Any) -> httpx.Client:
        """A browser: it takes the dashboard's certificate alone, keeps cookies and follows nothing by itself."""
        context = ssl.create_default_context(cadata=certificates.web_authority(SITE_SECRET))
        return httpx.Client(base_url=self.url, verify=context, timeout=30, **options)


def written(directory: Path, access: Mapping[str, Any], pages: Mapping[str, Any]) -> tuple[str, str, str]:
    """Everything that the role writes: settings, credentials, state."""
    settings, credentials, state = directory / "dashboard.json", directory / "credentials", directory / "state"
    for one in (credentials, state):
        one.mkdir(exist_ok=True)
    known = {"cluster": "lab <b>", "nodes": ["node1", "node2"], **pages}
    settings.write_text(json.dumps({**known, "sign_in": {**ACCESS, **access}}))
    identity = certificates.dashboard(SITE_SECRET, ["monitor.example", "localhost", "127.0.0.1"])
    asking = certificates.scraper(SITE_SECRET)
    given = {
        "asking-key": asking.key, "asking-certificate": asking.certificate,
        "asking-authority": certificates.authority(SITE_SECRET),
        "secret": f"{SECRET.hex()}\n", "key": identity.key, "certificate": identity.certificate, "proxy": PROXY_SECRET,
    }  # fmt: skip
    for name, text in given.items():
        (credentials / name).write_text(text)
    return str(settings), str(credentials), str(state)


def nginx_conf(
    directory: Path,
    port: int,
    listen: str = "loopback",
    *,
    ipv6: bool = False,
    notebooks: int = 0,
    front: int = 0,
    journals: Sequence[str] = (),
) -> str:
    """The role's own configuration, for a directory of the test's and whoever runs it. ``notebooks``: the port of
    notebooks; ``front``: that of the front of node1, on this machine; ``journals``: the hosts that send theirs."""
    own = yaml.safe_load((ROOT / "roles/dashboard/vars/main.yml").read_text())
    template = Environment().from_string((ROOT / "roles/dashboard/templates/nginx.conf.j2").read_text())
    text = template.render(
        dashboard_settings={"port": port, "listen": listen, "notebooks": notebooks}, dashboard_front_port=front,
        dashboard_journals={"hosts": journals}, _dashboard_journals_authority="/authority.pem",
        dashboard_notebooks=[{"name": "node1", "address": "127.0.0.1"}],
        _dashboard_notebook_headers=own["_dashboard_notebook_headers"],
        _dashboard_asking={
            one: directory / f"credentials/asking-{one}" for one in ("key", "certificate", "authority")
        },
        _dashboard_secrets=directory / "credentials",
        _dashboard_socket=directory / "app.sock", __dashboard_ipv6={"stat": SimpleNamespace(exists=ipv6)},
    )  # fmt: skip
    places = "".join(
        f"    {kind}_temp_path {directory}/temporary;\n"
        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    for before, after in (
        ("user www-data;", f"user {pwd.getpwuid(os.geteuid()).pw_name};"),
        ("/run/gpuadmin-dashboard-nginx", str(directory)),
        ("http {\n", f"http {{\n{places}"),
    ):
        assert before in text
        text = text.replace(before, after)
    return text


@contextmanager
def running(
    directory: Path,
    *,
    access: Mapping[str, Any] | None = None,
    nginx: Mapping[str, str] | None = None,
    front: int = 0,
    **pages: Any,
) -> Iterator[Running]:
    """The application and nginx as their units run them. `nginx`: what a test has otherwise in its configuration."""
    with answering() as prometheus, _application(directory, {"prometheus": prometheus.port, **(access or {})}, pages):
        port = free_port()
        text = nginx_conf(directory, port, notebooks=pages.get("notebooks", 0), front=front)
        for before, after in (nginx or {}).items():
            assert before in text
            text = text.replace(before, after)
        (directory / "nginx.conf").write_text(text)
        found = Running(directory, port)
        program = shutil.which("nginx", path=search_path())
        assert program is not None
        with found.said.open("ab") as said:
            process = subprocess.Popen([program, "-c", str(directory / "nginx.conf")], stderr=said)
        try:
            _listens(process, port)
            yield found
        finally:
            process.terminate()
            process.wait(30)


@contextmanager
def _application(directory: Path, access: Mapping[str, Any], pages: Mapping[str, Any]) -> Iterator[None]:
    path = directory / "app.sock"
    path.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(128)
        server = uvicorn.Server(
            service.configuration(service.guarded(*written(directory, access, pages)), fd=listener.fileno())
        )
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        end = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive(), "the service has ended"
            assert time.monotonic() < end, "the service does not start"
            time.sleep(0.01)  # it starts in a thread
        try:
            yield
        finally:
            server.should_exit = True
            thread.join(30)


def _listens(process: subprocess.Popen[bytes], port: int) -> None:
    end = time.monotonic() + 30
    while True:
        assert process.poll() is None, "nginx has ended"
        try:
            socket.create_connection(("127.0.0.1", port), 10).close()
            return
        except ConnectionRefusedError:
            assert time.monotonic() < end, "nginx does not listen"
            time.sleep(0.01)  # it starts


def connect(service: Running) -> ssl.SSLSocket:
    """A connection that says what a test lets it say."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    found = context.wrap_socket(socket.create_connection(("127.0.0.1", service.port), 60), server_hostname="localhost")
    found.settimeout(60)
    return found
