"""How ssh connects to a site's hosts, and the connections that stay open between runs."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from gpuadmin.config.load import Site
from gpuadmin.errors import ConfigError, GpuadminError
from gpuadmin.reading import expanded, read_limited

_PLAIN = re.compile(r"[\w%/.,:=@+~-]+")
_OWN = Path("~/.ssh/known_hosts")
_OLD = 86400.0  # seconds; no run takes that long
_SHORT = Path("/tmp")
#: Bytes that a socket's path may have on macOS (Linux: 107), and how many of them come after our own directory: the
#: name of a site and a connection, and what ssh adds to it while it opens one.
_LONGEST, _BELOW = 103, len("/12345678-12345678/1234567890.1234567890123456")
#: Options of every ssh that uses an open connection, or leaves its own open for the next one.
SHARED = ("-C", "-o", "ControlMaster=auto", "-o", "ControlPersist=300s")
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def require_ssh() -> str:
    """Return the path of this machine's ssh. Raises GpuadminError if it has none."""
    found = shutil.which("ssh", path=SYSTEM_PATH)
    if found is None:
        raise GpuadminError(
            "this machine has no ssh",
            hint="Debian, Ubuntu: apt install openssh-client; Fedora: dnf install openssh-clients; Arch: openssh",
        )
    return found


def options(known_hosts: Path) -> tuple[str, ...]:
    """Given a site's known_hosts, return the options of every ssh to its hosts: keys are checked, and it gives up."""
    files = " ".join(file_word(path) for path in (known_hosts, expanded(_OWN)))
    named = (
        "StrictHostKeyChecking=yes",  # guard: host keys are checked -> 'StrictHostKeyChecking=no'
        "ConnectTimeout=20",
        "ServerAliveInterval=15",
        "ServerAliveCountMax=4",
        f"UserKnownHostsFile={files}",
    )
    return tuple(word for option in named for word in ("-o", option))


def command_line(site: Site, name: str, arguments: Sequence[str]) -> list[str]:
    """Return the ssh that reaches a host as a run of a playbook does. Raises ConfigError for an unknown host."""
    (host,) = site.inventory.named([name])
    login = site.inventory.login(host, site.settings)
    line = ["ssh", *options(site.known_hosts), *login.arguments, "-p", str(login.port)]
    if login.key is not None:
        line += ["-o", f"IdentityFile={quoted(login.key)}"]  # as Ansible does; -i would look for "%%"
    if login.user:
        line += ["-l", login.user]
    return [*line, login.address, *arguments]


def file_word(path: Path) -> str:
    """Given a file's path, return it for an option of ssh that names files, such as UserKnownHostsFile.

    ssh_config(5): ssh splits them at blanks, reads quotes, and takes `%` for the beginning of a token.
    """
    return quoted(literal(str(path)))


def literal(path: str) -> str:
    """Given a path, return it without what ssh would take for a token."""
    return path.replace("%", "%%")  # guard: a site below a path with a percent sign is reached -> path


def quoted(word: str) -> str:
    """Given the value of an option of ssh, return it as one word."""
    return word if _PLAIN.fullmatch(word) else '"' + word.replace("\\", r"\\").replace('"', r"\"") + '"'


def directory(known_hosts: Path, keys: Iterable[Path]) -> Path:
    """Where ssh keeps its sockets for a site: a directory of our own, with a short path, since a socket's is limited.

    `keys`: the private keys that are logged in with. One directory for each site and what it trusts: a connection that
    was opened when other host keys were known, or by another key, must not serve it; it is asked to end.
    """
    ours, site = _ours(), _site(known_hosts)
    current = (
        ours
        /
        # guard: a connection that other keys opened serves no site -> f"{site}-{_trusted(known_hosts, ())}"
        f"{site}-{_trusted(known_hosts, keys)}"
    )
    current.mkdir(mode=0o700, exist_ok=True)
    os.utime(current)  # guard: connections of a run that begins keep their directory
    for other in ours.glob(f"{site}-*"):
        if other != current:
            _close(other, at_once=False)
            with suppress(OSError):  # one that another run still uses is younger, or not empty
                if time.time() - other.stat().st_mtime > _OLD:
                    other.rmdir()
    return current


