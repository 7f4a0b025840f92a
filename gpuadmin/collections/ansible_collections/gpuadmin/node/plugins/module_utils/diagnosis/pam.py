"""PAM's rules for people who come by ssh: modules that are missing, and how many processes they allow."""

from __future__ import annotations

import glob
import os
import pwd
import re
from collections.abc import Iterator
from typing import Any

from ..bounded import read_small, short
from ..errors import NodeError
from ..lookup import group_names
from .subject import Subject

SERVICE = "etc/pam.d/sshd"
DEEPEST = 8  # files that include each other
#: Directories in which distributions have modules (pam.conf(5): a name without a slash is looked for there).
PLACES = ("lib/security", "lib64/security", "usr/lib/security", "usr/lib64/security", "lib/*-linux-gnu*/security",
          "usr/lib/*-linux-gnu*/security")  # fmt: skip
LIMITS = ("etc/security/limits.conf", "etc/security/limits.d/*.conf")
_LINE = re.compile(r"(-?)(auth|account|password|session)\s+(\[[^\]]*\]|\S+)\s+(\S+)", re.IGNORECASE)


def pam(subject: Subject) -> dict[str, Any]:
    """``missing``: modules that are not there, by file, line and name. ``processes``: {"file", "line", "most"}: what
    limits.conf(5) lets this person run, or None.
    """
    return {"missing": list_missing_modules(subject), "processes": find_process_limit(subject)}


def list_missing_modules(subject: Subject) -> list[dict[str, Any]]:
    """Missing modules that end a session. The auth rules are left out: a person with a key is asked for no password."""
    places = [place for pattern in PLACES for place in glob.glob(os.path.join(subject.root, pattern))]
    found = []
    for file, number, control, module in _read_rules(subject, SERVICE, DEEPEST):
        if not _is_decisive(control):
            continue
        paths = [subject.path(module)] if module.startswith("/") else [os.path.join(one, module) for one in places]
        if places and not any(os.path.exists(path) for path in paths):
            found.append({"file": f"/{file}", "line": number, "module": short(module, 80)})
    return found[:10]


def _read_rules(subject: Subject, name: str, depth: int) -> Iterator[tuple[str, int, str, str]]:
    for number, line in _read_lines(subject, name):
        words = line.split()
        if words[0] == "@include" and len(words) > 1 and depth:
            yield from _read_rules(subject, os.path.join("etc/pam.d", os.path.basename(words[1])), depth - 1)
            continue
        found = _LINE.match(line)
        if found is None:
            continue
        silent, kind, control, module = found.groups()
        if control in ("include", "substack"):
            if depth:
                yield from _read_rules(subject, os.path.join("etc/pam.d", os.path.basename(module)), depth - 1)
        elif not silent and kind.lower() in ("account", "session"):
            yield name, number, control, module


def _is_decisive(control: str) -> bool:
    """Whether a module that is not there ends the session (pam.conf(5); in brackets each result has its own action)."""
    if not control.startswith("["):
        return control in ("required", "requisite")
    actions = dict(one.split("=", 1) for one in control.strip("[]").split() if "=" in one)
    return actions.get("module_unknown", actions.get("default", "bad")) in ("bad", "die")


def _read_lines(subject: Subject, name: str) -> Iterator[tuple[int, str]]:
    """Lines without comments and empty ones, with their numbers; none of a file that is not there."""
    try:
        text = read_small(subject.path(name)).decode("utf-8", "replace")
    except FileNotFoundError:
        return
    except NodeError:
        return  # authselect's are links: the trial looks at what is behind them
    for number, line in enumerate(text.splitlines(), start=1):
        plain = line.partition("#")[0].strip()
        if plain:
            yield number, plain


def find_process_limit(subject: Subject) -> dict[str, Any] | None:
    """The line that holds for this person: their own before a group's before everybody's, of those the last."""
    name, groups = subject.name or "", _list_groups(subject)
    best: tuple[int, dict[str, Any]] | None = None
    paths = [path for pattern in LIMITS for path in sorted(glob.glob(os.path.join(subject.root, pattern)))]
    for path in paths:
        file = os.path.relpath(path, subject.root)
        for number, line in _read_lines(subject, file):
            words = line.split()
            if len(words) != 4 or words[2] != "nproc":
                continue
            rank = 3 if words[0] == name else 2 if words[0][:1] == "@" and words[0][1:] in groups else words[0] == "*"
            if rank and (best is None or rank >= best[0]):
                best = (rank, {"file": f"/{file}", "line": number,
                               "most": int(words[3]) if words[3].isdecimal() else None})  # fmt: skip
    return best[1] if best is not None and best[1]["most"] is not None else None


def _list_groups(subject: Subject) -> list[str]:
    try:
        entry = pwd.getpwnam(subject.name or "")
    except KeyError:
        return []
    return group_names(entry.pw_name, entry.pw_gid) if subject.root == "/" else []
