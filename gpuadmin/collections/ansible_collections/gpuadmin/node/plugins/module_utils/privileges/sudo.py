"""Whom sudo, doas and polkit let become root: every rule with its file, without those whom the site makes root.

sudoers(5) is read as lines: cvtsudoers(1) puts all files into one document and says of no rule which file it is from.
What a rule allows is not judged; the line itself is shown.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..bounded import read_small
from ..errors import NodeError, in_words
from ..run import look
from .packages import owned
from .place import DIFFERS, Found, Place

#: sudo-rs, Ubuntu's sudo since 26.04, takes the second one instead where there is one.
SUDOERS = ("/etc/sudoers", "/etc/sudoers-rs")
DOAS = ("/etc/doas.conf", "/usr/local/etc/doas.conf")
POLKIT = ("/etc/polkit-1/rules.d", "/etc/polkit-1/localauthority", "/usr/local/share/polkit-1/rules.d")
MOST_FILES = 200
#: Groups whose members are reported one by one (accounts.py).
OF_GROUPS = frozenset(("%sudo", "%wheel", "%admin"))
_INCLUDE = re.compile(r"[@#]include(dir)?\s+(.+)\Z")
_ALIAS = re.compile(r"(User|Runas|Host|Cmnd|Cmd)_Alias\s")
#: Defaults that let somebody act without a password.
_OPEN = re.compile(r"!\s*authenticate\b|\bexempt_group\b")


@dataclass
class _Rules:
    """``lines``: (file, line) of what is neither an alias nor an include; ``problems``: files that were not read."""

    lines: list[tuple[str, str]] = field(default_factory=list)
    aliases: dict[str, list[str]] = field(default_factory=dict)
    problems: list[Found] = field(default_factory=list)
    files: int = 0


def sudo(place: Place) -> list[Found]:
    """sudo's rules for everybody whom the site does not declare as root."""
    # guard: an alias of the rules of another sudo hides nobody
    return list(dict.fromkeys(found for path in SUDOERS for found in _find_rules(place, path)))


def _find_rules(place: Place, first: str) -> list[Found]:
    rules = _Rules()
    _read(place, first, rules)
    found = list(rules.problems)
    for path, line in rules.lines:
        if line.startswith("Defaults"):
            if _OPEN.search(line):
                found.append(Found(f"sudo without a password in {path}", line))
            continue
        people = [one for user in parse_sudo_users(line) for one in _expanded(user, rules.aliases)]
        known = OF_GROUPS | place.expected | {"#0"}
        # guard: a rule of sudo's for somebody else is not overlooked -> not set(people) & known
        if not set(people) <= known:
            found.append(Found(f"sudo for {', '.join(people)} in {path}", line))
    return found


def sudo_accepts(place: Place) -> list[Found]:
    """Whether sudo accepts its own rules: if not, nobody becomes root by it, not even the admin."""
    found = []
    for path in filter(lambda one: os.path.exists(place.path(one)), SUDOERS):
        try:
            done = look(("visudo", "-c", "-q", "-f", place.path(path)))
        except OSError:
            return []  # no sudo here
        words = (done.stderr or done.stdout).strip().splitlines()
        if done.returncode:
            found.append(Found(path, f"sudo refuses it: {words[0] if words else ''}", DIFFERS))
    return found


def others(place: Place) -> list[Found]:
    """Rules of doas and polkit that did not come with a package."""
    found = []
    for path in DOAS:
        try:
            text = read_small(place.path(path)).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        lines = [line for line in logical_lines(text) if line.startswith("permit")]
        found += [Found(f"doas in {path}", line) for line in lines]
    rules = [
        place.name(os.path.join(directory, name))
        for top in POLKIT
        for directory, _, names in os.walk(place.path(top))
        for name in names
        if name.endswith((".rules", ".pkla"))
    ]
    known = owned(place, rules[:MOST_FILES])
    found += [Found(path, "is a polkit rule that came with no package") for path in rules if path not in known]
    return found


def logical_lines(text: str) -> Iterator[str]:
    """Lines without comments, as one where a backslash joins them. A ``#`` before digits is a uid and no comment."""
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        plain = line.strip()
        if plain.startswith("#") and not _INCLUDE.match(plain) and not re.match(r"#-?\d", plain):
            continue
        plain = re.sub(r"\s#(?!-?\d|include).*\Z", "", plain).strip()
        if plain:
            yield plain


def parse_sudo_users(line: str) -> list[str]:
    """The users of a rule ``USERS HOSTS = …``: names, %groups, #uids, aliases, ALL; with ``!`` where they are none."""
    plain = re.sub(r"\s*,\s*", ",", line)
    first = re.match(r'(?:"[^"]*"|\\.|[^\s"\\])+', plain)
    return [one.strip('"').replace("\\", "") for one in (first.group(0) if first else plain).split(",")]


def _expanded(user: str, aliases: dict[str, list[str]], depth: int = 8) -> list[str]:
    if user not in aliases or not depth:
        return [user]
    return [one for name in aliases[user] for one in _expanded(name, aliases, depth - 1)]


def _read(place: Place, path: str, rules: _Rules) -> None:
    rules.files += 1
    if rules.files > MOST_FILES:
        if rules.files == MOST_FILES + 1:
            rules.problems.append(Found(path, f"and what comes after it is not read: more than {MOST_FILES} files"))
        return
    try:
        text = read_small(os.path.realpath(place.path(path)) if place.root == "/" else place.path(path))
    except (OSError, NodeError) as error:
        if not isinstance(error, FileNotFoundError):
            rules.problems.append(Found(path, f"is included by sudo and was not read: {in_words(error)}"))
        return
    for line in logical_lines(text.decode("utf-8", "replace")):
        include = _INCLUDE.match(line)
        if include:
            inner = include.group(2).strip('"').replace("\\ ", " ").replace("%h", os.uname().nodename.split(".")[0])
            inner = os.path.normpath(os.path.join(os.path.dirname(path), inner))
            for name in _of_directory(place, inner) if include.group(1) else [inner]:
                _read(place, name, rules)  # guard: a file that sudo includes from elsewhere is read
        elif _ALIAS.match(line):
            _aliases(line, rules)
        else:
            rules.lines.append((path, line))


def _of_directory(place: Place, path: str) -> list[str]:
    """What sudo reads of a directory: in the order of names, without those that have a dot or end with ``~``."""
    try:
        names = sorted(os.listdir(place.path(path)))
    except OSError:
        return []
    return [os.path.join(path, name) for name in names if "." not in name and not name.endswith("~")]


def _aliases(line: str, rules: _Rules) -> None:
    kind, _, rest = line.partition("_Alias")
    if kind != "User":
        return
    for one in re.split(r"\s:\s|:(?=\s*[A-Z][A-Z0-9_]*\s*=)", rest):
        name, equals, members = one.partition("=")
        if equals:
            rules.aliases[name.strip()] = [member.strip() for member in members.split(",") if member.strip()]
