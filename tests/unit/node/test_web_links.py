"""A node signs a link for whoever asks: in the name that the kernel says they have, while they may log in."""

import contextlib
import json
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import commands, peercred_service
from ansible_collections.gpuadmin.node.plugins.module_utils import web_links as links
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState, Record, Settings, save
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import User

from gpuadmin.common import tokens

KEY = bytes(range(32))
TODAY = 20_000
NOW = TODAY * 86400 + 5.0
NAMES = {20001: "minji", 20002: "jiho", 20003: "sora", 20004: "dohyun", 20005: "yuna", 20006: "other", 20007: "gone"}
SHADOW = {
    "minji": "$y$j:1:0:99999:7:::", "jiho": "*:1:0:99999:7:::", "sora": f"*:1:0:99999:7::{TODAY}:",
    "dohyun": "!$y$j:1:0:99999:7:::", "yuna": "*:1:0:99999:7:::", "harin": "*:1:0:99999:7:::",
}  # fmt: skip


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """A directory that everybody reaches, with a path that a socket's address has room for."""
    found = Path(tempfile.mkdtemp(prefix="links.", dir="/tmp"))
    found.chmod(0o755)
    yield found
    shutil.rmtree(found)


def user(name: str, uid: int, **more: object) -> Record:
    return Record(replace(User(name, uid, uid, home=f"/home/{name}"), **more))  # type: ignore[arg-type]  # whatever a test says


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """jiho is locked, sora's account has ended on this host, dohyun was locked by hand, yuna's ends today; harin has a
    uid that this host calls `other`, gone has no line in shadow.
    """
    found = Host(root=str(tmp_path), state="state")
    (tmp_path / "state/dashboard").mkdir(parents=True)
    (tmp_path / "etc").mkdir()
    records = {
        "minji": user("minji", 20001), "jiho": user("jiho", 20002, locked=True), "sora": user("sora", 20003),
        "dohyun": user("dohyun", 20004), "yuna": user("yuna", 20005, expires=TODAY), "harin": user("harin", 20006),
        "gone": user("gone", 20007),
    }  # fmt: skip
    save(str(tmp_path / "state"), DesiredState(Settings(), records))
    (tmp_path / "etc/shadow").write_text("".join(f"{name}:{rest}\n" for name, rest in SHADOW.items()))
    (tmp_path / "state/dashboard/link.key").write_text(f"{KEY.hex()}\n")
    monkeypatch.setattr("pwd.getpwuid", lambda uid: SimpleNamespace(pw_name=NAMES[uid], pw_gid=uid))
    return found


def test_the_name_is_the_kernels(host: Host) -> None:
    status, text = links.link(20001, host, "node1", "https://monitor.example:9443", NOW)
    base, _, token = text.partition("/enter?link=")
    assert (status, base) == (0, "https://monitor.example:9443")
    found = tokens.read(token, lambda kind, by: KEY if (kind, by) == ("link", "node1") else None, ("link",), NOW, 60)
    assert (found.name, found.signer, found.at) == ("minji", "node1", int(NOW))


@pytest.mark.parametrize(
    ("uid", "why"),
    [
        (20002, "locked"), (20004, "locked"), (20003, "expired"), (20005, "expired"), (20006, "not-here"),
        (20007, "not-here"), (20008, "not-ours"), (0, "stranger"), (1000, "stranger"), (65534, "stranger"),
        (2147483648, "stranger"), (2**32 - 1, "stranger"), (900, "stranger"),
    ],
)  # fmt: skip
def test_who_gets_none(uid: int, why: str, host: Host) -> None:
    status, text = links.link(uid, host, "node1", "https://monitor.example:9443", NOW)
    assert (status, text) == (1, why)


