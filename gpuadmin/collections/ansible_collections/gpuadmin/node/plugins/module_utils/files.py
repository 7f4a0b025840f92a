"""Files that are replaced whole or not at all, and the locks that keep two writers apart."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .errors import NodeError
from .holders import describe, name_lock_holder
from .run import run

LOCK_SECONDS = 30.0


def read_bytes(path: str) -> bytes | None:
    """The content of a regular file; None if there is none. A symlink is refused: replacing it would cut it."""
    try:
        # O_NONBLOCK: to open a named pipe would wait for somebody who writes into it
        handle = os.open(
            path,
            os.O_RDONLY
            # guard: no content is read through a link
            | os.O_NOFOLLOW
            | os.O_NONBLOCK
            | os.O_CLOEXEC,
        )
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise NodeError(f"{path} is a symbolic link; gpuadmin does not follow it") from error
        raise
    # guard: what is not a file has no content
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NodeError(f"{path} is not a regular file")
    with os.fdopen(handle, "rb") as stream:
        return stream.read()


def unlink_if_present(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass


def sync_directory(path: str) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _copy_attributes(model: str, handle: int) -> None:
    """Give ``handle`` the owner, mode and extended attributes (SELinux context, ACL) of ``model``."""
    facts = os.lstat(model)
    os.fchown(handle, facts.st_uid, facts.st_gid)
    os.fchmod(handle, stat.S_IMODE(facts.st_mode))
    try:
        names = os.listxattr(model, follow_symlinks=False)
    except OSError:
        return
    for name in names:
        try:
            os.setxattr(handle, name, os.getxattr(model, name, follow_symlinks=False))
        except OSError as error:
            if error.errno not in (errno.ENOTSUP, errno.EPERM, errno.ENODATA):
                raise


def sync_filesystem(path: str) -> None:
    """syncfs(2) of the file system that holds ``path``, by coreutils (Python has no call for it)."""
    # guard: a sync that fails is an error
    run(("sync", "-f", path), what=f"{path} is not known to be on disk")


def write_atomic(
    path: str,
    data: bytes,
    *,
    mode: int,
    owner: tuple[int, int] | None = None,
    model: str | None = None,
    sync: bool = True,
) -> None:
    """Replace ``path`` by ``data``, durably: a cut leaves the old file or the new one.

    ``mode`` and ``owner`` are for a new file; owner, mode and attributes of ``model`` (default: the file that is there)
    win. ``sync=False`` is for many files, whose caller ends with ``sync_filesystem``.
    """
    directory, name = os.path.split(path)
    temporary = os.path.join(directory, f".{name}.gpuadmin-new")
    unlink_if_present(temporary)
    handle = os.open(
        temporary,
        os.O_WRONLY
        | os.O_CREAT
        | (os.O_EXCL | os.O_NOFOLLOW)  # guard: what is written is a new file
        | os.O_CLOEXEC,
        0o600,
    )
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(data)
            stream.flush()
            model = path if model is None else model
            if os.path.lexists(model):
                # guard: what replaces a file has its owner and mode -> os.fchmod(stream.fileno(), mode)
                _copy_attributes(model, stream.fileno())
            else:
                if owner is not None:
                    os.fchown(stream.fileno(), *owner)  # guard: a file has its owner before it has its name
                os.fchmod(stream.fileno(), mode)
            if sync:
                # guard: a file is on the disk before it has its name
                os.fsync(stream.fileno())
        os.rename(temporary, path)
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
    if sync:
        # guard: the name of a file is on the disk
        sync_directory(directory)


def make_directory(path: str, mode: int, uid: int = 0, gid: int = 0, *, sync: bool = True) -> None:
    """Make one directory with exactly this mode and owner, durably. One that exists is left alone."""
    try:
        os.mkdir(
            path,
            # guard: a directory is nobody else's before it has its owner
            0o700,
        )
    except FileExistsError:
        return
    try:
        os.chown(path, uid, gid, follow_symlinks=False)
        os.chmod(path, mode)
    except OSError:
        # btrfs says no (EDQUOT) and shows the new owner all the same until the next mount
        os.rmdir(path)  # guard: a directory without its owner is not left to the next run
        raise
    if sync:
        sync_directory(os.path.dirname(path.rstrip("/")) or "/")


def lock_directory(path: str) -> None:
    """Make a directory for locks, or see that it is ours alone: whoever can open a lock can hold it as well.

    Raises NodeError if it belongs to somebody else.
    """
    try:
        os.makedirs(path, mode=0o700)
        return
    except FileExistsError:
        pass
    facts = os.lstat(path)
    # guard: a directory of locks that is somebody else's is refused
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise NodeError(f"{path} is not root's directory; no lock is kept there")
    if stat.S_IMODE(facts.st_mode) != 0o700:
        # guard: a directory of locks is its owner's alone
        os.chmod(path, 0o700)


def open_lock(path: str) -> int:
    """A descriptor of the lock file ``path``, made if missing. Raises NodeError if it is not ours."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    facts = os.fstat(handle)
    # guard: a lock that is somebody else's is refused
    if not stat.S_ISREG(facts.st_mode) or facts.st_uid != os.geteuid():
        os.close(handle)
        raise NodeError(f"{path} is not root's file; it is not used as a lock")
    if facts.st_mode & 0o077:
        # guard: a lock file is its owner's alone
        os.fchmod(handle, 0o600)
    return handle


