"""What the health checks of a trial look at, in ways that an ordinary person on the node cannot shape.

People may log in, or have lingering units, while a root is being judged: a check that they can fail sends every node
back, and one that they can pass in another's place keeps a root that is broken.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
from collections.abc import Sequence

from gpuadmin.common.records.images import ImageSettings

from ..files import read_bytes
from ..gpus.look import Expected, Verdict, judge, look
from ..run import LateError, run_command
from ..sshd_settings import printed

FULL = (errno.ENOSPC, errno.EDQUOT)
GREETING_SECONDS = 20
#: Units of systemd's that a person starts, or can make fail: their session, their manager, their dumps of memory.
OF_PEOPLE = re.compile(
    r"(user@|user-runtime-dir@|systemd-coredump@|run-user-|user-\d+\.slice|session-)|(home|tmp|local|var-tmp)-.*\.mount"
)


def cannot_write(directory: str) -> str | None:
    """Why ``directory`` cannot be written to, or None. People may write there too.

    The file has no name, or (on a file system that cannot do that) one that nobody can know before. A file system that
    is full can be written to: people fill theirs, and the root before this one was no better off.
    """
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # what is above it is root's
    except OSError as error:
        return f"{directory} cannot be opened: {error.strerror}"
    try:
        file = _unnamed(handle)
        try:
            os.write(file, b"written by a health check\n")
            os.fsync(file)
        finally:
            os.close(file)
    except OSError as error:
        return (
            None
            # guard: a disk that people filled sends no node back
            if error.errno in FULL
            else f"{directory} cannot be written to: {error.strerror}"
        )
    finally:
        os.close(handle)
    return None


def _unnamed(directory: int) -> int:
    """A new file below the descriptor ``directory`` that has no name (any more)."""
    try:
        return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=directory)
    except OSError as error:
        if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            raise
    name = f".gpuadmin-check-{secrets.token_hex(16)}"
    file = os.open(
        name,
        os.O_RDWR
        | os.O_CREAT
        | (os.O_EXCL | os.O_NOFOLLOW)  # guard: a health check does not write to what is there
        | os.O_CLOEXEC,
        0o600,
        dir_fd=directory,
    )
    os.unlink(name, dir_fd=directory)
    return file


def of_people(unit: str) -> bool:
    """Whether a unit is one that a person can make fail: it says nothing about the root."""
    return OF_PEOPLE.match(unit) is not None


def listeners(port: int, tables: Sequence[str] = ("/proc/net/tcp", "/proc/net/tcp6")) -> set[int]:
    """The uids of those who listen on a TCP port (proc(5))."""
    found = set()
    for table in tables:
        for line in (read_bytes(table) or b"").decode("ascii", "replace").splitlines()[1:]:
            columns = line.split()
            if len(columns) > 7 and columns[3] == "0A" and int(columns[1].rpartition(":")[2], 16) == port:
                found.add(int(columns[7]))
    return found


def sshd_problem(program: str = "/usr/sbin/sshd") -> str | None:
    """Why nobody could log in, or None: settings, root's own listener on the port, and the greeting.

    The greeting is asked of a process of the check's own (sshd -i): whoever is on the node can answer on a port that
    sshd has not taken, and can keep sshd from answering us.
    """
    tested = run_command((program, "-t"))
    if tested.returncode != 0:
        lines = (tested.stderr + tested.stdout).strip().splitlines()
        return f"sshd: {lines[-1] if lines else f'status {tested.returncode}'}"
    settings = run_command((program, "-T"))
    ports = [int(value) for keyword, value in printed(settings.stdout) if keyword == "port" and value.isdecimal()]
    port = ports[0] if ports else 22
    uids = listeners(port)
    # guard: the listener on the ssh port is root's -> not uids
    if 0 not in uids:
        other = f", but uid {min(uids)} does" if uids else ""
        return f"root does not listen on the ssh port {port}{other}"
    return None if _greets(program) else "sshd does not greet"


def _greets(program: str) -> bool:
    # It greets first, and ends when its input does.
    try:
        greeting = run_command((program, "-i"), seconds=GREETING_SECONDS).stdout
    except LateError as error:
        greeting = error.output
    return greeting.startswith("SSH-")


def gpu_problem(settings: ImageSettings) -> str | None:
    """Why nobody could compute on this root, or None; where the site wants it, also what is less than expected."""
    found = _gpus(settings)
    wrong = found.broken + (
        found.worse
        # guard: GPUs that are less than expected refuse a trial where the site says so
        if settings.gpus_worse == "refuse"
        else ()
    )
    return "; ".join(wrong) or None


def gpus_worse(settings: ImageSettings) -> str | None:
    """What is less than expected of the GPUs and alone no reason to go back, or None."""
    return "; ".join(_gpus(settings).worse) or None


def _gpus(settings: ImageSettings) -> Verdict:
    return judge(look(), Expected(settings.gpus, settings.gpu_model))
