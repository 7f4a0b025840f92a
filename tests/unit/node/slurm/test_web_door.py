"""The door of the dashboard's buttons: a closed list, the dashboard's certificate alone, and people who may come in."""

import asyncio
import contextlib
import os
import pwd
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState, Record, Settings, save
from ansible_collections.gpuadmin.node.plugins.module_utils.fields import User
from ansible_collections.gpuadmin.node.plugins.module_utils.run import LateError
from ansible_collections.gpuadmin.node.plugins.module_utils.slurm import web_door

from gpuadmin.common.pressed import LARGEST, Pressed, press
from gpuadmin.dashboard.door import Door
from gpuadmin.dashboard.files import DashboardError
from gpuadmin.monitoring import certificates

SECRET = bytes(range(32))
ME = pwd.getpwuid(os.getuid())
NOW = 20_000 * 86400 + 5.0


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """The queue's host: minji is a person of the site there, jiho is locked, and nobody logs in."""
    (tmp_path / "state").mkdir()
    (tmp_path / "etc").mkdir()
    people = {"minji": 20001, "jiho": 20002}
    (tmp_path / "etc/shadow").write_text("".join(f"{name}:*:1:0:99999:7:::\n" for name in people))
    records = {
        name: Record(replace(User(name, uid, uid, home=f"/home/{name}"), locked=name == "jiho"))
        for name, uid in people.items()
    }
    settings = Settings(source="registry", uid_first=20000, uid_last=29999, login=False)
    save(str(tmp_path / "state"), DesiredState(settings, records))
    accounts = {
        name: pwd.struct_passwd((name, "x", uid, uid, "", "/", "/bin/sh"))
        for name, uid in {**people, "root": 0, "twin": 20001}.items()
    }
    monkeypatch.setattr(web_door.pwd, "getpwnam", accounts.__getitem__)
    by_uid = {uid: name for name, uid in people.items()}
    monkeypatch.setattr("ansible_collections.gpuadmin.node.plugins.module_utils.web_links.find_name", by_uid.get)
    return Host(root=str(tmp_path), state="state")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, list[str]]]:
    """Who did what; gpu says `done`."""
    found: list[tuple[str, list[str]]] = []

    def act(pressed: Pressed, person: pwd.struct_passwd) -> tuple[int, str]:
        found.append((person.pw_name, pressed.command()))
        return 0, "done"

    monkeypatch.setattr(web_door, "act", act)
    return found


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("minji en get 2 8 h100-pcie", "get 2 --hours=8 --no-wait --type=h100-pcie --language=en"),
        ("minji ko get 1 1 ", "get 1 --hours=1 --no-wait --language=ko"),
        ("minji ko release 12", "release 12 --language=ko"),
        ("minji en release 12_3", "release 12_3 --language=en"),
        ("minji en extend 12 2", "extend 12 --hours=2 --language=en"),
        ("minji en book 2 8 2026-12-01T09:00", "book 2 --hours=8 --at=2026-12-01T09:00 --language=en"),
        ("minji en cancel 1", "book --cancel=1 --language=en"),
        ("minji ko jobs", "jobs --language=ko"),
    ],
)
def test_a_button_is_what_its_person_would_type(
    line: str, command: str, host: Host, asked: list[tuple[str, list[str]]]
) -> None:
    assert web_door.answer(line, host, NOW) == "0\ndone\n"
    assert asked == [("minji", command.split())]


ODD = (
    "", "minji", "minji en", "minji en why", "minji en list", "minji en get 1", "minji en get 1 1",
    "minji en get 1 1  ", "minji en get 1 1 h100 x", "minji en get -1 1 ", "minji en get 1 --node=x ",
    "minji en get 99999 1 ", "minji en get 1 1 --wrap=id", "minji en get 1 1 H100", "minji en get 1 1 ../x",
    "minji fr release 1", "minji en release", "minji en release --all", "minji en release 0",
    "minji en release 1;id", "minji en release 1\t2", "minji en extend 1", "minji en extend 1 0",
    "minji en book 1 1 09:00", "minji en book 1 1 $(id)", "minji en cancel x", "minji  en release 1",
    " minji en release 1", "minji en release 1 ", "Minji en release 1", "../x en release 1", "minji en __class__ 1",
    "minji en release \u0661",
)  # fmt: skip


@pytest.mark.holds(
    "only buttons of the list are pressed",
    "a button's fields are what they may be", "a request has its button's fields and no more",
)  # fmt: skip
@pytest.mark.parametrize("line", ODD)
def test_odd_requests_do_nothing(line: str, host: Host, asked: list[tuple[str, list[str]]]) -> None:
    assert (web_door.answer(line, host, NOW), asked) == ("8\n", [])


@pytest.mark.parametrize("name", ["jiho", "root", "twin", "nobody-here"])
def test_who_may_not_come_in_presses_nothing(name: str, host: Host, asked: list[tuple[str, list[str]]]) -> None:
    """Locked, root, a second name of a person's uid, nobody."""
    assert (web_door.answer(f"{name} en release 1", host, NOW), asked) == ("8\n", [])