@contextmanager
def flocked(path: str, seconds: float = 120.0) -> Iterator[None]:
    """Hold an exclusive flock on ``path`` (made if missing), or name its holder after ``seconds`` (NodeError)."""
    lock_directory(os.path.dirname(path))
    handle = open_lock(path)
    try:
        deadline = time.monotonic() + seconds
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    # guard: who holds a lock is named -> f'{path} has been held for {seconds:.0f} seconds'
                    message = f"{path} has been held for {seconds:.0f} seconds by {name_lock_holder(handle)}"
                    raise NodeError(message) from None
                time.sleep(0.05)  # asked again: flock(2) that waits has no deadline
        yield
    finally:
        os.close(handle)


def _lock_link(path: str, deadline: float) -> None:
    """Make PATH.lock the way shadow-utils' commonio does: a hard link to a file that holds our pid."""
    mine, lock = f"{path}.{os.getpid()}", f"{path}.lock"
    handle = os.open(mine, os.O_CREAT | os.O_TRUNC | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        os.write(handle, b"%d\0" % os.getpid())
        os.close(handle)
        while True:
            try:
                os.link(mine, lock)
                return
            except FileExistsError:
                pass
            try:
                with open(lock, "rb") as stream:
                    pid = int(stream.read(32).rstrip(b"\0\n ") or b"0")
                # guard: a lock of the living is not taken
                if pid > 0:
                    os.kill(pid, 0)
                    holder = str(describe(pid) or f"process {pid}")
                else:
                    raise ValueError
            except FileNotFoundError:
                continue
            except (
                ProcessLookupError,
                # guard: a lock that a power cut left empty holds up nobody
                ValueError,
            ):
                os.unlink(lock)  # stale: its process is gone, or a power cut left it empty
                continue
            except PermissionError:
                holder = "a process"
            if time.monotonic() > deadline:
                raise NodeError(f"{lock} is held by {holder}")
            time.sleep(0.1)  # a file of the shadow tools: nothing tells that it is gone
    finally:
        os.unlink(mine)


@contextmanager
def shadow_lock(root: str, names: tuple[str, ...], seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """Hold what shadow-utils hold: lckpwdf's fcntl lock on etc/.pwd.lock, then etc/NAME.lock for each name."""
    etc = os.path.join(root, "etc")
    deadline = time.monotonic() + seconds
    handle = open_lock(os.path.join(etc, ".pwd.lock"))
    held: list[str] = []
    try:
        while True:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EAGAIN):
                    raise
                if time.monotonic() > deadline:
                    holder = name_lock_holder(handle)  # guard: who holds the account databases is named -> ""
                    message = f"the account databases (/etc/.pwd.lock) are locked by another program: {holder}"
                    raise NodeError(message) from error
                time.sleep(0.1)  # asked again: fcntl(2) that waits has no deadline
        for name in names:
            _lock_link(os.path.join(etc, name), deadline)
            held.append(os.path.join(etc, f"{name}.lock"))
        yield
    finally:
        for path in reversed(held):
            unlink_if_present(path)
        os.close(handle)
