"""gpuadmin dashboard and what provision gives to the roles: from a site to a service that answers, with one secret."""

import hashlib
import json
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from gpuadmin.actions import dashboard as action
from gpuadmin.actions.shared.dashboard import dashboard_variables, proxy_secret
from gpuadmin.actions.shared.forward import Forward, free_port
from gpuadmin.actions.shared.pages import write_guide
from gpuadmin.cli.gpus import dashboard
from gpuadmin.common import tokens
from gpuadmin.config.load import Site, load_site
from gpuadmin.config.skeleton import SiteHost, write_site
from gpuadmin.errors import ConfigError, GpuadminError, HostFailedError, UnreachableError
from gpuadmin.monitoring import certificates
from gpuadmin.pages.guide import RULES
from gpuadmin.pages.render import page
from tests.support.dashboard_service import SITE_SECRET, Running, running
from tests.support.failing import raising

pytestmark = pytest.mark.holds(
    "a certificate and a key that do not belong together",
    "a key of a certificate that others can read",
    "no link is signed for what shows another certificate",
)


LOCAL = {"ansible_connection": "local"}


def site(
    directory: Path, dashboard: dict[str, Any] | None = None, *, monitor: bool = True, secret: bool = True
) -> Site:
    groups = ("storage", "monitor") if monitor else ("storage",)
    hosts = [
        SiteHost("nas1", groups, {**LOCAL, "gpuadmin_address": "10.0.0.5"}),
        SiteHost("gpu1", ("gpu",), {"ansible_host": "10.0.0.1"}),
        SiteHost("gpu2", ("gpu",), {"ansible_host": "10.0.0.2"}),
    ]
    write_site(directory, name="test", settings={}, hosts=hosts, schemas=False)
    with (directory / "gpuadmin.yml").open("a", encoding="utf-8") as stream:
        stream.write(f"metrics: {json.dumps({'dashboard': dashboard or {}})}\n")
    if secret:
        path = directory / "metrics_secret"
        path.write_text(f"{SITE_SECRET.hex()}\n")
        path.chmod(0o600)
    return load_site(str(directory))


def test_each_node_gets_a_key_of_its_own_and_nobody_the_sites(tmp_path: Path) -> None:
    given = dashboard_variables(site(tmp_path), SITE_SECRET)
    own = tokens.dashboard_secret(SITE_SECRET)
    assert given["secret"] == own.hex() != SITE_SECRET.hex()
    assert given["links"] == {name: tokens.signing_key(own, tokens.LINK, name).hex() for name in ("gpu1", "gpu2")}
    assert len({*given["links"].values(), given["secret"], SITE_SECRET.hex()}) == 4
    assert given["proxy_secret"] == ""


def test_what_pages_and_nodes_are_told(tmp_path: Path) -> None:
    wanted = {"names": ["gpu.lab.example"], "port": 8443}
    given = dashboard_variables(site(tmp_path, wanted), SITE_SECRET)
    told = given["settings"]
    assert (told["nodes"], told["admins"]) == (["gpu1", "gpu2"], ["root", "gpuadmin"])
    assert (told["sign_in"]["hosts"], told["listen"]) == (["gpu.lab.example", "10.0.0.5", "nas1"], "all")
    assert given["ways"]["gpu1"] == {
        "node": "gpu1", "address": "https://gpu.lab.example:8443", "direct": True,
        "forward": "8443:10.0.0.5:8443", "through": "10.0.0.1", "monitor": "10.0.0.5", "port": 8443,
        "certificate": hashlib.sha256(ssl.PEM_cert_to_DER_cert(given["certificate"])).hexdigest(),
    }  # fmt: skip
    inside = dashboard_variables(site(tmp_path / "inside", {"listen": "loopback"}), SITE_SECRET)["ways"]["gpu1"]
    assert "monitor" not in inside, "a node cannot ask there"


@pytest.mark.parametrize(
    ("slurm", "buttons"),
    [
        ("{}", ["get", "release", "extend", "jobs"]), ("{extend: never}", ["get", "release", "jobs"]),
        ("{groups: [{name: phd, book: {}}]}", ["get", "release", "extend", "book", "cancel", "jobs"]),
    ],
)  # fmt: skip
def test_the_buttons_of_a_site_and_what_opens_the_door(slurm: str, buttons: list[str], tmp_path: Path) -> None:
    def queued(wanted: dict[str, Any]) -> dict[str, Any]:
        site(tmp_path, wanted)
        (tmp_path / "inventory/queue.yml").write_text("slurm: {hosts: {nas1: {}}}\n")
        with (tmp_path / "gpuadmin.yml").open("a") as stream:
            stream.write(f"gpus: {{access: granted}}\nslurm: {slurm}\n")
        return dashboard_variables(load_site(str(tmp_path)), SITE_SECRET)

    given = queued({"buttons": True})
    assert (given["settings"]["buttons"], given["settings"]["queue_host"]) == (buttons, "10.0.0.5")
    own = certificates.buttons(SITE_SECRET)
    assert (given["buttons"], given["buttons_authority"]) == (
        own.certificate + own.key, certificates.authority(SITE_SECRET)
    )  # fmt: skip