def test_it_is_done_as_the_person(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With real setpriv: root becomes somebody else; whoever is not root can become nobody."""
    program = tmp_path / "gpu"
    program.write_text('#!/bin/sh\necho "$(id -u) $(id -g) $(id -G): $*"\necho oops >&2\nexit 3\n')
    program.chmod(0o755)
    for one in (tmp_path, *tmp_path.parents):
        if "/pytest-of-" in str(one):  # wherever TMPDIR is
            one.chmod(0o755)
    monkeypatch.setattr(web_door, "PROGRAM", str(program))
    pressed = press("minji", "ko", "cancel", {"number": "1"})
    assert pressed is not None
    person = pwd.struct_passwd(("minji", "x", 20001, 20001, "", "/", "/bin/sh"))
    status, text = web_door.act(pressed, person)
    if os.geteuid() == 0:
        assert (status, text) == (3, "20001 20001 20001: book --cancel=1 --language=ko\noops")
    else:
        assert status != 3
    program.write_text("#!/bin/sh\nexit 0\n")

    def late(*_: object, **__: object) -> None:
        raise LateError(1, "")

    monkeypatch.setattr(web_door, "run_command", late)
    assert web_door.act(pressed, person) == (web_door.LATE, "")


class Opened:
    """The real door with the site's certificates, on a port of the loopback."""

    def __init__(self, directory: Path, host: Host) -> None:
        own = certificates.exporter(SECRET, "nas1", "127.0.0.1")
        for name, text in (
            ("authority.pem", certificates.authority(SECRET)), ("own.pem", own.certificate), ("own.key", own.key),
        ):  # fmt: skip
            (directory / name).write_text(text)
        self.directory, self.statuses = directory, list[int]()
        self.listener = socket.create_server(("127.0.0.1", 0))
        context = web_door.tls(str(directory / "authority.pem"), str(directory / "own"))

        def serve() -> None:
            while True:
                try:
                    connection, _ = self.listener.accept()
                except OSError:
                    return
                self.statuses.append(web_door.serve(connection, context, host, NOW))

        threading.Thread(target=serve, daemon=True).start()

    def door(self, identity: certificates.Identity, at: str = "127.0.0.1") -> Door:
        (self.directory / "asker").write_text(identity.certificate + identity.key)
        port = self.listener.getsockname()[1]
        return Door(at, str(self.directory / "authority.pem"), str(self.directory / "asker"), port)


@pytest.fixture
def opened(tmp_path: Path, host: Host) -> Iterator[Opened]:
    found = Opened(tmp_path, host)
    yield found
    found.listener.shutdown(socket.SHUT_RDWR)
    found.listener.close()


def asked_at(door: Door, pressed: Pressed) -> tuple[int, str]:
    return asyncio.run(door.ask(pressed))


PRESSED = Pressed("minji", "en", "release", {"job": "4"})


def test_the_dashboard_is_let_in(opened: Opened, asked: list[tuple[str, list[str]]]) -> None:
    assert asked_at(opened.door(certificates.buttons(SECRET)), PRESSED) == (0, "done")
    assert asked == [("minji", ["release", "4", "--language=en"])]


@pytest.mark.parametrize(
    "identity",
    [
        certificates.scraper(SECRET),  # Prometheus', of the same authority
        certificates.exporter(SECRET, "gpuadmin buttons", "127.0.0.1"),  # a host that calls itself so
        certificates.buttons(bytes(32)),  # of another site
    ],
    ids=["prometheus", "host", "other-site"],
)
def test_nobody_else_is_let_in(
    identity: certificates.Identity, opened: Opened, asked: list[tuple[str, list[str]]]
) -> None:
    with pytest.raises(DashboardError):
        asked_at(opened.door(identity), PRESSED)
    assert asked == []


def test_somebody_without_a_certificate_is_not_let_in(opened: Opened, asked: list[tuple[str, list[str]]]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.load_verify_locations(str(opened.directory / "authority.pem"))
    answered = b""
    plain = socket.create_connection(opened.listener.getsockname())
    with contextlib.suppress(OSError), plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as channel:
        channel.sendall(b"minji en release 4\n")
        answered = channel.recv(10)
    assert answered == b""
    assert asked == []


def test_a_request_and_an_answer_are_bounded(
    opened: Opened, asked: list[tuple[str, list[str]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    door = opened.door(certificates.buttons(SECRET))
    assert (asked_at(door, Pressed("minji", "en", "release", {"job": "1" * 5000})))[0] == web_door.NOT_LET_IN
    assert asked == []
    monkeypatch.setattr(web_door, "act", lambda *_: (1, "é" * 5000))
    status, text = asked_at(door, PRESSED)
    assert (status, len(text.encode()) <= LARGEST + 3) == (1, True)


def test_only_the_queues_own_host_is_asked(opened: Opened) -> None:
    """Another host of the site answers with a certificate of its own address."""
    with pytest.raises(DashboardError, match="does not answer"):
        asked_at(opened.door(certificates.buttons(SECRET), "localhost"), PRESSED)


def test_only_its_unit_starts_it(capsys: pytest.CaptureFixture[str]) -> None:
    from ansible_collections.gpuadmin.node.plugins.module_utils import commands

    assert commands.main(["queue-door"]) == 1
    assert "systemd starts it" in capsys.readouterr().err
