"""The database of Slurm's accounting as a file among the homes: ``_slurm/slurm_acct_db.sql.gz``, written by a timer.

So backups have it as they have homes. A directory that is not root's alone gets no dump. The dump is made as the user
slurm, by the database's socket; what a dump says is never root's words.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
import time

from ..errors import NodeError, in_words
from ..fields import quoted
from ..files import flocked, sync_directory, unlink_if_present
from ..paths import RUN
from .backup_set import check_directory
from .copy_stream import Room

NAME = "_slurm"  # as a home in a set
FILE = "slurm_acct_db.sql.gz"
LOCK = f"{RUN}/slurm-dump.lock"
OLD = 24 * 3600  # seconds; the timer makes a dump each six hours
#: As the user slurm. The same tables give the same bytes; functions are not in it: slurmdbd makes them when it starts.
COMMAND = (
    "timeout", "--kill-after=10", str(6 * 3600), "setpriv", "--reuid=slurm", "--regid=slurm", "--clear-groups",
    "mariadb-dump", "--no-defaults", "--user=slurm", "--single-transaction", "--order-by-primary", "--skip-dump-date",
    "--no-tablespaces", "--skip-lock-tables", "--default-character-set=utf8mb4", "slurm_acct_db",
)  # fmt: skip
_END = b"-- Dump completed"  # the last line of a whole dump
_BLOCK = 1 << 20


def main(directory: str) -> int:
    """Make a dump in ``directory``, which is there: a disk that is not mounted gets none. Returns the exit code."""
    try:
        dump(directory)
    except (NodeError, OSError) as error:
        print(f"Error: {in_words(error)}", file=sys.stderr)
        return 1
    return 0


def dump(directory: str) -> None:
    """Put a new dump in the place of the last one. Where it is not whole, raise NodeError and keep the last one."""
    check_directory(directory)  # guard: a dump is made where root alone can enter
    path = os.path.join(directory, FILE)
    with flocked(LOCK):  # guard: one dump is made at a time
        unlink_if_present(f"{path}.new")
        try:
            _write(f"{path}.new")
        except BaseException:
            unlink_if_present(f"{path}.new")
            raise
        os.rename(f"{path}.new", path)
        sync_directory(directory)


def _write(path: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    with open(handle, "wb") as file, tempfile.TemporaryFile() as errors:
        room, end = Room(handle), b""
        dumper = subprocess.Popen(COMMAND, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors)
        assert dumper.stdout is not None
        try:
            with gzip.GzipFile(fileobj=file, filename="", mode="wb", compresslevel=1, mtime=0) as packed:
                while block := dumper.stdout.read(_BLOCK):
                    room.spend(len(block))  # guard: a dump leaves room on its disk
                    packed.write(block)
                    end = (end + block)[-len(_END) - 2 :]
        finally:
            dumper.terminate()  # of no effect on one that has ended
            dumper.stdout.close()
            dumper.wait()
        # guard: a dump that was cut short is none
        if dumper.returncode != 0 or _END not in end:
            errors.seek(0)
            words = errors.read(1 << 16).decode("utf-8", "replace").splitlines()
            raise NodeError(words[-1] if words else f"mariadb-dump did not end its dump (exit {dumper.returncode})")
        file.flush()
        os.fsync(handle)  # guard: a dump is on the disk before it has its name


def problems(root: str) -> dict[str, str]:
    """Given the directory of homes, return what a backup says that it lacks: a dump, or one that is not old."""
    try:
        made = os.lstat(os.path.join(root, NAME, FILE)).st_mtime
    except FileNotFoundError:
        why = "is not there"
    else:
        # guard: a dump that is old is named -> True
        if abs(time.time() - made) < OLD:
            return {}
        why = f"is of {time.strftime('%Y-%m-%d %H:%M', time.gmtime(made))} UTC"
    return {quoted(f"{NAME}/{FILE}"): f"(the queue's accounting) {why}: systemctl status gpuadmin-slurm-dump.service"}
