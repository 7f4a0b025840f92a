"""A chain of nodes: who gets and brings an image, what arrives is used, and what does not is fetched from the store."""

import json
import os
import random
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import (
    chain_key,
    operations,
    publish,
    records,
    relay,
    stream,
    switch,
    tls_listener,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.images import (
    jobs as image_jobs,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.images import (
    places as image_places,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.images.chain_key import Credentials
from ansible_collections.gpuadmin.node.plugins.module_utils.images.follower import Follower
from ansible_collections.gpuadmin.node.plugins.module_utils.images.manifest import Manifest, Stream
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places

from gpuadmin.common.records.images import ChainLink, ImageOrder
from gpuadmin.images.chain_key import make_key
from tests.support.operations import ask
from tests.unit.node.images.conftest import Node, World

needs_root = pytest.mark.root  # acts as another user, and from ports of root's
COLLECTIONS = Path(relay.__file__).resolve().parents[6]
NOBODY = 65534
CONTENT = random.Random(14).randbytes((3 << 20) + 4711)
WANTED = Stream("full.btrfs.zst", None, len(CONTENT), len(CONTENT), "0" * 64)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def credentials(pem: str) -> Credentials:
    with tempfile.TemporaryDirectory() as run:
        places = Places(run=run)
        chain_key.store(places, pem)
        return chain_key.load(places)


@pytest.fixture(scope="module")
def pem() -> str:
    return make_key()


@pytest.fixture
def ours(pem: str) -> Credentials:
    return credentials(pem)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return make_places(tmp_path)


def make_places(base: Path) -> Places:
    (base / "top/incoming").mkdir(parents=True)
    return Places(top=str(base / "top"), run=str(base / "run"), state=str(base / "state"))


class Taking:
    """A node that takes the stream, in a thread, and passes it on to the port after it."""

    def __init__(self, places: Places, ours: Credentials, after: int | None = None, *, seconds: float = 20.0) -> None:
        self.places, self._ours, self._seconds = places, ours, seconds
        self.path = Path(relay.relay_path(places, WANTED))
        self._listener = tls_listener.listen(0)
        self.port: int = self._listener.getsockname()[1]
        self._link = ChainLink(after or 0, "127.0.0.1", "127.0.0.1" if after else None)
        self._error = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        relay.await_listening(places, 10)

    def _run(self) -> None:
        try:
            relay.take(self.places, WANTED, self._link, self._ours, self._listener, self._seconds)
        except (NodeError, OSError) as error:
            self._error = repr(error)

    def end(self, seconds: float = 20.0) -> str:
        """Wait for its end; return what it failed with."""
        self._thread.join(seconds)
        assert not self._thread.is_alive()
        return self._error


def send(port: int, theirs: Credentials, content: bytes) -> bytes:
    """Send something as a node that holds a key; return what is answered before we close."""
    with theirs.call(tls_listener.dial("127.0.0.1", port, 5), 5) as connection:
        with suppress(OSError):
            connection.sendall(content)
        return connection.recv(1) if len(content) >= len(CONTENT) else b""


@contextmanager
def stranger(act: Callable[[socket.socket], None]) -> Iterator[int]:
    """Somebody who listens on a port, and does something with whoever calls. Returns the port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    caller, _peer = listener.accept()
                except OSError:
                    return
                with suppress(OSError, ValueError):
                    act(caller)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def follow(port: int, ours: Credentials, content: Path, *, patience: float = 1.0, stalled: float = 5.0) -> Follower:
    """Pass a whole file on to a port, and wait for the end."""
    follower = Follower("127.0.0.1", port, len(CONTENT), ours, patience=patience, stalled=stalled)
    follower.reached(str(content), len(CONTENT))
    follower._thread.join(patience + stalled)  # closing leaves fewer seconds for tries
    follower.close(20)
    return follower


@pytest.fixture
def content(tmp_path: Path) -> Path:
    path = tmp_path / "content"
    path.write_bytes(CONTENT)
    return path


def test_a_stream_goes_along_three_nodes(tmp_path: Path, ours: Credentials) -> None:
    """The first reads a file while it grows; every one of them has all of it, and nobody else can read it."""
    last = Taking(make_places(tmp_path / "last"), ours)
    middle = Taking(make_places(tmp_path / "middle"), ours, last.port)
    growing = tmp_path / "growing"
    follower = Follower("127.0.0.1", middle.port, len(CONTENT), ours)
    with growing.open("wb", buffering=0) as file:
        for begin in range(0, len(CONTENT), 700_001):
            file.write(CONTENT[begin : begin + 700_001])
            follower.reached(str(growing), file.tell())
    follower.close(20)
    assert (follower.problem, middle.end(), last.end()) == (None, "", "")
    assert middle.path.read_bytes() == last.path.read_bytes() == CONTENT
    assert stat.S_IMODE(middle.path.stat().st_mode) == 0o600
    assert relay.remarks(middle.places) == []


def test_a_stranger_who_listens_gets_nothing(content: Path, ours: Credentials) -> None:
    """Neither one who only reads, nor one with a certificate of their own."""
    heard: list[bytes] = []

    def read(caller: socket.socket) -> None:
        with caller:
            caller.settimeout(1)
            while block := caller.recv(1 << 16):
                heard.append(block)

    with stranger(read) as port:
        follower = follow(port, ours, content, patience=0.0)
    assert follower.sent == 0
    assert follower.problem
    assert 0 < len(b"".join(heard)) < 2000, "the first message of TLS, and that is all"

    theirs = credentials(make_key())
    theirs.called.verify_mode = ssl.CERT_NONE
    proven: list[bytes] = []

    def pretend(caller: socket.socket) -> None:
        caller.settimeout(2)
        with theirs.called.wrap_socket(caller, server_side=True) as connection:
            proven.append(connection.recv(1 << 16))

    with stranger(pretend) as port:
        follower = follow(port, ours, content, patience=0.0)
    assert follower.sent == 0
    assert "CERTIFICATE_VERIFY_FAILED" in str(follower.problem)
    assert b"".join(proven) == b""


@pytest.mark.root
def test_a_stranger_who_sends_writes_nothing(places: Places, content: Path, ours: Credentials) -> None:
    """And the node before gets in all the same."""
    taking = Taking(places, ours)
    with suppress(OSError), tls_listener.dial("127.0.0.1", taking.port, 5) as raw:
        raw.sendall(b"x" * 100_000)
    without = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    without.check_hostname, without.verify_mode = False, ssl.CERT_NONE
    theirs = credentials(make_key()).calling
    theirs.verify_mode = ssl.CERT_NONE
    for context in (without, theirs):
        with suppress(OSError), context.wrap_socket(tls_listener.dial("127.0.0.1", taking.port, 5)) as connection:
            connection.sendall(b"x" * 100_000)
            connection.recv(1)
    time.sleep(0.5)  # long enough to write something, if it did
    assert not taking.path.exists()
    assert follow(taking.port, ours, content).problem is None
    assert taking.end() == ""
    assert taking.path.read_bytes() == CONTENT
    assert "refused on the chain's port, without its key: " in relay.remarks(places)[0]
    assert "root (uid 0) on this node" in relay.remarks(places)[0]


def test_a_certificate_that_ours_has_signed_is_another(ours: Credentials, content: Path) -> None:
    """Not who is trusted by the certificate, but the very certificate."""
    strict = replace(ours, certificate=credentials(make_key()).certificate)
    here, there = socket.socketpair()
    caught: list[BaseException] = []

    def answer() -> None:
        try:
            strict.answer(here, 5)
        except NodeError as error:
            caught.append(error)

    thread = threading.Thread(target=answer)
    thread.start()
    with ours.call(there, 5):
        thread.join(10)
    assert "does not hold the key" in str(caught[0])
    assert here.fileno() == -1


@pytest.mark.parametrize("more", [1, 5 << 20])
def test_more_than_the_manifest_says_is_not_written(places: Places, ours: Credentials, more: int) -> None:
    taking = Taking(places, ours)
    with suppress(OSError):
        send(taking.port, ours, CONTENT + b"x" * more)
    assert "sends more than" in taking.end()
    assert taking.path.read_bytes() == CONTENT


@pytest.mark.parametrize("count", [0, 1, len(CONTENT) - 1])
def test_less_than_the_manifest_says_is_an_error(places: Places, ours: Credentials, count: int) -> None:
    taking = Taking(places, ours)
    send(taking.port, ours, CONTENT[:count])
    assert f"ended after {count} of {len(CONTENT)} bytes" in taking.end()
    assert taking.path.read_bytes() == CONTENT[:count]


def test_what_an_earlier_attempt_left_is_not_taken_for_this_one_s(places: Places, ours: Credentials) -> None:
    """A node that was cut off has half of it, perhaps of another push; a link there is not followed, either."""
    path, elsewhere = Path(relay.relay_path(places, WANTED)), Path(places.top, "elsewhere")
    elsewhere.write_text("precious")
    for leave in (lambda: path.write_bytes(b"half"), lambda: path.symlink_to(elsewhere)):
        path.unlink(missing_ok=True)
        leave()
        taking = Taking(places, ours)
        send(taking.port, ours, CONTENT)
        assert taking.end() == ""
        assert (path.is_symlink(), path.read_bytes()) == (False, CONTENT)
    assert elsewhere.read_text() == "precious"


def test_one_who_stands_still_is_given_up(places: Places, ours: Credentials) -> None:
    taking = Taking(places, ours, seconds=1.0)
    with ours.call(tls_listener.dial("127.0.0.1", taking.port, 5), 5) as connection:
        connection.sendall(CONTENT[:4096])
        assert "timed out" in taking.end(60)


def test_nobody_comes(places: Places, ours: Credentials) -> None:
    assert "has not come within" in Taking(places, ours, seconds=0.5).end(60)


@pytest.mark.parametrize("silent", [True, False])
def test_a_flood_of_connections_does_not_keep_the_node_before_out(
    places: Places, content: Path, ours: Credentials, silent: bool
) -> None:
    taking, over = Taking(places, ours), threading.Event()
    held: list[socket.socket] = []

    def knock() -> None:
        while not over.is_set():
            with suppress(OSError):
                caller = socket.create_connection(("127.0.0.1", taking.port), 1)
                if silent and len(held) < 400:
                    held.append(caller)
                else:
                    caller.close()

    knocking = [threading.Thread(target=knock, daemon=True) for _ in range(4)]
    for thread in knocking:
        thread.start()
    time.sleep(0.5)  # they are at the door first
    follower = follow(taking.port, ours, content, patience=60.0)
    over.set()
    for thread in knocking:
        thread.join(10)
    for caller in held:
        caller.close()
    assert follower.problem is None
    assert taking.end() == ""
    assert taking.path.read_bytes() == CONTENT


@needs_root
def test_callers_with_ports_of_roots_have_room_of_their_own(places: Places, ours: Credentials) -> None:
    """A person fills the room for strangers; the node before does not have to wait until they are thrown out."""
    door = tls_listener.Door(tls_listener.listen(0), ours, handshake=300.0)
    port = door._port
    people = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(2 * tls_listener.PENDING)]
    got: list[ssl.SSLSocket] = []
    thread = threading.Thread(target=lambda: got.append(door.admit(60)), daemon=True)
    thread.start()
    end = time.monotonic() + 60
    while door._calls < len(people) and time.monotonic() < end:
        time.sleep(0.05)  # until all have been let in or turned away
    assert door._pending == {False: tls_listener.PENDING, True: 0}, "no more of them are served at a time"
    raw = tls_listener.dial("127.0.0.1", port, 60)
    assert raw.getsockname()[1] < 1024
    with ours.call(raw, 60):
        thread.join(60)
        got[0].close()  # it is there: nobody has been thrown out in this time
    for one in people:
        one.close()


def test_callers_who_say_nothing_are_thrown_out(ours: Credentials) -> None:
    """All room is taken, and no port is one of root's: the node before gets in when their time is over."""
    door = tls_listener.Door(tls_listener.listen(0), ours, handshake=0.5)
    people = [socket.create_connection(("127.0.0.1", door._port), 5) for _ in range(tls_listener.PENDING)]
    got: list[ssl.SSLSocket] = []
    thread = threading.Thread(target=lambda: got.append(door.admit(10)), daemon=True)
    thread.start()
    end = time.monotonic() + 9
    while not got and time.monotonic() < end:
        with suppress(OSError), ours.call(socket.create_connection(("127.0.0.1", door._port), 1), 1):
            thread.join(1)
        time.sleep(0.1)  # between two calls
    thread.join(10)
    assert got
    for one in (*people, *got):
        one.close()


def test_a_slow_next_node_costs_this_one_nothing(places: Places, content: Path, ours: Credentials) -> None:
    """It reads one byte and stops: our copy is complete, and who waits for us to end waits no longer than it says."""
    over = threading.Event()

    def crawl(caller: socket.socket) -> None:
        with ours.answer(caller, 5) as connection:
            connection.recv(1)
            over.wait(300)

    with stranger(crawl) as port:
        taking = Taking(places, ours, port)
        with ours.call(tls_listener.dial("127.0.0.1", taking.port, 60), 60) as connection:
            connection.sendall(CONTENT)
            assert connection.recv(1) == b"\n"
        assert taking.path.read_bytes() == CONTENT
        relay.await_end(lambda text: None, str(taking.path), len(CONTENT))

        follower = Follower("127.0.0.1", port, 1 << 30, ours)
        huge = Path(places.top) / "huge"
        with huge.open("wb") as file:
            file.truncate(1 << 30)
        follower.reached(str(huge), 1 << 30)
        begin = time.monotonic()
        follower.close(1.0)
        assert time.monotonic() - begin < 60
        assert "of 1073741824 bytes" in str(follower.problem)
        over.set()


def test_nobody_listens_and_the_first_node_does_not_mind(
    content: Path, ours: Credentials, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ansible_collections.gpuadmin.node.plugins.module_utils.images.follower.LAST_TRIES", 0.2)
    follower = Follower("127.0.0.1", free_port(), len(CONTENT), ours, patience=300)
    begin = time.monotonic()
    follower.reached(str(content), len(CONTENT))
    assert time.monotonic() - begin < 60
    follower.close(60)
    assert f"got 0 of {len(CONTENT)} bytes" in str(follower.problem)


def test_a_next_node_that_does_not_confirm_has_not_got_it(content: Path, ours: Credentials) -> None:
    def swallow(caller: socket.socket) -> None:
        with ours.answer(caller, 5) as connection:
            left = len(CONTENT)
            while left:
                left -= len(connection.recv(left))

    with stranger(swallow) as port:
        follower = follow(port, ours, content)
    assert follower.problem


NODE = """
import sys
from ansible_collections.gpuadmin.node.plugins.module_utils.images import tls_listener, chain_key, relay
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from gpuadmin.common.records.images import ChainLink
from ansible_collections.gpuadmin.node.plugins.module_utils.images.places import Places
from ansible_collections.gpuadmin.node.plugins.module_utils.images.manifest import Stream
base, after, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
places = Places(top=base + "/top", run=base + "/run")
listener = tls_listener.listen(0)
print(listener.getsockname()[1], flush=True)
try:
    link = ChainLink(after, "127.0.0.1", "127.0.0.1" if after else None)
    relay.take(places, Stream("x", None, size, size, "0" * 64), link, chain_key.load(places), listener, 20)
except (NodeError, OSError) as error:
    sys.exit(str(error))
"""


def test_the_third_of_a_chain_is_killed(tmp_path: Path, pem: str, content: Path) -> None:
    """Who has all of it ends well, and says who has not; who has a part of it does not end with 0."""
    ports, nodes = [0], []
    for number in (4, 3, 2):
        places = make_places(tmp_path / f"node{number}")
        chain_key.store(places, pem)
        node = subprocess.Popen(
            [sys.executable, "-c", NODE, str(tmp_path / f"node{number}"), str(ports[-1]), str(len(CONTENT))],
            env={**os.environ, "PYTHONPATH": str(COLLECTIONS)}, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )  # fmt: skip
        assert node.stdout is not None
        ports.append(int(node.stdout.readline()))
        nodes.append(node)
    fourth, third, second = nodes
    follower = Follower("127.0.0.1", ports[-1], len(CONTENT), credentials(pem))
    follower.reached(str(content), 2 << 20)
    path = Path(relay.relay_path(Places(top=str(tmp_path / "node4/top")), WANTED))
    end = time.monotonic() + 20
    while not (path.exists() and path.stat().st_size >= 1 << 20):
        assert time.monotonic() < end
        time.sleep(0.05)  # until it has a part of the stream
    third.kill()
    third.wait()
    follower.reached(str(content), len(CONTENT))
    follower.close(20)
    ends = {number: node.communicate(timeout=30) for number, node in ((2, second), (4, fourth))}
    assert follower.problem is None
    assert (second.returncode, fourth.returncode) == (0, 1)
    assert f"of {len(CONTENT)} bytes along the chain" in ends[2][0], "the second says that the third has not got it"
    assert "bytes" in ends[4][1] or "reset" in ends[4][1]
    got = Path(relay.relay_path(Places(top=str(tmp_path / "node2/top")), WANTED)).read_bytes()
    assert got == CONTENT
    assert path.stat().st_size < len(CONTENT)


def test_the_key_is_roots_alone(tmp_path: Path, pem: str) -> None:
    places = Places(run=str(tmp_path / "run"))
    with pytest.raises(NodeError, match="has no key"):
        chain_key.load(places)
    path = Path(places.run) / chain_key.FILE
    path.parent.mkdir()
    path.write_text("an old one, which others read")
    path.chmod(0o644)
    chain_key.store(places, pem)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert chain_key.load(places).certificate
    path.chmod(0o640)
    with pytest.raises(NodeError, match="not a file of root's alone"):
        chain_key.load(places)
    path.chmod(0o600)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(NodeError, match="not a file of root's alone"):
        chain_key.load(places)
    path.unlink()
    path.write_text("no key")
    path.chmod(0o600)
    with pytest.raises(NodeError, match="holds no certificate"):
        chain_key.load(places)
    chain_key.remove(places)
    assert not path.exists()


@needs_root
def test_a_key_that_somebody_else_made_is_not_used(tmp_path: Path, pem: str) -> None:
    places = Places(run=str(tmp_path / "run"))
    chain_key.store(places, pem)
    os.chown(Path(places.run) / chain_key.FILE, NOBODY, NOBODY)
    with pytest.raises(NodeError, match="not a file of root's alone"):
        chain_key.load(places)


def test_every_push_has_a_key_of_its_own() -> None:
    assert credentials(make_key()).certificate != credentials(make_key()).certificate


@needs_root
def test_who_has_taken_the_port_is_named(places: Places) -> None:
    """A port says nothing about who listens on it: only what root's own process writes down is believed."""
    words = (
        "import os, socket\n"
        f"os.setgid({NOBODY}); os.setuid({NOBODY})\n"
        "one = socket.create_server(('', 0)); print(one.getsockname()[1], flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as person:
        assert person.stdout is not None
        port = int(person.stdout.readline())
        with pytest.raises(NodeError, match=rf"port {port} is taken by nobody \(uid {NOBODY}\)"):
            tls_listener.listen(port)
        relay.tell(places, listening=False)
        with pytest.raises(NodeError, match="does not listen"):
            relay.await_listening(places, 0.3)
        person.communicate("\n")
    relay.tell(places, problem="port 7370 is taken by minji (uid 20000) on this node")
    with pytest.raises(NodeError, match="minji"):
        relay.await_listening(places, 5)


def test_what_the_kernel_says_of_ports() -> None:
    table = (
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid\n"
        "   0: 0200000A:1CCA 0300000A:1111 01 0:0 00:0 0 54320 0 1\n"
        "   1: 00000000:1CCA 00000000:0000 0A 0:0 00:0 0 54321 0 1\n"
        "   2: 0100007F:C001 0100007F:1CCB 01 0:0 00:0 0 54322 0 1\n"
        "   3: 0100007F:C001 0100007F:1CCC 06 0:0 00:0 0 54323 0 1\n"
    )
    assert tls_listener.port_holder(7370, table) == "uid 54321"
    assert tls_listener.port_holder(7371, table) is None
    assert tls_listener.caller_name("127.0.0.1", 0xC001, 7371, table) == "uid 54322 on this node"
    assert tls_listener.caller_name("127.0.0.1", 0xC001, 7372, table) == "127.0.0.1", "its socket is nobody's any more"
    assert tls_listener.caller_name("10.0.0.9", 0xC001, 7371, table) == "10.0.0.9"


def call(monkeypatch: pytest.MonkeyPatch, run: Path, pem: str, *, check: bool) -> dict[str, Any]:
    monkeypatch.setattr(operations, "Places", lambda: Places(run=str(run)))
    arguments = {"name": "one", "link": {"port": 7370, "previous": "", "next": "10.0.0.2"}, "key": pem}
    return ask("image_relay", arguments, check=check)


@pytest.mark.holds("check mode writes no key")
def test_check_mode_writes_no_key(tmp_path: Path, pem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a real run shows none."""
    call(monkeypatch, tmp_path / "run", pem, check=True)
    assert not (tmp_path / "run").exists()
    shown = json.dumps(call(monkeypatch, tmp_path / "run", pem, check=False))
    assert (tmp_path / "run" / chain_key.FILE).read_text() == pem
    assert '"remarks": []' in shown
    assert "PRIVATE" not in shown
    assert pem.splitlines()[2] not in shown


@pytest.mark.holds("the key goes when the push is over")
@pytest.mark.parametrize("fails", [False, True])
def test_the_key_goes_when_the_push_is_over(
    places: Places, pem: str, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    def push(*_arguments: object) -> dict[str, object]:
        chain_key.load(places)
        if fails:
            raise NodeError("no")
        return {}

    Path(places.state).mkdir()
    image_places.write_json(places.in_state("images.json"), {"store": "x:/y", "signers": ""})
    monkeypatch.setattr(image_jobs, "STEPS", {"push": image_jobs.Step(push)})
    monkeypatch.setattr(image_jobs, "mounted", lambda *_a, **_k: nullcontext())
    chain_key.store(places, pem)
    with pytest.raises(NodeError) if fails else nullcontext():
        image_jobs.carry_out(ImageOrder("push", "", "one"), places, lambda text: None)
    assert not (Path(places.run) / chain_key.FILE).exists()


def parts(node: Node) -> tuple[Manifest, Stream, bytes]:
    manifest = records.load_manifest(node.places, "one", node.settings)
    wanted = relay.full_stream(manifest)
    return manifest, wanted, (Path(node.places.store) / "one" / wanted.file).read_bytes()


def switching(node: Node, link: ChainLink) -> switch.Switch:
    manifest, wanted, _ = parts(node)
    return switch.Switch(node.places, node.settings, manifest, full=True, stream=wanted, link=link)


@pytest.mark.btrfs
def test_what_came_along_the_chain_is_proven_and_not_fetched_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    _, wanted, whole = parts(node)
    monkeypatch.setattr(relay, "active", lambda: True)  # it still passes it on; nobody waits for that
    Path(relay.relay_path(node.places, wanted)).write_bytes(whole)
    (Path(node.places.store) / "one" / wanted.file).write_bytes(b"\0" * len(whole))
    work = switching(node, ChainLink(7370, "10.0.0.1", "10.0.0.3"))
    switch._fetch(work)
    assert Path(stream.stream_path(node.places, wanted)).read_bytes() == whole
    assert work.follower is None
    assert "along the chain" in work.done[-1]


@pytest.mark.btrfs
@pytest.mark.parametrize("damage", ["half", "wrong"])
def test_what_did_not_come_is_fetched_and_passed_on_from_here(
    node: Node, tmp_path: Path, pem: str, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    """A relay that brought half: the node goes on from it, and is the first of those that still wait."""
    _, wanted, whole = parts(node)
    monkeypatch.setattr(relay, "active", lambda: False)
    came = whole[: len(whole) // 3]
    Path(relay.relay_path(node.places, wanted)).write_bytes(came if damage == "half" else b"\0" + came[1:])
    chain_key.store(node.places, pem)
    relay.tell(node.places, problem="port 7370 is taken by minji (uid 20000) on this node")
    later = make_places(tmp_path / "later")
    monkeypatch.setattr(sys.modules[__name__], "WANTED", wanted)
    taking = Taking(later, credentials(pem))
    work = switching(node, ChainLink(taking.port, "10.0.0.1", "127.0.0.1"))
    switch._fetch(work)
    switch._take_leave(work)
    assert Path(stream.stream_path(node.places, wanted)).read_bytes() == whole
    assert "minji" in work.done[0]
    assert taking.end() == ""
    # what was wrong here has been passed on as it was; the digest tells the next node as well, and it asks the store
    assert (taking.path.read_bytes() == whole) is (damage == "half")


@pytest.mark.btrfs
def test_the_first_node_passes_on_what_it_has_already(
    node: Node, tmp_path: Path, pem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, wanted, whole = parts(node)
    Path(stream.stream_path(node.places, wanted)).write_bytes(whole)
    chain_key.store(node.places, pem)
    monkeypatch.setattr(sys.modules[__name__], "WANTED", wanted)
    taking = Taking(make_places(tmp_path / "later"), credentials(pem))
    work = switching(node, ChainLink(taking.port, None, "127.0.0.1"))
    switch._fetch(work)
    switch._take_leave(work)
    assert taking.end() == ""
    assert taking.path.read_bytes() == whole


@pytest.mark.btrfs
def test_only_a_full_stream_goes_along_a_chain(node: Node) -> None:
    """A node that lacks the parent could do nothing with a difference."""
    whole = records.load_manifest(node.places, "one", node.settings)
    assert (
        relay.full_stream(replace(whole, streams=(replace(whole.streams[0], parent="x"), *whole.streams))).parent
        is None
    )
    with pytest.raises(NodeError, match="two has no full stream"):
        relay.full_stream(records.load_manifest(node.places, "two", node.settings))


@pytest.mark.holds("what is fetched is root's alone")
@pytest.mark.btrfs
def test_a_push_without_a_key_passes_nothing_on(node: Node) -> None:
    work = switching(node, ChainLink(7370, None, "127.0.0.1"))
    _, wanted, _ = parts(node)
    switch._fetch(work)
    assert work.follower is None
    assert "is not passed on: this node has no key" in work.done[0]
    assert stat.S_IMODE(Path(stream.stream_path(node.places, wanted)).stat().st_mode) == 0o600


@pytest.mark.btrfs
def test_half_a_stream_is_completed_from_the_store(node: Node) -> None:
    manifest, wanted, whole = parts(node)
    part = Path(f"{stream.stream_path(node.places, wanted)}.part")
    part.write_bytes(whole[: len(whole) // 3])
    stream.fetch(node.places, manifest, wanted, lambda text: None)
    assert Path(stream.stream_path(node.places, wanted)).read_bytes() == whole


@pytest.mark.holds("the manifest that is kept was verified")
@pytest.mark.btrfs
def test_the_manifest_that_is_kept_is_the_one_that_was_verified(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody changes the store after the signature was checked: nothing is read there a second time."""
    path = Path(node.places.store) / "one/manifest.json"
    good, check = path.read_bytes(), records.load_text.__globals__["verify"]

    def verify_and_change(text: bytes, signature: bytes, signers: str) -> None:
        check(text, signature, signers)
        path.write_bytes(good.replace(b'"by": "tester"', b'"by": "minji!"'))

    monkeypatch.setitem(records.load_text.__globals__, "verify", verify_and_change)
    manifest = records.load_manifest(node.places, "one", node.settings)
    assert path.read_bytes() != good
    assert manifest.raw["by"] == "tester"
    assert Path(node.places.in_state("manifests", "one.json")).read_bytes() == good


@pytest.mark.holds("a manifest is verified before it is signed again")
@pytest.mark.btrfs
def test_a_manifest_that_was_changed_in_the_store_is_not_signed_again(world: World) -> None:
    """A further stream is added to an image: what the store says of the others gets the site's signature with it."""
    path = world.store / "one/manifest.json"
    good = path.read_bytes()
    try:
        path.write_bytes(good.replace(b'"by": "tester"', b'"by": "minji!"'))
        with pytest.raises(NodeError, match="not by one of this site's keys"):
            publish.send(
                world.golden.places,
                world.golden.settings,
                "one",
                [],
                full=True,
                who="tester",
                progress=lambda text: None,
            )
    finally:
        path.write_bytes(good)


@pytest.mark.btrfs
def test_what_the_unit_runs(node: Node, pem: str, monkeypatch: pytest.MonkeyPatch, content: Path) -> None:
    """From the request to the stream: the manifest's size, the push's key, and what it writes down."""
    _, wanted, whole = parts(node)
    content.write_bytes(whole)
    monkeypatch.setattr(relay, "mounted", lambda *_a, **_k: nullcontext())
    port = free_port()
    request = Path(node.places.run) / relay.REQUEST
    with pytest.raises(NodeError, match="nobody has asked"):
        relay.serve(node.places, node.settings)
    image_places.write_json(str(request), {"name": "one", "port": port, "previous": "127.0.0.1", "next": None})
    with pytest.raises(NodeError, match="has no key"):
        relay.serve(node.places, node.settings)
    assert "along the chain: this node has no key" in relay.remarks(node.places)[0]

    chain_key.store(node.places, pem)
    relay.tell(node.places, listening=False, problem=None)
    thread = threading.Thread(target=relay.serve, args=(node.places, node.settings), daemon=True)
    thread.start()
    relay.await_listening(node.places, 10)
    follower = Follower("127.0.0.1", port, len(whole), credentials(pem))
    follower.reached(str(content), len(whole))
    follower.close(20)
    thread.join(20)
    assert follower.problem is None
    assert relay.remarks(node.places) == []
    assert relay.adopt(node.places, wanted)
    assert Path(f"{stream.stream_path(node.places, wanted)}.part").read_bytes() == whole

    with socket.create_server(("", port)), pytest.raises(NodeError, match="is taken by root"):
        relay.serve(node.places, node.settings)
    with pytest.raises(NodeError, match="is taken by root"):
        relay.await_listening(node.places, 10)
