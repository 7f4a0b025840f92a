"""Docker for whoever asks: by the kernel's word who it is, decided under the lock, and nobody can hold it up."""

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import commands, files, peercred_service
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import converge as accounts
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts import docker_self
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host, converge
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import Settings, load
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.plan import Request

from tests.support import role_variables
from tests.support.failing import raising
from tests.support.node_code import PACKAGE, write_out

pytestmark = [
    pytest.mark.root,
    pytest.mark.holds(
        "of one person only one connection at a time counts",
        "one whose request breaks does not end it for the others",
        "the kernel says who asks",
        "what somebody asks for is decided from the accounts as they are under the lock",
    ),
]
SETTINGS = Settings(docker_data="/local/.docker")
MINJI = {"name": "minji", "uid": 20001}
JUNHO = {"name": "junho", "uid": 20002, "docker": False}
SORA = {"name": "sora", "uid": 20004, "docker": False}
# Others cannot read where this interpreter lies, if that is below /root.
PYTHON = "/usr/bin/python3"
# What systemd does for a service with a socket (sd_listen_fds(3)).
AS_SYSTEMD = """import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])"""
TODAY = int(time.time() // 86400)


@pytest.fixture
def set_up(host: Host) -> Host:
    converge(Request(SETTINGS, [MINJI, JUNHO, SORA]), host)
    return host


def shadow(host: Host, name: str) -> list[str]:
    lines = Path(host.path("etc/shadow")).read_text().splitlines()
    return next(line.split(":") for line in lines if line.startswith(f"{name}:"))


def has_docker(host: Host, name: str) -> bool:
    return f"{name}:" in Path(host.path("etc/subuid")).read_text()


def test_whoever_asks_gets_docker_and_nothing_else_is_touched(set_up: Host) -> None:
    kinds = ("passwd", "shadow", "group", "gshadow")
    passwd = Path(set_up.path("etc/passwd"))
    passwd.write_text(passwd.read_text().replace("junho:x:20002:20002::", "junho:x:20002:20002:of the admin:"))
    before = {kind: Path(set_up.path(f"etc/{kind}")).read_bytes() for kind in kinds}
    assert docker_self.docker_self(set_up, 20002) == (
        0,
        "junho: Docker is set up now. Log in again, then: docker run ...",
    )
    assert {kind: Path(set_up.path(f"etc/{kind}")).read_bytes() for kind in kinds} == before
    assert has_docker(set_up, "junho")
    place = Path(set_up.path("local/.docker/junho")).stat()
    assert (place.st_uid, stat.S_IMODE(place.st_mode)) == (20002, 0o700)
    desired = load(set_up.path(set_up.state))
    assert desired.records["junho"].user.docker
    assert not desired.records["sora"].user.docker
    assert desired.root == "/roots/a"
    assert "already" in docker_self.docker_self(set_up, 20002)[1]


def test_before_the_host_is_set_up(host: Host) -> None:
    assert docker_self.docker_self(host, 20002) == (1, "Docker is not set up on this host. Ask the admins.")
    converge(Request(Settings(), [JUNHO]), host)  # a site without Docker
    assert docker_self.docker_self(host, 20002)[0] == 1
    assert docker_self.stranger(SETTINGS, 20002) is None
    assert docker_self.stranger(replace(SETTINGS, login=False), 20002) is not None, "nobody logs in there"


@pytest.mark.parametrize("uid", [0, 1000, 19999, 20003, 50000, 65534, 2**31 + 5, 2**32 - 1])
def test_who_is_no_person_of_this_site_is_refused(set_up: Host, uid: int) -> None:
    before = Path(set_up.path("etc/subuid")).read_bytes()
    assert docker_self.docker_self(set_up, uid)[0] == 1
    assert Path(set_up.path("etc/subuid")).read_bytes() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [({"locked": True}, "is locked"), ({"expires": TODAY}, "has expired"), ({"expires": TODAY - 9}, "has expired")],
)
def test_who_may_not_log_in_is_refused(set_up: Host, change: dict[str, object], words: str) -> None:
    converge(Request(SETTINGS, [dict(JUNHO, **change)]), set_up)
    status, text = docker_self.docker_self(set_up, 20002)
    assert status == 1
    assert words in text
    assert not has_docker(set_up, "junho")
    assert docker_self.docker_self(set_up, 20004)[0] == 0  # the others go on


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [("*:", "!*:", "is locked"), ("7:::", f"7::{TODAY}:", "has expired"), ("junho:", "jun:", "not set up on this")],
)
def test_what_an_admin_did_by_hand_holds(set_up: Host, old: str, new: str, words: str) -> None:
    path = Path(set_up.path("etc/shadow"))
    line = next(line for line in path.read_text().splitlines() if line.startswith("junho:"))
    path.write_text(path.read_text().replace(line, line.replace(old, new, 1)))
    before = path.read_bytes()
    status, text = docker_self.docker_self(set_up, 20002)
    assert status == 1
    assert words in text
    assert path.read_bytes() == before