def test_off_is_the_default(tmp_path: Path) -> None:
    given = dashboard_variables(site(tmp_path), SITE_SECRET)
    assert (given["settings"]["buttons"], "buttons" in given) == ([], False)


def test_the_buttons_port_is_not_the_pages(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="port 9446"):
        site(tmp_path, {"buttons": True, "port": 9446})


def test_the_rules_are_the_guides_own_text_with_the_rules_first(tmp_path: Path) -> None:
    found = site(tmp_path)
    told = dashboard_variables(found, SITE_SECRET)["settings"]
    rules = dict(zip(told["languages"], told["rules"], strict=True))
    assert {language: text.split("</h2>")[0].rpartition(">")[2] for language, text in rules.items()} == RULES
    for language, text in rules.items():
        assert text.count("<h2 ") == page(write_guide(found, language, ()), language).count("<h2 ")
        assert "<h1" not in text


def test_people_who_come_and_go_leave_the_monitor_host_as_it_is(tmp_path: Path) -> None:
    """Else each add and remove would be drift of the monitor host."""
    before = dashboard_variables(site(tmp_path), SITE_SECRET)
    user = "{name: minji, uid: 20001, email: minji@example.org, expires: 2027-02-28}"
    (tmp_path / "users.yml").write_text(f"users: [{user}]\nretired: []\n")
    found = load_site(str(tmp_path))
    assert [one.name for one in found.registry.registry.users] == ["minji"]
    after = dashboard_variables(found, SITE_SECRET)
    assert after["settings"] == before["settings"]
    assert "minji" not in json.dumps(after)


def test_on_the_loopback_interface_the_way_is_through_the_monitor_host(tmp_path: Path) -> None:
    given = dashboard_variables(site(tmp_path, {"listen": "loopback"}), SITE_SECRET)
    assert given["settings"]["listen"] == "loopback"
    way = given["ways"]["gpu2"]
    assert (way["direct"], way["forward"], way["through"]) == (False, "9443:127.0.0.1:9443", "10.0.0.5")


def test_no_dashboard(tmp_path: Path) -> None:
    assert dashboard_variables(site(tmp_path / "a", {"enabled": False}), SITE_SECRET) == {}
    assert dashboard_variables(site(tmp_path / "b", monitor=False), SITE_SECRET) == {}


def test_a_proxy_gets_a_secret(tmp_path: Path) -> None:
    proxy = {"header": "X-Remote-User", "addresses": ["10.0.0.9"]}
    given = dashboard_variables(site(tmp_path, {"proxy": proxy}), SITE_SECRET)
    assert given["proxy_secret"] == proxy_secret(tokens.dashboard_secret(SITE_SECRET))
    assert len(given["proxy_secret"]) == 64
    assert given["settings"]["sign_in"]["proxy"] == {**proxy, "admins": []}


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ({"proxy": {"header": "Cookie", "addresses": ["10.0.0.9"]}}, "not a proxy's header"),
        ({"proxy": {"header": "X User", "addresses": ["10.0.0.9"]}}, "not a proxy's header"),
        ({"proxy": {"header": "X-User", "addresses": []}}, "at least 1"),
        ({"proxy": {"header": "X-User", "addresses": ["proxy.lab"]}}, "not an IP address"),
        ({"certificate": "/etc/ssl/a.pem"}, "belong together"),
        ({"sees": "own"}, "sees: there is no such field any more: .*remove the line"),
        ({"port": 443}, "1024"),
        ({"names": ["a b"]}, "no host name|is not a host name"),
    ],
)
def test_settings_that_are_refused(wanted: dict[str, Any], says: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=says):
        site(tmp_path, wanted)


def own_pair(directory: Path) -> dict[str, str]:
    identity = certificates.dashboard(bytes(32), ["gpu.lab.example"])
    directory.mkdir(exist_ok=True)
    for name, text in (("certificate", identity.certificate), ("key", identity.key)):
        (directory / name).write_text(text)
        (directory / name).chmod(0o600)
    return {name: str(directory / name) for name in ("certificate", "key")}


