"""BMCs, asked and switched: OpenIPMI's simulator by ipmitool, OpenStack's Redfish emulator by curl."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import bcrypt
import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.bmcs import controls, operations
from ansible_collections.gpuadmin.node.plugins.module_utils.bmcs.controls import Bmc
from ansible_collections.gpuadmin.node.plugins.module_utils.bmcs.operations import BmcsOrder, switch_hosts
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from tests.support.simulated_bmc import free_port, simulated


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator does not say which ciphers it has, and ipmitool waits ten seconds for that."""
    monkeypatch.setattr(controls, "PATIENCE", ("-C", "3"))
    monkeypatch.setattr(operations, "PAUSE", 0.1)


def ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    process.wait(10)


def asked(bmc: Bmc, wanted: str = "", *, hard: bool = False, check: bool = False, seconds: int = 0) -> tuple[str, str]:
    """How a host is after it was asked for, and what is wrong."""
    order = BmcsOrder([bmc], wanted, [bmc.name] if hard else [], seconds=seconds)  # type: ignore[arg-type]  # one of three words
    report = json.loads(json.dumps(switch_hosts(order, check).result()))["report"]["bmcs"]
    return report[bmc.name]["state"], report[bmc.name]["problem"]


@pytest.fixture
def machine() -> Iterator[tuple[int, Callable[[], None]]]:
    """A port on which a host's ssh answers, and what makes it answer no more."""

    def greet() -> None:
        with suppress(OSError):
            while True:
                one, _ = server.accept()
                with one:
                    one.sendall(b"SSH-2.0-x\r\n")

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=greet, daemon=True).start()
        yield server.getsockname()[1], server.close


@pytest.fixture
def simulator(tmp_path: Path) -> Iterator[Bmc]:
    with simulated(tmp_path) as address:
        yield Bmc("gpu1", "ipmi", "127.0.0.1", free_port(), address, "admin", "secret")


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bmc]:
    above, port = tmp_path_factory.mktemp("bmc"), free_port()
    make_certificate(above)
    (above / "users").write_text(f"admin:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    systems = [{"uuid": "one", "name": "one", "power_state": "Off", "nics": [], "power_delay": 0}]
    settings = {
        "LISTEN_IP": "127.0.0.1", "LISTEN_PORT": port, "SSL_CERT": str(above / "cert"), "SSL_KEY": str(above / "key"),
        "AUTH_FILE": str(above / "users"), "FAKE_DRIVER": True, "FAKE_SYSTEMS": systems, "STATE_DIR": str(above),
    }  # fmt: skip
    (above / "conf").write_text("".join(f"SUSHY_EMULATOR_{name} = {value!r}\n" for name, value in settings.items()))
    with (above / "log").open("wb") as log:
        # it takes up to eleven seconds for what a BMC does, by chance
        start = "import random; random.randint = lambda *_: 0; from sushy_tools.emulator.main import main; main()"
        command = [sys.executable, "-c", start, "--config", str(above / "conf")]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=above)
    bmc = Bmc("gpu1", "redfish", "127.0.0.1", free_port(), f"127.0.0.1:{port}", "admin", "secret", find_key(above))
    for _ in range(100):
        if operations.look(bmc).state != "unknown":
            break
        time.sleep(0.2)  # it starts
    yield bmc
    ended(process)


def make_certificate(above: Path) -> None:
    """The files `key` and `cert` there."""
    made = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=bmc -keyout key -out cert"
    subprocess.run(made.split(), cwd=above, check=True, capture_output=True)


def find_key(above: Path) -> str:
    """As curl -v has it after sha256//."""
    text = (above / "cert").read_bytes()
    key = x509.load_pem_x509_certificate(text).public_key()
    der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return base64.b64encode(hashlib.sha256(der).digest()).decode()


def with_(bmc: Bmc, **other: object) -> Bmc:
    return replace(bmc, **other)  # type: ignore[arg-type]  # of any field


def round_trip(bmc: Bmc, port: int, close: Callable[[], None]) -> None:
    assert asked(bmc) == ("off", "")
    assert asked(bmc, "on", check=True) == ("off", ""), "a check switches nothing"
    assert asked(bmc, "on")[1] == "after 0 seconds ssh does not answer yet"
    for _ in range(150):  # the emulator takes some seconds
        if asked(bmc)[0] == "on":
            break
        time.sleep(0.2)  # as above
    assert asked(with_(bmc, ssh=port), "on") == ("on", "")
    assert asked(bmc, "off") == ("on", "after 0 seconds it is on, and not off"), "it was to go by itself"
    assert asked(bmc, "off", hard=True, seconds=20) == ("off", "")


@pytest.mark.needs("ipmi_sim", "ipmitool")
def test_by_ipmi(simulator: Bmc, machine: tuple[int, Callable[[], None]]) -> None:
    round_trip(simulator, *machine)
    state, problem = asked(with_(simulator, password="wrong"))
    assert (state, problem) == ("unknown", "Error: Unable to establish IPMI v2 / RMCP+ session")


@pytest.mark.needs("curl", "openssl")
def test_by_redfish(emulator: Bmc, machine: tuple[int, Callable[[], None]]) -> None:
    round_trip(emulator, *machine)
    assert asked(with_(emulator, password="wrong")) == ("unknown", "curl: (22) The requested URL returned error: 401")
    other = with_(emulator, key=f"{'A' * 43}=")
    assert asked(other) == ("unknown", "curl: (90) SSL: public key does not match pinned public key")
    assert "self-signed certificate" in asked(with_(emulator, key=""))[1]