def test_two_lines_of_one_name_are_nobody_s(set_up: Host) -> None:
    """Which of them a program reads is not ours to say."""
    passwd = Path(set_up.path("etc/passwd"))
    line = next(line for line in passwd.read_text().splitlines() if line.startswith("junho:"))
    passwd.write_text(f"{passwd.read_text()}{line.replace('20002', '20003')}\n")
    assert "not set up on this" in docker_self.docker_self(set_up, 20002)[1]
    assert not has_docker(set_up, "junho")


def test_a_name_is_not_taken_with_somebody_elses_uid(set_up: Host) -> None:
    before = Path(set_up.path("etc/subuid")).read_bytes()
    outcome = converge(Request(SETTINGS, docker=[("junho", 20004)]), set_up)
    assert outcome.plan.users["junho"].problem == "this account was not made by gpuadmin"
    passwd = Path(set_up.path("etc/passwd"))
    passwd.write_text(passwd.read_text().replace("junho:x:20002", "junho:x:20004"))
    outcome = converge(Request(SETTINGS, docker=[("junho", 20002)]), set_up)
    assert outcome.plan.users["junho"].problem == "this account is not set up on this host"
    assert Path(set_up.path("etc/subuid")).read_bytes() == before


@contextmanager
def in_between(monkeypatch: pytest.MonkeyPatch, deed: Callable[[], object]) -> Iterator[None]:
    """``deed`` is done by another program just before the next one gets the lock of the accounts."""
    real = files.flocked

    @contextmanager
    def late(path: str, seconds: float = 120.0) -> Iterator[None]:
        monkeypatch.setattr(accounts, "flocked", real)
        deed()
        with real(path, seconds):
            yield

    monkeypatch.setattr(accounts, "flocked", late)
    yield
    assert accounts.flocked is real, "nobody took the lock"