def test_a_certificate_of_the_sites_own(tmp_path: Path) -> None:
    pair = own_pair(tmp_path / "pki")
    given = dashboard_variables(site(tmp_path / "site", pair), SITE_SECRET)
    assert given["certificate"] == Path(pair["certificate"]).read_text()
    assert (given["key"], given["authority"]) == (Path(pair["key"]).read_text(), "")


def other_key() -> bytes:
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(*form)


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda pair: Path(pair["key"]).write_bytes(other_key()), "is not the key of"),
        (lambda pair: Path(pair["key"]).chmod(0o644), "others can read it"),
        (lambda pair: Path(pair["key"]).write_text("x"), "no private key in PEM"),
        (lambda pair: Path(pair["key"]).unlink(), "missing or empty"),
        (lambda pair: Path(pair["certificate"]).write_text("x"), "no certificate in PEM"),
        (lambda pair: Path(pair["certificate"]).unlink(), "missing or empty"),
    ],
)
def test_a_certificate_that_cannot_be_used(spoil: Any, says: str, tmp_path: Path) -> None:
    pair = own_pair(tmp_path / "pki")
    found = site(tmp_path / "site", pair)
    spoil(pair)
    with pytest.raises(ConfigError, match=says):
        dashboard_variables(found, SITE_SECRET)


# -- the verb, to a service that answers


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("dashboard")) as found:
        yield found


def run(directory: Path, *arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(dashboard, ["--site", str(directory), *arguments], standalone_mode=False)
    if done.exception is not None:
        raise done.exception
    return done.return_value, done.stdout


@pytest.mark.needs("nginx")
def test_a_look_signs_nothing(service: Running, tmp_path: Path) -> None:
    site(tmp_path, {"port": service.port})
    code, printed = run(tmp_path, "--check", "--json")
    result = json.loads(printed)["result"]
    assert (code, set(result)) == (0, {"fingerprint"})
    assert len(result["fingerprint"].split(":")) == 32


@pytest.mark.needs("nginx")
def test_an_admins_link_is_good_once(service: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Forward, "wait", raising(KeyboardInterrupt()))
    monkeypatch.setattr(action, "who", lambda: "이상한 이름/../@desk")
    site(tmp_path, {"port": service.port})
    code, printed = run(tmp_path, "--json")
    url = json.loads(printed)["result"]["url"]
    assert code == 0
    assert url.startswith(f"https://localhost:{service.port}/enter?link=admin-link~controller~")
    with service.client() as browser:
        token = url.partition("?link=")[2]
        assert browser.get(url).status_code == 200
        assert browser.post("/enter", data={"link": token}).status_code == 303
        assert browser.get("/").status_code == 200
        assert browser.post("/enter", data={"link": token}).status_code == 403


@pytest.mark.needs("nginx")
def test_what_answers_with_another_certificate_gets_no_link(service: Running, tmp_path: Path) -> None:
    site(tmp_path, {"port": service.port})
    (tmp_path / "metrics_secret").write_text(f"{bytes(32).hex()}\n")
    with pytest.raises(HostFailedError, match="another certificate"):
        run(tmp_path)


def test_nobody_answers(tmp_path: Path) -> None:
    site(tmp_path, {"port": free_port(0)})
    with pytest.raises(UnreachableError, match="dashboard does not answer"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"dashboard": {"enabled": False}}, "has no dashboard"),
        ({"monitor": False}, "no monitor host"),
        ({"secret": False}, "metrics_secret is missing"),
    ],
)
def test_where_there_is_none(more: dict[str, Any], says: str, tmp_path: Path) -> None:
    site(tmp_path, **more)
    with pytest.raises(GpuadminError, match=says):
        run(tmp_path)
    assert (tmp_path / "metrics_secret").exists() == more.get("secret", True), "a look makes no secret"


def test_a_page_for_the_browser_is_its_owners_alone() -> None:
    """What is on a browser's command line, everybody on the machine can read, and the link is good for minutes."""
    with action.page("https://localhost:9443/enter?link=a~b") as path:
        assert "link=a~b" in path.read_text()
        assert path.parent.stat().st_mode & 0o077 == 0
        assert "~" not in path.as_uri()
    assert not path.exists()


def test_a_port_that_somebody_has_is_not_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        assert free_port(held.getsockname()[1]) != held.getsockname()[1]


def test_the_names_are_what_tokens_take() -> None:
    text = action.sign(SITE_SECRET, "yseong@desk", datetime.now(tz=UTC).timestamp())
    assert text.startswith("admin-link~controller~yseong@desk~")