def test_accounts_of_a_directory(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    records = {
        "minji": user("minji", 20001), "jiho": user("jiho", 20002, locked=True),
        "yuna": user("yuna", 20005, expires=TODAY),
    }  # fmt: skip
    save(host.path("state"), DesiredState(Settings(source="directory"), records))
    members = {30001: "hana", 20001: "minji", 20002: "jiho", 20005: "yuna"}
    monkeypatch.setattr(links, "member_name", lambda uid, group: members.get(uid) if group == "gpuusers" else None)
    assert links.who(30001, host, TODAY) == "hana"
    assert links.who(20001, host, TODAY) == "minji"
    for uid, why in ((20002, "locked"), (20005, "expired"), (30002, "no-member"), (999, "stranger")):
        with pytest.raises(NodeError, match=why):
            links.who(uid, host, TODAY)


@pytest.mark.parametrize("settings", [None, Settings(login=False)])
def test_where_nobody_logs_in_nobody_gets_a_link(host: Host, settings: Settings | None) -> None:
    save(host.path("state"), DesiredState(settings, {"minji": user("minji", 20001)}))
    status, text = links.link(20001, host, "node1", "https://monitor.example:9443", NOW)
    assert (status, text) == (1, "no-accounts")


def test_a_uid_of_two_is_nobodys(host: Host) -> None:
    save(host.path("state"), DesiredState(Settings(), {name: user(name, 20001) for name in ("minji", "twin")}))
    assert links.link(20001, host, "node1", "https://monitor.example:9443", NOW)[0] == 1


@pytest.mark.parametrize("line", ["minji:*:1:0:99999:7:::\n", "minji:*\n"], ids=["twice", "cut"])
def test_an_account_that_is_not_known_without_doubt_gets_none(host: Host, line: str) -> None:
    """Of two lines one may be locked; one that is cut says neither."""
    path = Path(host.path("etc/shadow"))
    rest = "" if line == "minji:*\n" else path.read_text()
    path.write_text(rest + line)
    assert links.link(20001, host, "node1", "https://monitor.example:9443", NOW)[0] == 1


@pytest.mark.parametrize("key", [None, "", "abc", "zz" * 32, "00" * 31])
def test_without_a_key_nothing_is_signed(key: str | None, host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(host.path("state/dashboard/link.key"))
    path.unlink()
    if key is not None:
        path.write_text(key)
    status, text = links.link(20001, host, "node1", "https://monitor.example:9443", NOW)
    assert (status, text) == (1, links.FAILED)
    assert "link.key" in capsys.readouterr().err


def test_only_systemd_starts_it(host: Host, capsys: pytest.CaptureFixture[str]) -> None:
    assert commands.main(["web-links"], host) == 2
    assert "gpuadmin-me web" in capsys.readouterr().err


@contextlib.contextmanager
def serving(host: Host, path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    settings = path.with_suffix(".json")
    settings.write_text(json.dumps({"node": "node1", "address": "https://monitor.example:9443"}))
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(str(path))
    path.chmod(0o666)
    listener.listen(64)
    monkeypatch.setattr(peercred_service, "given_socket", lambda: listener)
    monkeypatch.setattr(peercred_service.signal, "signal", lambda *_a: None)
    monkeypatch.setattr(peercred_service, "IDLE", 3.0)
    thread = threading.Thread(target=lambda: links.main(host, str(settings), lambda: NOW), daemon=True)
    thread.start()
    yield
    thread.join(30)
    assert not thread.is_alive()


ASK = """import socket, sys
with socket.socket(socket.AF_UNIX) as one:
    one.settimeout(20)
    one.connect(sys.argv[1])
    print(one.recv(4096).decode(), end="")"""


@pytest.mark.root
def test_who_asks_is_what_the_kernel_says(host: Host, short_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Real connections of other uids: each gets an answer in the name that the kernel has for them."""
    path = short_tmp / "s"

    def ask(uid: int) -> str:
        line = ["/usr/bin/python3", "-Ic", ASK, str(path)]
        return subprocess.run(line, user=uid, group=uid, extra_groups=[], capture_output=True, text=True, timeout=60,
                              cwd="/", check=False).stdout  # fmt: skip

    with serving(host, path, monkeypatch):
        assert "~minji~" in ask(20001)
        assert ask(20002).startswith("1 locked\n")
        assert ask(65534) == "1 stranger\n"


def test_who_comes_with_many_ids_is_refused_before_their_turn(
    host: Host, short_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever has subordinate ids can connect as each of them; held until their turn they take all descriptors."""
    looked: list[int] = []
    monkeypatch.setattr(links, "who", lambda uid, *_: (looked.append(uid), "minji")[1])
    several = iter([2**31 + 1, 20001, 2**31 + 2])
    monkeypatch.setattr(peercred_service, "peer_uid", lambda _connection: next(several))
    with contextlib.ExitStack() as stack:
        stack.enter_context(serving(host, short_tmp / "s", monkeypatch))
        channels = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(3)]
        for channel in channels:
            channel.connect(str(short_tmp / "s"))
        said = [channel.recv(4096).decode() for channel in channels]
    assert looked == [20001]
    assert (said[0], said[2]) == ("1 stranger\n", "1 stranger\n")
    save(host.path("state"), DesiredState())
    assert links.subordinate(host.path("state"), "")(2**31 + 1) is None, "each is told that there are no accounts"
    Path(host.path("state/accounts.json")).write_text("{")
    assert links.subordinate(host.path("state"), "")(2**31 + 1) is None, "who asks is served, or told that it failed"


def test_settings_that_nobody_wrote(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for text in ("", "[]", "{}"):
        (tmp_path / "links.json").write_text(text)
        monkeypatch.setattr(peercred_service, "given_socket", lambda: socket.socket(socket.AF_UNIX))
        with pytest.raises(NodeError, match="is not what gpuadmin provision writes"):
            links.main(host, str(tmp_path / "links.json"))