def test_a_lock_that_comes_in_between_holds(set_up: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody asks, is held up before the lock, is locked meanwhile, and goes on."""
    locked = dict(JUNHO, locked=True)
    with in_between(monkeypatch, lambda: converge(Request(SETTINGS, [locked]), set_up)):
        status, text = docker_self.docker_self(set_up, 20002)
    assert status == 1
    assert "locked" in text
    assert shadow(set_up, "junho")[1] == "!*"
    assert shadow(set_up, "junho")[7] == "1"
    assert load(set_up.path(set_up.state)).records["junho"].user.locked
    assert not has_docker(set_up, "junho")


def test_a_removal_that_comes_in_between_holds(set_up: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = Request(SETTINGS, (), [{"name": "junho", "uid": 20002}])
    with in_between(monkeypatch, lambda: converge(gone, set_up)):
        assert docker_self.docker_self(set_up, 20002)[0] == 1
    assert "junho" not in Path(set_up.path("etc/passwd")).read_text()
    assert "junho" not in load(set_up.path(set_up.state)).records


def test_the_boot_unit_decides_under_the_lock_as_well(set_up: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = dict(JUNHO, locked=True)
    with in_between(monkeypatch, lambda: converge(Request(SETTINGS, [locked]), set_up)):
        assert commands.apply_accounts(set_up) == 0
    assert shadow(set_up, "junho")[1] == "!*"


def test_who_has_nothing_to_be_done_never_takes_the_lock(set_up: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    converge(Request(SETTINGS, [dict(SORA, locked=True)]), set_up)
    monkeypatch.setattr(accounts, "flocked", lambda *_a, **_k: pytest.fail("took the lock"))
    assert docker_self.docker_self(set_up, 20001)[0] == 0  # has it
    assert docker_self.docker_self(set_up, 20004)[0] == 1  # is locked
    assert docker_self.docker_self(set_up, 30000)[0] == 1  # is nobody


def test_accounts_of_a_directory(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host = replace(host, lookup={"junho": (20002, 20002)}.get)
    settings = replace(SETTINGS, source="directory", uid_last=20000)
    converge(Request(settings, [{"name": "minji"}]), host)
    monkeypatch.setattr(
        docker_self, "member_name", lambda uid, group: {20002: "junho", 20003: "junho", 20004: "../x"}.get(uid)
    )
    assert "not in the group gpuusers" in docker_self.docker_self(host, 20009)[1]
    assert "the name '../x' is refused" in docker_self.docker_self(host, 20004)[1]
    assert "is not this account's" in docker_self.docker_self(host, 20003)[1]
    assert docker_self.docker_self(host, 20002)[0] == 0
    assert has_docker(host, "junho")
    assert not has_docker(host, "minji")


def as_person(uid: int, work: Callable[[], int]) -> int:
    """Fork, become ``uid``, do ``work``; return the process's id."""
    child = os.fork()
    if not child:
        status = 9
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            status = work()
        finally:
            os._exit(status)
    return child


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def listener(tmp_path: Path) -> Iterator[socket.socket]:
    """A socket that everybody may connect to, as systemd's is."""
    with socket.socket(socket.AF_UNIX) as found:
        found.bind(f"\0gpuadmin-test-{os.getpid()}-{tmp_path.name}")
        found.listen(64)
        yield found


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that others can enter, as pytest's are not."""
    with tempfile.TemporaryDirectory(prefix="gpuadmin-test-") as name:
        path = Path(name)
        path.chmod(0o755)
        yield path


@contextmanager
def served(listener: socket.socket, host: Host) -> Iterator[int]:
    child = os.fork()
    if not child:
        try:
            docker_self.serve(listener, host, idle=300)
        finally:
            os._exit(0)
    try:
        yield child
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def ask(address: str | bytes, expected: str) -> int:
    signal.alarm(60)
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(address)
        said = channel.recv(4096).decode()
        signal.alarm(0)
        return 0 if expected in said else 1


def test_the_kernel_says_who_asks(set_up: Host, listener: socket.socket) -> None:
    address = listener.getsockname()
    with served(listener, set_up):
        assert ended(as_person(20002, lambda: ask(address, "0 junho: Docker is set up now"))) == 0
        assert ended(as_person(20002, lambda: ask(address, "0 junho: Docker is set up already"))) == 0
        assert ended(as_person(1000, lambda: ask(address, "1 uid 1000 is not an account"))) == 0
        assert ask(address, "1 uid 0 is not an account") == 0
    assert has_docker(set_up, "junho")
    assert not has_docker(set_up, "sora")


def test_who_is_stopped_does_not_read_or_says_much_holds_nobody_up(set_up: Host, listener: socket.socket) -> None:
    """Somebody asks, and is stopped at once; the lock is not theirs, and the next one is served."""
    address = listener.getsockname()

    def shout() -> int:
        with socket.socket(socket.AF_UNIX) as channel:
            channel.connect(address)
            channel.setblocking(False)
            try:
                while True:
                    channel.send(b'{"uid": 20004, "name": "sora"}\n' * 1000)
            except OSError:
                os.kill(os.getpid(), signal.SIGSTOP)
        return 0

    with served(listener, set_up):
        child = as_person(20002, shout)
        try:
            assert ended(as_person(20004, lambda: ask(address, "0 sora"))) == 0
            locked = [dict(JUNHO, locked=True)]
            converge(Request(SETTINGS, locked), set_up, seconds=5)  # and so is the admin
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
    assert shadow(set_up, "junho")[1] == "!*"


def test_a_flood_by_one_keeps_nobody_out(set_up: Host, listener: socket.socket) -> None:
    address = listener.getsockname()

    def flood() -> int:
        signal.alarm(300)
        held: list[socket.socket] = []
        while True:
            channel = socket.socket(socket.AF_UNIX)
            channel.setblocking(False)
            try:
                channel.connect(address)
            except OSError:
                channel.close()
                continue
            held = [*held[-200:], channel]

    with served(listener, set_up):
        children = [as_person(20001, flood) for _ in range(2)]
        try:
            time.sleep(0.5)  # the flood has begun
            assert ended(as_person(20002, lambda: ask(address, "0 junho: Docker is set up now"))) == 0
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


def test_of_one_person_only_the_first_connection_counts(
    set_up: Host, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(docker_self, "docker_self", lambda _host, uid: (asked.append(uid), (0, "done"))[1])
    monkeypatch.setattr(peercred_service, "peer_uid", lambda _connection: 20001)
    channels = [socket.socket(socket.AF_UNIX) for _ in range(5)]
    for channel in channels:
        channel.connect(listener.getsockname())
    monkeypatch.setattr(peercred_service.signal, "signal", lambda *_a: None)
    docker_self.serve(listener, set_up, idle=0.1)
    assert asked == [20001]
    said = [channel.recv(100).decode() for channel in channels]
    assert said == ["0 done\n", *[f"1 {peercred_service.BUSY}\n"] * 4]
    for channel in channels:
        channel.close()


@contextmanager
def served_once(set_up: Host, listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """Serve junho, in this process; gives junho's end of the connection."""
    monkeypatch.setattr(peercred_service, "peer_uid", lambda _connection: 20002)
    monkeypatch.setattr(peercred_service.signal, "signal", lambda *_a: None)
    with socket.socket(socket.AF_UNIX) as channel:
        channel.connect(listener.getsockname())
        docker_self.serve(listener, set_up, idle=0.1)
        yield channel


def test_one_whose_request_breaks_does_not_end_it_for_the_others(
    set_up: Host, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(docker_self, "docker_self", raising(ZeroDivisionError()))
    with served_once(set_up, listener, monkeypatch) as channel:
        assert channel.recv(100) == b"1 Docker could not be set up. Ask the admins.\n"


def test_accounts_that_cannot_be_read_are_said_and_it_goes_on(set_up: Host, listener: socket.socket) -> None:
    path = Path(set_up.path("var/lib/gpuadmin/accounts.json"))
    text = path.read_text()
    path.write_text("{")
    with served(listener, set_up):
        assert ended(as_person(20002, lambda: ask(listener.getsockname(), "1 The accounts of this host cannot"))) == 0
        path.write_text(text)
        assert ended(as_person(20002, lambda: ask(listener.getsockname(), "0 junho"))) == 0


def test_no_lock_is_held_while_the_answer_is_given(
    set_up: Host, listener: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    def free(connection: socket.socket, _status: int, _text: str) -> None:
        with files.flocked(set_up.path("run/gpuadmin/accounts.lock"), 0.0):
            connection.close()

    monkeypatch.setattr(peercred_service, "answer", free)
    with served_once(set_up, listener, monkeypatch):
        pass
    assert has_docker(set_up, "junho")


def test_sigterm_lets_it_finish(set_up: Host, listener: socket.socket) -> None:
    with served(listener, set_up) as child:
        assert ended(as_person(20002, lambda: ask(listener.getsockname(), "0 junho"))) == 0
        os.kill(child, signal.SIGTERM)
        begun = time.monotonic()
        while os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
            assert time.monotonic() - begun < 60
            time.sleep(0.05)  # waitid(2) has no deadline


def rendered(name: str, **more: str) -> str:
    variables = {
        "gpuadmin_python": sys.executable,
        "rootless_docker_data": "/local/.docker",
        "_rootless_docker_self_socket": "/run/gpuadmin-docker-self.sock",
        **more,
    }
    return role_variables.rendered("rootless_docker", name, variables)


def test_what_people_call_is_a_client(set_up: Host, open_path: Path) -> None:
    """The command, the socket as systemd gives it, and the node's own code, by a person who is nobody special."""
    address = open_path / "socket"
    program = open_path / "serve.py"
    write_out(open_path / "lib")
    program.write_text(
        f"import sys; sys.path.insert(0, {str(open_path / 'lib')!r})\n"
        f"from {PACKAGE} import commands\nfrom {PACKAGE}.accounts.converge import Host\n"
        f"host = Host(root={set_up.root!r}, subvolume='/roots/a', network=lambda _path: None)\n"
        "sys.exit(commands.main(['docker-self'], host))\n"
    )
    client = open_path / "add-me"
    client.write_text(rendered("add-me-to-docker-user.j2", _rootless_docker_self_socket=str(address)))
    systemctl = open_path / "systemctl"
    systemctl.write_text("#!/bin/sh\nexit 0\n")
    systemctl.chmod(0o755)
    client.write_text(client.read_text().replace("/usr/bin/systemctl", str(systemctl)))
    client.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(address))
        listener.listen()
        unit = subprocess.Popen(
            [PYTHON, "-c", AS_SYSTEMD, str(listener.fileno()), PYTHON, "-I", program], pass_fds=[listener.fileno()]
        )
    address.chmod(0o666)
    try:

        def call(uid: int, *arguments: str) -> subprocess.CompletedProcess[str]:
            return subprocess.run(
                [PYTHON, "-IB", str(client), *arguments], user=uid, group=uid, extra_groups=[], cwd="/",
                capture_output=True, text=True, check=False, timeout=60,
            )  # fmt: skip

        assert call(20002, "minji").returncode == 2
        got = call(20002)
        assert (got.returncode, got.stdout) == (0, "Docker is yours on this host. Try: docker info\n"), got.stderr
        refused = call(1000)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert "uid 1000 is not an account" in refused.stderr
    finally:
        unit.kill()
        unit.wait()
    assert has_docker(set_up, "junho")


def test_without_its_socket_it_does_nothing(set_up: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_UID", "20002")  # what an older wrapper had
    monkeypatch.delenv("LISTEN_FDS", raising=False)
    assert commands.main(["docker-self"], set_up) == 2
    assert commands.main(["docker-self", "minji"], set_up) == 2
    assert not has_docker(set_up, "junho")


@pytest.mark.needs("systemd-analyze")
def test_the_units(tmp_path: Path) -> None:
    """systemd understands them, and what keeps a person from stopping or failing them is there."""
    for kind in ("socket", "service"):
        text = rendered(f"gpuadmin-docker-self.{kind}.j2")
        (tmp_path / f"gpuadmin-docker-self.{kind}").write_text(text)
    service, listens = (tmp_path / f"gpuadmin-docker-self.{kind}" for kind in ("service", "socket"))
    # one service for all: systemd counts no peers of unix sockets before 257, and too many connections fail the socket
    assert "Accept=no" in listens.read_text()
    for setting in ("Slice=system.slice", "CollectMode=inactive-or-failed", "RuntimeMaxSec=", "close-root"):
        assert setting in service.read_text()
    assert "User=" not in service.read_text()
    verified = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(service), str(listens)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    about = [line for line in verified.stderr.splitlines() if "gpuadmin" in line and "Command" not in line]
    assert about == []


@pytest.mark.parametrize(
    ("owner", "status"), [(2147483648 + 65536, 0), (20002, 3), (1000, 3), (100005, 3)],
    ids=["a subordinate id", "another person", "an account of the host", "another's subordinate id of old"],
)  # fmt: skip
def test_who_gives_their_place_away_keeps_no_root_from_being_confirmed(
    set_up: Host, owner: int, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """`unshare --map-root-user --map-auto chown 1 /local/.docker/minji`: anybody with subordinate ids can."""
    os.chown(set_up.path("local/.docker/minji"), owner, -1)
    assert commands.main(["apply-accounts", "--check"], set_up) == status
    assert commands.main(["apply-accounts"], set_up) == status
    assert "user minji: /local/.docker/minji is" in capsys.readouterr().err
    assert Path(set_up.path("local/.docker/minji")).stat().st_uid == owner, "kept as it is"


def test_subordinate_ids_that_were_there_before_gpuadmin(set_up: Host) -> None:
    for kind in ("subuid", "subgid"):
        path = Path(set_up.path(f"etc/{kind}"))
        path.write_text("\n".join(one for one in path.read_text().splitlines() if "minji" not in one) + "\n")
        path.write_text(path.read_text() + "minji:300000:65536\n")
    os.chown(set_up.path("local/.docker/minji"), 300001, -1)
    assert commands.main(["apply-accounts", "--check"], set_up) == 0