@pytest.fixture
def endless(tmp_path: Path) -> Iterator[tuple[Bmc, Callable[[], int]]]:
    """A BMC whose answer never ends, and the bytes that somebody took of it."""
    taken = 0

    def answer() -> None:
        nonlocal taken
        with suppress(OSError), context.wrap_socket(server.accept()[0], server_side=True) as one:
            one.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                taken += one.send(b"[" * (1 << 16))

    make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert", tmp_path / "key")
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=answer, daemon=True).start()
        place = f"127.0.0.1:{server.getsockname()[1]}"
        yield Bmc("gpu1", "redfish", "127.0.0.1", free_port(), place, "a", "b", find_key(tmp_path)), lambda: taken


@pytest.mark.needs("curl", "openssl")
def test_an_answer_without_an_end(endless: tuple[Bmc, Callable[[], int]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The host that asks is the one with everybody's homes: it has no gigabytes for that."""
    monkeypatch.setattr(controls, "SECONDS", 2)
    assert "Operation timed out" in asked(endless[0])[1]
    assert endless[1]() < 16 << 20


@pytest.mark.needs("curl", "openssl")
def test_what_root_has_set_for_curl_gets_no_password(
    emulator: Bmc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The host that asks may reach the world by a proxy only, and BMCs by none."""
    (tmp_path / ".curlrc").write_text("output = /dev/null\n")
    monkeypatch.setenv("CURL_HOME", str(tmp_path))
    for name in ("https_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_port()}")
    assert asked(emulator)[1] == ""


def test_a_bmc_with_a_problem_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []

    def control(bmc: Bmc, wanted: str) -> str:
        told.append(wanted)
        raise NodeError("it has 2 systems")

    monkeypatch.setattr(operations, "control", control)
    bmc = Bmc("gpu1", "redfish", "127.0.0.1", free_port())
    assert operations.bring(bmc, BmcsOrder([bmc], "off", ["gpu1"]), acts=True).problem == "it has 2 systems"
    assert told == [""]


def test_a_bmc_sends_us_nowhere_else() -> None:
    bmc = Bmc("gpu1", "redfish", "127.0.0.1", address="10.9.0.1", user="admin", password="secret")
    with pytest.raises(NodeError, match="an address that is not its own"):
        controls._ask(bmc, "@evil.example/redfish/v1")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"Members": [{"@odata.id": "/redfish/v1/a"}, {"@odata.id": "/redfish/v1/b"}]}, "it has 2 systems"),
        ({"Members": [{"@odata.id": 5}]}, "does not answer as Redfish does"),
        ([], "does not answer as Redfish does"),
        ("[" * 200_000, "does not answer as Redfish does"),
    ],
)
def test_an_answer_of_another_shape(monkeypatch: pytest.MonkeyPatch, answer: object, words: str) -> None:
    text = answer if isinstance(answer, str) else json.dumps(answer)
    monkeypatch.setattr(controls, "_run", lambda command, **more: text)
    assert words in asked(Bmc("gpu1", "redfish", "127.0.0.1", free_port(), "10.9.0.1"), "off", hard=True)[1]


@pytest.mark.holds("a host that has come back since somebody looked is not cut off")
@pytest.mark.parametrize(("answering", "state"), [(False, "on"), (True, "off")])
def test_a_host_that_has_come_back(
    monkeypatch: pytest.MonkeyPatch, machine: tuple[int, Callable[[], None]], answering: bool, state: str
) -> None:
    """Between the plan and the answer to its question somebody has rebooted it, and people work there."""
    power = ["on"]
    monkeypatch.setattr(controls, "_ipmi", lambda bmc, wanted: power.append(wanted) if wanted else power[-1])
    bmc = Bmc("gpu1", "ipmi", "127.0.0.1", machine[0], "10.9.0.1")
    seen = operations.bring(bmc, BmcsOrder([bmc], "off", ["gpu1"], answering, 1), acts=True)
    assert (seen.state, "it was not cut off" in seen.problem) == (state, not answering)


def test_wake_on_lan(machine: tuple[int, Callable[[], None]]) -> None:
    """A PC has no BMC: it is on where its ssh answers, and nobody knows where not."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as card:
        card.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{card.getsockname()[1]}"
        sleeping = Bmc("pc1", "wol", "127.0.0.1", free_port(), place, macs=["02:00:5e:00:53:01"])
        assert asked(sleeping) == ("unknown", "")
        assert asked(sleeping, "on") == ("unknown", "after 0 seconds ssh does not answer yet")
        assert card.recv(200) == b"\xff" * 6 + bytes.fromhex("02005e005301") * 16
        assert asked(with_(sleeping, ssh=machine[0]), "on") == ("on", "")
        assert asked(sleeping, "off") == ("unknown", "")


def test_a_host_answers_at_either_port(machine: tuple[int, Callable[[], None]]) -> None:
    for ports in ((machine[0], free_port()), (free_port(), machine[0]), (machine[0], 0)):
        assert operations.look(Bmc("pc1", "wol", "127.0.0.1", ports[0], also=ports[1])).answers
    assert not operations.look(Bmc("pc1", "wol", "127.0.0.1", free_port(), also=free_port())).answers


def test_a_host_that_hangs_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its kernel takes the connection, and nobody says a word."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connect = socket.create_connection
        monkeypatch.setattr(socket, "create_connection", lambda place, timeout: connect(place, timeout=0.2))
        assert not operations.look(Bmc("pc1", "wol", "127.0.0.1", server.getsockname()[1])).answers
