"""Whether packaged files are still as their packages brought them, by dpkg."""

from __future__ import annotations

import glob
import os
import re
import time
from collections.abc import Iterable, Sequence

from gpuadmin.common.records.audits import Rank

from ..errors import NodeError
from ..run import Finished, LateError, failure, run_command
from .place import DIFFERS, ROOT, Found, Place

SECONDS = 6.0
#: What is compared first and on every host: what root runs, and what decides who gets in.
FIRST = (
    "openssh-server", "openssh-client", "sudo", "login", "login.defs", "passwd", "uidmap", "util-linux", "mount",
    "coreutils", "bash", "dash", "systemd", "libpam-modules", "libpam-modules-bin", "libpam-runtime",
    "libpam-systemd", "libpam0g", "libc6", "libc-bin", "dbus", "polkitd", "cron", "dpkg", "apt", "python3-minimal",
)  # fmt: skip
#: Directories whose files root runs: what was exchanged there is somebody else's program.
PROGRAMS = re.compile(r"/(usr/)?(s?bin|libexec|lib(32|64)?/(openssh|sudo|systemd|polkit-1|.*/?security|[^/]*\.so))\b")
#: Attributes that `dpkg --verify` prints, as `rpm -V` does, of those that count.
_FLAGS = {"M": "mode", "U": "owner", "G": "group", "S": "content", "5": "content", "L": "link", "P": "capabilities"}
_LINE = re.compile(r"(?P<flags>missing|[^\s/]{8,9}) +(?:(?P<kind>[a-z]) +)?(?P<path>/.*)\Z")
#: Where files are that an image leaves out.
_DOCUMENTS = re.compile(r"/usr/share/(doc|man|info|locale|lintian|bug|doc-base|linda|help|gnome/help)(/|\Z)")


def differing(place: Place, seconds: float = SECONDS) -> tuple[list[Found], list[str]]:
    """Packaged files that are not as their package has them, and what was not compared, in words."""
    if not place.debian:
        return [], ["packaged files: gpuadmin does not know this host's kind of packages"]
    found: dict[str, Found] = {}
    aside = []
    end = time.monotonic() + seconds
    for what, names in (("packages of the base system", _present(place)), ("packages", ())):
        if not names and what != "packages":
            continue
        try:
            text = _ask(names, max(end - time.monotonic(), 0.1))
        except LateError as error:
            text = error.output.rpartition("\n")[0]
            aside.append(f"packaged files: not all {what} could be compared within {seconds:g} s")
        found.update({one.key: one for one in read(text.splitlines())})
    return list(found.values()), aside


def read(lines: Iterable[str]) -> list[Found]:
    """Given what `dpkg --verify` printed, return what differs."""
    found = []
    for line in lines:
        path, what, settings = _flags(line)
        if not what or _DOCUMENTS.match(path):
            continue
        rank: Rank = ROOT if PROGRAMS.match(path) and what != "missing" and not settings else DIFFERS
        words = "is missing; its package has it" if what == "missing" else f"{what}: not as its package installed it"
        found.append(Found(path, words, rank))
    return found


def owned(place: Place, paths: Sequence[str]) -> set[str]:
    """Which of some paths belong to a package, by dpkg's lists of files. Raises NodeError if there are none."""
    if not paths:
        return set()
    # /bin is a link to /usr/bin today, and lists have either
    names = {spelling: path for path in paths for spelling in (path, path[4:] if path.startswith("/usr/") else path)}
    wanted = {os.fsencode(name): path for name, path in names.items()}
    lists = glob.glob(place.path("/var/lib/dpkg/info/*.list"))
    if not lists:
        raise NodeError("dpkg's lists of files are missing")
    found: set[str] = set()
    for one in lists:
        with open(one, "rb") as stream:
            found.update(wanted[name] for name in wanted.keys() & set(stream.read().splitlines()))
    return found


def overridden(place: Place) -> dict[str, int]:
    """dpkg-statoverride(1): path → the mode that the admin gave it."""
    try:
        with open(place.path("/var/lib/dpkg/statoverride"), encoding="utf-8", errors="replace") as stream:
            columns = [line.split(None, 3) for line in stream]
    except FileNotFoundError:
        return {}
    return {one[3].strip(): int(one[2], 8) for one in columns if len(one) == 4 and re.fullmatch("[0-7]+", one[2])}


def _present(place: Place) -> list[str]:
    info = place.path("/var/lib/dpkg/info")
    return [name for name in FIRST if glob.glob(f"{info}/{name}.list") or glob.glob(f"{info}/{name}:*.list")]


def _ask(names: Sequence[str], seconds: float) -> str:
    command = ("dpkg", "--verify", *names)
    done: Finished = run_command(command, seconds=seconds, environment={"LC_ALL": "C"})
    if done.returncode not in (0, 1) and not done.stdout:  # 1: something differs
        raise failure(command, done, "packaged files cannot be compared")
    return done.stdout


def _flags(line: str) -> tuple[str, str, bool]:
    """A line such as ``??5?????? c /etc/x``. Returns path, what differs, settings."""
    match = _LINE.match(line)
    if not match:
        return "", "", False
    path, settings = match["path"], match["kind"] == "c"
    if match["flags"] == "missing":
        return path.partition(" (")[0], "missing", settings
    return path, ", ".join(dict.fromkeys(_FLAGS[flag] for flag in match["flags"] if flag in _FLAGS)), settings
