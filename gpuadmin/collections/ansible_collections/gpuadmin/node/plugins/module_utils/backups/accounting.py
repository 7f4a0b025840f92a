"""The database of Slurm's accounting in a backup: a home of its own in the set, which holds a dump and nothing else.

So it is compared, copied, kept and deleted as homes are. No person can have its name. All that reads or
writes the database for it runs as the user slurm, by the database's socket; what a dump says is never root's words.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import IO

from gpuadmin.common.records.people import Home
from gpuadmin.common.text import size_words

from .. import btrfs
from ..errors import NodeError, in_words
from ..files import flocked
from ..paths import RUN
from ..run import run
from .backup_set import Backup
from .copy_stream import copy_stream, reserve_of

NAME = "_slurm"  # as a home in a set
WORDS = "the queue's accounting"
DATABASE, TRIAL = "slurm_acct_db", "slurm_acct_trial"
FILE = "slurm_acct_db.sql.gz"
LOCK = f"{RUN}/slurm-accounting.lock"  # held while a database is loaded
SECONDS = 6 * 3600  # for one dump, or for loading one

_SLURM = ("timeout", "--kill-after=10", str(SECONDS), "setpriv", "--reuid=slurm", "--regid=slurm", "--clear-groups")


def dump_command(database: str) -> tuple[str, ...]:
    """The same tables give the same bytes. Functions are not in it: slurmdbd makes them when it starts."""
    return (
        *_SLURM, "mariadb-dump", "--no-defaults", "--user=slurm", "--single-transaction", "--order-by-primary",
        "--skip-comments", "--no-tablespaces", "--skip-lock-tables", "--default-character-set=utf8mb4",
        database,
    )  # fmt: skip


def load_command(database: str) -> tuple[str, ...]:
    return (*_SLURM, "mariadb", "--no-defaults", "--user=slurm", "--default-character-set=utf8mb4", database)


def ask(statement: str) -> str:
    """As root, by the socket; a row a line, its values apart by tabs."""
    return run(
        ("mariadb", "--no-defaults", "--batch", "--skip-column-names", f"--execute={statement}"), seconds=SECONDS
    )


def databases() -> set[str]:
    return set(ask("SHOW DATABASES").split())


def added(backup: Backup) -> Backup:
    """A set whose snapshots are made, with a dump, or with what is wrong in its problems."""
    nested = os.path.join(backup.path, "nested")
    used = {where for home in backup.homes.values() for where in home.nested.values()}
    btrfs.delete([os.path.join(nested, one) for one in btrfs.listing(nested) if f"nested/{one}" not in used])  # cut off
    where = f"nested/{1 + max((int(one) for one in btrfs.listing(nested)), default=-1)}"
    place = os.path.join(backup.path, where)
    try:
        btrfs.create(place)
        os.chmod(place, 0o700)
        dump(os.path.join(place, FILE))
        volume = btrfs.subvolume(place)
        home = Home(os.geteuid(), 0, 0, "", None, os.lstat(place).st_ino, volume.uuid if volume else "", 0, {"": where})
        return replace(backup, homes=dict(sorted({**backup.homes, NAME: home}.items())))
    # guard: where the accounting cannot be saved, homes are
    except (NodeError, OSError) as error:
        btrfs.delete([place] if btrfs.inspect(place) is not None else [])
        return replace(backup, problems={**backup.problems, NAME: f"({WORDS}): {in_words(error)}"})


def dump(path: str) -> None:
    """Write a dump to ``path``, on disk when this returns. Raises NodeError, also for one that was cut short."""
    with ExitStack() as stack:
        file = stack.enter_context(open(path, "xb", buffering=0))
        said = stack.enter_context(tempfile.TemporaryFile())
        dumper = stack.enter_context(_piped(dump_command(DATABASE), said))
        packer = stack.enter_context(_piped(("gzip", "-1nc"), said, dumper.stdout))
        _close(dumper.stdout)
        assert packer.stdout is not None
        try:
            copy_stream(packer.stdout.fileno(), file.fileno(), os.path.dirname(path))
        finally:
            packer.stdout.close()
        os.fsync(file.fileno())
        # guard: a dump that was cut short is none
        if (dumper.wait(), packer.wait()) != (0, 0):
            raise NodeError(f"mariadb-dump: {_words(said) or f'ended with {dumper.returncode}'}")


@dataclass(frozen=True)
class Read:
    """What a dump says: how long it is when unpacked, and its SHA-256."""

    bytes: int
    checksum: str


def unpacked(path: str) -> Read:
    with gzip.open(path, "rb") as stream:
        return _read(stream)


def _read(stream: IO[bytes] | gzip.GzipFile) -> Read:
    size, found = 0, hashlib.sha256()
    while block := stream.read(1 << 20):
        size += len(block)
        found.update(block)
    return Read(size, found.hexdigest())


def problem(path: str) -> str | None:
    """Why a dump cannot be restored here, by restoring it to a database that nobody uses; None: it can.

    Where this host has no such database (it keeps second copies), nothing is tried.
    """
    if shutil.which("mariadb") is None or DATABASE not in databases():
        return None
    try:
        with flocked(LOCK, SECONDS):
            try:
                load(path)
            finally:
                drop_trial()
    except EOFError:
        return "the dump is cut short"
    except (NodeError, OSError) as error:
        return in_words(error)
    return None


def load(path: str) -> None:
    """Load a dump into a new database, TRIAL, and compare it with the dump. The lock is held. Raises NodeError."""
    wanted = unpacked(path)
    where = ask("SELECT @@datadir").strip()
    space = os.statvfs(where)
    free = space.f_bavail * space.f_frsize
    # guard: a database that is tried leaves room to the one that runs
    if free < 3 * wanted.bytes + reserve_of(where):
        raise NodeError(f"{where} has no room to restore {size_words(wanted.bytes)}: {size_words(free)} are free")
    drop_trial()
    ask(f"CREATE DATABASE {TRIAL}; GRANT ALL ON {TRIAL}.* TO slurm@localhost")
    with ExitStack() as stack:
        said = stack.enter_context(tempfile.TemporaryFile())
        unpacker = stack.enter_context(_piped(("gzip", "-dc", "--", path), said))
        loader = stack.enter_context(_piped(load_command(TRIAL), said, unpacker.stdout))
        _close(unpacker.stdout)
        if (loader.wait(), unpacker.wait()) != (0, 0):
            raise NodeError(f"mariadb: {_words(said)}")
        dumper = stack.enter_context(_piped(dump_command(TRIAL), said))
        assert dumper.stdout is not None
        found = _read(dumper.stdout)
        # guard: a dump is what it is restored to -> False
        if dumper.wait() != 0 or found != wanted:
            raise NodeError("what was restored is not what was saved")


def drop_trial() -> None:
    ask(f"DROP DATABASE IF EXISTS {TRIAL}")


def _piped(command: Sequence[str], said: IO[bytes], source: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
    given = subprocess.DEVNULL if source is None else source
    return subprocess.Popen(tuple(command), stdin=given, stdout=subprocess.PIPE, stderr=said)


def _close(stream: IO[bytes] | None) -> None:
    """Whoever reads it has it; a writer hears when that one ends."""
    if stream is not None:
        stream.close()


def _words(said: IO[bytes]) -> str:
    said.seek(0)
    lines = said.read(1 << 16).decode("utf-8", "replace").splitlines()
    return lines[-1] if lines else ""
