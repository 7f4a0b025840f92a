"""What is tried in somebody's session: real shells with real files, a daemon's socket, and what goes wrong."""

import errno
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from socket import AF_UNIX, SOCK_STREAM, socket
from typing import Any

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import trying

from tests.support.failing import raising

BASH = "/bin/bash"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("BASH_ENV", raising=False)
    monkeypatch.setenv("SHLVL", "0")  # bash takes itself for one that sshd started only where it is the first
    return tmp_path


def test_nothing_is_left_behind(home: Path) -> None:
    assert (trying.home(str(home))["code"], trying.written(str(home))["code"]) == ("", "")
    assert (trying.command(BASH)["code"], trying.login(BASH)["code"], trying.process()["code"]) == ("", "", "")
    assert list(home.iterdir()) == [], "no history, and no file of ours"


def test_a_home_that_is_not_there_and_one_that_is_entered(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = trying.home(str(home / "gone"))
    assert (outcome["code"], outcome["words"]) == ("ENOENT", f"{home}/gone: No such file or directory")
    monkeypatch.chdir("/")
    trying.home(str(home))
    assert Path.cwd() == home


@pytest.mark.parametrize(("call", "code"), [("open", "EROFS"), ("write", "ENOSPC"), ("fsync", "EDQUOT")])
def test_where_no_file_can_be_written(home: Path, monkeypatch: pytest.MonkeyPatch, call: str, code: str) -> None:
    monkeypatch.setattr(os, call, raising(OSError(getattr(errno, code), os.strerror(getattr(errno, code)))))
    assert trying.written(str(home))["code"] == code
    assert list(home.iterdir()) == []


def test_what_has_that_name_is_not_written_to(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("secrets.token_hex", lambda _bytes: "0")
    (home / "thesis").write_text("precious")
    (home / ".gpuadmin-0").symlink_to("thesis")
    assert trying.written(str(home))["code"] == "EEXIST"
    assert (home / "thesis").read_text() == "precious"


def test_where_no_process_can_be_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fork", raising(OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))))
    assert trying.process()["code"] == "EAGAIN"


def test_the_process_that_is_made_does_nothing_more() -> None:
    line = f"import runpy; t = runpy.run_path({trying.__file__!r}); print(t['process']()['code'] == '')"
    done = subprocess.run([sys.executable, "-c", line], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")


def test_a_shell_finds_what_sshd_gives_and_no_more(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in trying.NOT_SSHD:
        monkeypatch.setenv(name, "x")
    for file, ask in {".bashrc": trying.command, ".bash_profile": trying.login}.items():
        (home / file).write_text(f"env -0 > {home}/seen\n")
        assert ask(BASH)["code"] == ""
        (home / file).unlink()
        seen = dict(one.split("=", 1) for one in (home / "seen").read_text().split("\0") if one)
        assert not {*trying.NOT_SSHD} & {*seen}
        assert (seen["SSH_CLIENT"], seen["SSH_CONNECTION"]) == ("127.0.0.1 0 22", "127.0.0.1 0 127.0.0.1 22")
        assert ("SSH_TTY" in seen, seen["SHELL"]) == (ask is trying.login, BASH)


def test_a_shell_that_reads_finds_an_end(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And not what this program is told."""
    monkeypatch.setattr(trying, "SECONDS", 1.0)
    (home / ".bashrc").write_text("read line\n")
    kept, (read, write) = os.dup(0), os.pipe()
    try:
        os.dup2(read, 0)
        assert trying.command(BASH)["code"] == ""
    finally:
        os.dup2(kept, 0)
        for one in (kept, read, write):
            os.close(one)


@pytest.mark.parametrize(
    ("file", "text", "command", "login"),
    [
        (".bashrc", "exit 3", "ended", ""),
        (".bash_profile", "exit 3", "", "ended"),
        (".bashrc", "echo hello", "noise", ""),
        (".bashrc", "echo hello >&2", "", ""),
        (".bashrc", "yes | head -c 1000000", "noise", ""),
        (".bashrc", "yes | head -c 1000000 >&2", "", ""),  # a program that nobody reads from would wait for ever
        (".bashrc", "exec >/dev/null", "silent", ""),
        (".bashrc", "trap 'exit 3' EXIT", "ended", ""),
        (".bash_profile", "case $- in *i*) exit 3;; esac", "", "ended"),  # what it reads for a person at a terminal
        (".bash_profile", "test -t 0 && test -t 1 && test -t 2 && : < /dev/tty || exit 3", "", ""),
        (".bashrc", "kill -9 $$", "ended", ""),
        (".bash_profile", "(setsid sleep 60 &)", "", ""),  # whoever leaves something running is not waited for
        (".bash_profile", "trap '' HUP TERM INT; stty raw", "", ""),
    ],
)
def test_what_the_shell_reads(home: Path, file: str, text: str, command: str, login: str) -> None:
    (home / file).write_text(text + "\n")
    found = trying.command(BASH), trying.login(BASH)
    assert [one["code"] for one in found] == [command, login], found
    if text == "exit 3":
        assert "status 3" in (found[0]["words"], found[1]["words"])


@pytest.mark.parametrize(("file", "ask"), [(".bashrc", trying.command), (".bash_profile", trying.login)])
@pytest.mark.parametrize("stream", [1, 2])
def test_what_the_shell_said_last_is_told(
    home: Path, file: str, ask: Callable[[str], Mapping[str, object]], stream: int
) -> None:
    (home / file).write_text(f"echo the disk is gone >&{stream}; exit 3\n")
    assert ask(BASH)["words"] == "status 3: the disk is gone"


def test_a_shell_that_waits_is_ended(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "SECONDS", 2)
    (home / ".bashrc").write_text("trap '' TERM HUP INT; echo asks you; sleep 61\n")
    begun = time.monotonic()
    outcome = trying.command(BASH)
    assert (outcome["code"], outcome["words"]) == ("late", "asks you")
    assert time.monotonic() - begun < 30
    assert not _running("sleep 61")


def _running(words: str) -> bool:
    return subprocess.run(["pgrep", "-fx", words], check=False, capture_output=True).returncode == 0


def test_what_is_no_shell(home: Path) -> None:
    shell = home / "sh"
    assert trying.command(str(shell))["code"] == "ENOENT"
    shell.write_text("#!/bin/sh\nexit 0\n")
    assert trying.command(str(shell))["code"] == "EACCES"
    shell.chmod(0o755)
    assert trying.command(str(shell))["code"] == "silent"


def test_a_shell_of_no_known_kind_is_given_what_all_of_them_take(home: Path) -> None:
    shell = home / "sh"
    tried = 'test "$1" = -c || exit 9; if test -t 0; then : < /dev/tty || exit 8; fi; exec /bin/sh "$@"'
    shell.write_text(f"#!/bin/sh\n{tried}\n")  # its terminal is the terminal of its session, where it has one
    shell.chmod(0o755)
    assert [one["code"] for one in (trying.command(str(shell)), trying.login(str(shell)))] == ["", ""]


def test_what_a_shell_prints_has_a_bound(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual, sizes = trying._output, []

    def output(*given: Any) -> tuple[bytes, bytes, bool]:
        found = usual(*given)
        sizes.extend(len(one) for one in found[:2])
        return found

    monkeypatch.setattr(trying, "_output", output)
    (home / ".bashrc").write_text("head -c 50000000 /dev/zero\n")
    outcome = trying.command(BASH)
    assert len(json.dumps(outcome)) < 4000
    assert max(sizes) == 2 * trying.MOST


def test_who_goes_on_printing_after_the_shell_is_not_waited_for() -> None:
    """The command was run, and what is left running is never silent."""
    ours, theirs = os.pipe()
    os.write(theirs, b"token")
    flood = subprocess.Popen(["yes"], stdout=theirs)
    child = subprocess.Popen(["true"], start_new_session=True)
    try:
        output, _, late = trying._output(child, ours, None, b"token")
    finally:
        flood.kill()
        flood.wait()
        os.close(ours)
        os.close(theirs)
    assert (output.startswith(b"token"), late) == (True, False)


@contextmanager
def daemon(path: Path, answer: bytes | None) -> Iterator[str]:
    with socket(AF_UNIX, SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                if answer is None:
                    time.sleep(1)  # longer than anybody waits for it
                else:
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield str(path)
        thread.join()


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (b"HTTP/1.0 200 OK\r\n\r\nOK", ""),
        (b"HTTP/1.0 500 no\r\n\r\n", "ended"),
        (b"\x1b[2J" * 99, "ended"),
        (None, "late"),
    ],
)
def test_a_daemon_is_asked(home: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes | None, code: str) -> None:
    monkeypatch.setattr(trying, "DOCKER_SECONDS", 0.3)
    monkeypatch.chdir(home)  # a socket's path is short
    with daemon(Path("s"), answer) as path:
        assert trying.docker(path)["code"] == code
    assert trying.docker("gone")["code"] == "ENOENT"


def test_it_runs_by_itself_and_waits_to_be_told(home: Path) -> None:
    line = [sys.executable, "-I", "-S", trying.__file__]
    asked = json.dumps({"home": str(home), "shell": BASH, "docker": None})
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    done = subprocess.run(line, input=asked + "\n", capture_output=True, text=True, env=environment, check=True)
    outcome = [json.loads(one) for one in done.stdout.splitlines()]
    assert [one["step"] for one in outcome] == ["begun", "home", "tmp", "process", "command", "login", "done"]
    assert {one.get("code", "") for one in outcome} == {""}
    asked = json.dumps({"home": str(home), "shell": BASH, "docker": str(home / "gone")})
    done = subprocess.run(line, input=asked + "\n", capture_output=True, text=True, env=environment, check=True)
    assert json.loads(done.stdout.splitlines()[-2]) == {
        "step": "docker", "code": "ENOENT", "words": f"{home}/gone: No such file or directory",
    }  # fmt: skip
    # what ended is told, though it is killed in the next
    (home / ".bashrc").write_text("kill -9 $PPID\n")
    killed = subprocess.run(line, input=asked + "\n", capture_output=True, text=True, env=environment, check=False)
    outcome = [json.loads(one) for one in killed.stdout.splitlines()]
    assert [one["step"] for one in outcome] == ["begun", "home", "tmp", "process"]
    # nobody tells it anything: nothing is begun
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, env=environment, check=True)
    assert [json.loads(one)["step"] for one in done.stdout.splitlines()] == ["begun", "done"]