def shared(known_hosts: Path, keys: Iterable[Path], login: str) -> tuple[str, ...]:
    """Options with which an ssh uses the connection of that `login` (any text that tells it from others) which an
    earlier one has left open, or leaves its own. `known_hosts`, `keys`: as `directory` has them."""
    # guard: a connection serves nobody who would log in otherwise -> "all"
    name = hashlib.sha256(login.encode("utf-8", "surrogateescape")).hexdigest()[:10]
    return (*SHARED, "-o", f"ControlPath={file_word(directory(known_hosts, keys) / name)}")


def close(known_hosts: Path, *, at_once: bool = False) -> None:
    """Ask a site's idle ssh connections to end now, and those that another run uses to end after it.

    `at_once`: end those now, too: the other side is gone, and they would only notice after a minute.
    """
    for control in _ours().glob(f"{_site(known_hosts)}-*"):
        _close(control, at_once=at_once)


def _ours() -> Path:
    name = f"gpuadmin-{os.getuid()}"
    ours = Path(os.environ.get("XDG_RUNTIME_DIR") or _SHORT) / name
    # Ansible follows links; one in place of ours is refused below
    length = len(os.fsencode(ours.parent.resolve() / name)) + _BELOW
    if (
        length > _LONGEST  # guard: the sockets of connections have short paths -> False
        or replaceable(ours)
    ):
        ours = _SHORT / name
    try:
        ours.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:  # somebody's file has that name, or the directory above is missing
        raise GpuadminError(f"{ours}: {error.strerror}", hint="delete it, or set XDG_RUNTIME_DIR") from None
    status = ours.lstat()
    # guard: sockets of connections are ours alone
    if status.st_uid != os.getuid() or status.st_mode & 0o077 or ours.is_symlink():
        raise GpuadminError(
            f"{ours}: belongs to somebody else or is open to others",
            hint="delete it, or set XDG_RUNTIME_DIR",
        )
    if replaceable(ours):
        raise GpuadminError(
            f"{ours.parent}: others can replace what is in it, and {name} with it",
            hint=f"chmod 1777 {ours.parent}, as every system has it, or set XDG_RUNTIME_DIR to a directory of yours",
        )
    return ours


def replaceable(path: Path) -> bool:
    """Whether others can put another file in its place: they own the directory above it, or may write to it."""
    try:
        above = path.parent.stat()
    except OSError:
        return False  # nothing can be made there, either
    writable = above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX
    # guard: nobody can put other sockets in the place of ours -> False
    return above.st_uid not in (0, os.getuid()) or bool(writable)


def _site(known_hosts: Path) -> str:
    return hashlib.sha256(os.fsencode(known_hosts.absolute())).hexdigest()[:8]


def _trusted(known_hosts: Path, keys: Iterable[Path]) -> str:
    """A digest of the known host keys, and of the private keys' paths and attributes: only ssh reads those files."""
    total = hashlib.sha256()
    for path in (known_hosts, expanded(_OWN)):
        try:
            # guard: a connection that was opened when other host keys were known does not serve a site
            total.update(hashlib.sha256(read_limited(path)).digest())
        except (OSError, ConfigError):  # ssh ignores it as well
            total.update(b"none")
    for key in sorted(keys):
        about: tuple[int, ...] = ()
        try:
            facts = key.stat()
            about = facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_mode, facts.st_uid
        except OSError:
            pass  # there is none
        total.update(repr((str(key), about)).encode("utf-8", "surrogateescape"))
    return total.hexdigest()[:8]


def _close(control: Path, *, at_once: bool) -> None:
    try:
        there = list(control.iterdir())
    except FileNotFoundError:
        return  # another run has just deleted it
    for socket in there:
        if socket.is_socket():
            with suppress(subprocess.TimeoutExpired):  # one that does not listen ends by itself after five minutes
                subprocess.run(
                    [
                        "ssh",
                        "-o",
                        f"ControlPath={socket}",
                        "-O",
                        "exit"
                        if at_once
                        # guard: a connection that another run uses is not cut
                        else "stop",
                        "gpuadmin",
                    ],
                    check=False,
                    capture_output=True,
                    timeout=10,
                )
