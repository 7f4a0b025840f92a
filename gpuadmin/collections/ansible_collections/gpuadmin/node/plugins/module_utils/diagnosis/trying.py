"""Tries a session from the inside, as the person, and prints the outcome of each step as a line of JSON.

``trial.py`` hands this text to a python3 of its own. It imports nothing of gpuadmin: the person need not be able to
read it. On standard input comes one line, {"home", "shell", "docker"}, and nothing of the person's is started before.
Its output is only the person's word: anybody with this account could say the same.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import pty
import secrets
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SECONDS = 3.0  # for a shell to come to its command
DOCKER_SECONDS = 1.5
MOST = 8192  # bytes of the beginning and of the end of a shell's output that are looked at
ENOUGH = 4096  # bytes that are written: a quota counts blocks
#: Variables that systemd sets for a unit, and that sshd sets for nobody.
NOT_SSHD = (
    "SYSTEMD_EXEC_PID", "INVOCATION_ID", "JOURNAL_STREAM", "MEMORY_PRESSURE_WATCH", "MEMORY_PRESSURE_WRITE",
    "XDG_SESSION_CLASS",
)  # fmt: skip
#: Shells that take -i and -c together, and then read what they read for a person at a terminal, and keep no history.
INTERACTIVE = ("bash", "zsh")
Outcome = Mapping[str, Any]


def outcome(code: str, words: str = "", **more: Any) -> dict[str, Any]:
    """The outcome of a step. ``code``: "" (it went well), the name of an errno, late, ended, silent or noise."""
    return {"code": code, "words": words[:300], **more}


def home(path: str) -> Outcome:
    """Go into the home, as sshd does, and write a file there."""
    try:
        os.chdir(path)
    except OSError as error:
        return outcome(errno.errorcode.get(error.errno or 0, "EIO"), f"{path}: {error.strerror}")
    return written(path)


def written(directory: str) -> Outcome:
    """Write a file in a directory and take it away again."""
    name = os.path.join(directory, f".gpuadmin-{secrets.token_hex(8)}")
    try:
        handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, b"\0" * ENOUGH)
            os.fsync(handle)  # a server says only now that there is no room
        finally:
            os.unlink(name)
            os.close(handle)
    except OSError as error:
        return outcome(errno.errorcode.get(error.errno or 0, "EIO"), f"{directory}: {error.strerror}")
    return outcome("")


def process() -> Outcome:
    """Start a process."""
    try:
        child = os.fork()
    except OSError as error:
        return outcome(errno.errorcode.get(error.errno or 0, "EIO"), str(error.strerror))
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return outcome("")


def command(shell: str) -> Outcome:
    """Start the shell as `ssh HOST COMMAND` does, and with it scp, sftp, rsync and editors: without a terminal."""
    return _shell(shell, [os.path.basename(shell), "-c"], terminal=False)


def login(shell: str) -> Outcome:
    """Start the shell as `ssh HOST` does: as a login, at a terminal."""
    name = os.path.basename(shell)
    return _shell(shell, [f"-{name}", *(["-i"] if name in INTERACTIVE else []), "-c"], terminal=True)


def _shell(shell: str, argv: Sequence[str], *, terminal: bool) -> Outcome:
    token = f"gpuadmin-{secrets.token_hex(8)}"
    environment = {key: value for key, value in os.environ.items() if key not in NOT_SSHD}
    environment |= {"SSH_CLIENT": "127.0.0.1 0 22", "SSH_CONNECTION": "127.0.0.1 0 127.0.0.1 22", "SHELL": shell}
    with contextlib.ExitStack() as stack:
        ours, theirs = pty.openpty() if terminal else os.pipe()
        stack.callback(os.close, ours)
        errors, their_errors = (ours, theirs) if terminal else os.pipe()
        if terminal:
            environment |= {"SSH_TTY": os.ttyname(theirs), "TERM": "xterm"}
        else:
            stack.callback(os.close, errors)

        def take_terminal() -> None:
            os.close(os.open(os.ttyname(0), os.O_RDWR))  # the first that a leader of a session opens is its terminal

        try:
            child = subprocess.Popen(
                [*argv, f"echo {token}"], executable=shell, env=environment, start_new_session=True,
                stdin=theirs if terminal else subprocess.DEVNULL, stdout=theirs, stderr=their_errors,
                preexec_fn=take_terminal if terminal else None,  # noqa: PLW1509  # it has no threads
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError) as error:
            code = errno.errorcode.get(getattr(error, "errno", None) or 0, "ended")
            return outcome(code, f"{shell}: {getattr(error, 'strerror', None) or error}")
        finally:
            os.close(theirs)
            if not terminal:
                os.close(their_errors)
        output, complaints, late = _output(child, ours, None if terminal else errors, token.encode())
    status = child.returncode
    before, found, _after = output.partition(token.encode())
    last = _last(complaints or output)
    if late:
        return outcome("late", _last(output + complaints))
    if not found or status != 0:
        how = f"signal {-status}" if status < 0 else f"status {status}"
        return outcome("ended" if status != 0 else "silent", f"{how}: {last}" if last else how)
    if before.strip() and not terminal:
        return outcome("noise", _last(before))
    return outcome("")


def _output(child: Any, ours: int, errors: int | None, token: bytes) -> tuple[bytes, bytes, bool]:
    """The output of a child until it ends, at most MOST bytes of each stream; its group is killed then."""
    kept = {one: b"" for one in (ours, errors) if one is not None}
    waiting, late = list(kept), True
    end = time.monotonic() + SECONDS
    while late and time.monotonic() < end:
        silent = True
        for one in select.select(waiting, [], [], 0.02)[0]:
            try:
                part = os.read(one, 65536)
            except OSError:  # a terminal that nobody has open any more
                part = b""
            if part:
                # its beginning, and its end: what is asked for may come after a flood
                silent, kept[one] = False, kept[one] + part
                kept[one] = kept[one] if len(kept[one]) <= 2 * MOST else kept[one][:MOST] + kept[one][-MOST:]
            else:
                waiting.remove(one)
        # processes that it left running may hold them open; do not wait for those
        late = child.poll() is None or not (silent or token in kept[ours])
    with contextlib.suppress(OSError):
        # guard: a shell that goes on is ended -> os.kill(child.pid, signal.SIGKILL)
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    return kept[ours], kept[errors] if errors is not None else b"", late


def _last(output: bytes) -> str:
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines()]
    return next((line for line in reversed(lines) if line), "")[:200]


def docker(path: str) -> Outcome:
    """Ask a daemon through its socket whether it is there (Docker's API: /_ping)."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
            channel.settimeout(DOCKER_SECONDS)
            channel.connect(path)
            channel.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            answer = channel.recv(4096)
    except socket.timeout:
        return outcome("late", f"no answer in {DOCKER_SECONDS:g} s")
    except OSError as error:
        return outcome(errno.errorcode.get(error.errno or 0, "EIO"), f"{path}: {error.strerror}")
    return outcome("") if answer.split(b" ")[1:2] == [b"200"] else outcome("ended", answer[:60].decode("latin-1"))


def steps(asked: Mapping[str, Any]) -> Iterator[tuple[str, Outcome]]:
    """Try all steps in this order, and yield the outcome of each as it ends."""
    yield "home", home(asked["home"])
    yield "tmp", written("/tmp")
    yield "process", process()
    yield "command", command(asked["shell"])
    yield "login", login(asked["shell"])
    if asked.get("docker"):
        yield "docker", docker(asked["docker"])


def main() -> None:
    report = os.fdopen(os.dup(1), "w", encoding="ascii")  # nothing that starts has it
    print(json.dumps({"step": "begun"}), file=report, flush=True)
    asked = json.loads(sys.stdin.readline() or "{}")
    # guard: nothing of a person's is begun before root says so -> steps(asked or {'home': '/', 'shell': '/bin/sh'})
    for name, found in steps(asked) if asked else ():
        print(json.dumps({"step": name, **found}), file=report, flush=True)
    print(json.dumps({"step": "done"}), file=report, flush=True)


if __name__ == "__main__":
    main()
