"""Settings that are files: limits, PAM, NSS, cron, sudo's rules, repositories, name servers."""

from __future__ import annotations

import hashlib
import os
import re

from ..bounded import read_small
from ..errors import NodeError, in_words
from ..privileges.sudo import logical_lines
from .place import Place, Settings, files

_CRON = ("/etc/crontab", "/etc/anacrontab", "/etc/cron.d", "/etc/cron.allow", "/etc/cron.deny")
_SCRIPTS = ("hourly", "daily", "weekly", "monthly")
_ROOTS = ("/var/spool/cron/crontabs/root", "/var/spool/cron/root")
_REPOSITORIES = (
    "/etc/apt/sources.list", "/etc/apt/sources.list.d", "/etc/apt/preferences", "/etc/apt/preferences.d",
)  # fmt: skip


def pam(place: Place) -> Settings:
    """pam.d(5): a stack is its lines in their order."""
    return _texts(place, "/etc/pam.d", "/etc/security/access.conf", "/etc/security/pam_env.conf")


def nss(place: Place) -> Settings:
    """nsswitch.conf(5): a database and where it is looked up."""
    found = {}
    for _, lines in files(place, ["/etc/nsswitch.conf"]):
        for line in lines:
            database, _, sources = line.partition(":")
            found[database.strip()] = sources.strip()
    return found


def cron(place: Place) -> Settings:
    """The system's own crontabs and root's, and the scripts of a day, by their content."""
    found = _texts(place, *_CRON, *_ROOTS)
    for often in _SCRIPTS:
        for name in place.names(f"/etc/cron.{often}"):
            if name != ".placeholder":
                found[f"/etc/cron.{often}/{name}"] = _digest(place, f"/etc/cron.{often}/{name}")
    return found


def sudoers(place: Place) -> Settings:
    """sudo's rules, without comments: what is in a file, not what it means."""
    found = {}
    names = place.names("/etc/sudoers.d")
    # sudoers(5): of an included directory, files with a dot or a ~ at the end are left out
    paths = [f"/etc/sudoers.d/{name}" for name in names if "." not in name and not name.endswith("~")]
    for path in ("/etc/sudoers", "/etc/sudoers-rs", *paths):
        try:
            found[path] = "\n".join(re.sub(r"\s+", " ", line) for line in logical_lines(place.text(path)))
        except FileNotFoundError:
            continue
    return found


def repositories(place: Place) -> Settings:
    """Where packages come from."""
    return _texts(place, *_REPOSITORIES)


def dns(place: Place) -> Settings:
    """resolv.conf(5) and hosts(5)."""
    found: Settings = {}
    for _, lines in files(place, ["/etc/resolv.conf"]):
        for line in lines:
            if line[0] != ";":
                keyword, _, value = line.partition(" ")
                found[keyword] = f"{found[keyword]}\n{value}" if keyword in found else value
    for _, lines in files(place, ["/etc/hosts"]):
        for line in lines:
            address, _, names = line.partition("#")[0].strip().partition(" ")
            found[f"/etc/hosts {address}"] = names
    return found


def limits(place: Place) -> Settings:
    """limits.conf(5): `*`, `hard`, `nofile` → its value; and systemd's own defaults for services."""
    found: Settings = {}
    directory = [f"/etc/security/limits.d/{name}" for name in place.names("/etc/security/limits.d")]
    for path, lines in files(
        place, ["/etc/security/limits.conf", *(one for one in directory if one.endswith(".conf"))]
    ):
        for line in lines:
            words = line.split()
            if len(words) == 4:
                found[" ".join(words[:3])] = words[3]  # the last one counts
            else:
                found[f"{path}: {line}"] = "is there"
    for name, value in _manager(place):
        found[f"systemd {name}"] = value
    return found


def _manager(place: Place) -> list[tuple[str, str]]:
    """systemd's default limits (systemd-system.conf(5)), except what it computes from the size of the machine."""
    text = place.output("systemctl", "show", "--no-pager") or ""
    pairs = [line.partition("=")[::2] for line in text.splitlines()]
    computed = ("DefaultLimitNPROC", "DefaultLimitSIGPENDING", "DefaultTasksMax", "DefaultLimitMEMLOCK")
    return [
        (name, value)
        for name, value in pairs
        if name.startswith("Default") and not name.startswith(computed) and "Pressure" not in name
    ]


def _texts(place: Place, *paths: str) -> Settings:
    return {path: "\n".join(lines) for path, lines in files(place, paths)}


def _digest(place: Place, path: str) -> str:
    whole = place.path(path)
    if os.path.islink(whole):
        return f"a link to {os.readlink(whole)}"
    try:
        return f"sha256 {hashlib.sha256(read_small(whole)).hexdigest()[:16]}"
    except (OSError, NodeError) as error:
        return in_words(error)
