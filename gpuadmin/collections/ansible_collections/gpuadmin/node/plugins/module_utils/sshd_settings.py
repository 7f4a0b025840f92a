"""sshd's settings in effect, as `sshd -T` prints them, and where it looks for somebody's keys."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence

from .errors import NodeError
from .fields import CONTROL
from .run import Runner, look

PROGRAM = "/usr/sbin/sshd"
MAIN, DIRECTORY = "/etc/ssh/sshd_config", "/etc/ssh/sshd_config.d"
#: A line that includes files (sshd_config(5)), and the directory's name in it: a relative one is below /etc/ssh.
_INCLUDE = re.compile(r"(?im)^[ \t]*include[ \t=].*$")
_NAMED = re.compile(r"(?<![\w./-])(?:/etc/ssh/)?sshd_config\.d/")


def printed(text: str) -> Iterator[tuple[str, str]]:
    """Each keyword with its value. In lower case: OpenSSH 10.6 has keywords as its manual does, older ones do not."""
    for line in text.splitlines():
        keyword, _, value = line.partition(" ")
        yield keyword.lower(), value


def ask_sshd(*options: str, run: Runner = look) -> dict[str, list[str]]:
    """Keyword → its values, in effect. ``options``: sshd's, beside -T. Raises NodeError with sshd's own words."""
    done = run((PROGRAM, "-T", *options))
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        lines = [one for one in lines if "terminating, " not in one] or lines  # it counts those that say why
        words = CONTROL.sub("?", " ".join(lines[-1:]))[:300]
        raise NodeError(f"sshd does not accept its own settings: {words or f'status {done.returncode}'}")
    found: dict[str, list[str]] = {}
    for keyword, value in printed(done.stdout):
        found.setdefault(keyword, []).append(value)
    return found


def key_patterns(settings: Mapping[str, Sequence[str]]) -> list[str]:
    """The files that sshd reads keys from, as AuthorizedKeysFile names them; empty: it reads none."""
    return [one for one in " ".join(settings.get("authorizedkeysfile", ())).split() if one != "none"]


def expand_pattern(pattern: str, name: str, uid: int, home: str) -> str:
    """Given a pattern of AuthorizedKeysFile, return the path of somebody's file (sshd_config(5), TOKENS)."""
    tokens = {"%%": "%", "%u": name, "%U": str(uid), "%h": home}
    return os.path.join(home, re.sub(r"%.", lambda match: tokens.get(match[0], match[0]), pattern))


def redirect_includes(text: str, directory: str) -> tuple[str, int]:
    """Given one of sshd's files, return it with another directory in place of sshd_config.d, and in how many lines."""
    lines = [line for line in _INCLUDE.findall(text) if _NAMED.search(line)]
    return _INCLUDE.sub(lambda line: _NAMED.sub(lambda _: f"{directory}/", line[0]), text), len(lines)


def reads_directory(path: str = MAIN) -> bool:
    """Whether sshd reads the directory that gpuadmin writes to."""
    try:
        with open(path, encoding="utf-8", errors="replace") as stream:
            return redirect_includes(stream.read(), "")[1] > 0
    except OSError:
        return False
