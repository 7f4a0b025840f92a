"""The account of a person on a host: as NSS has it, as shadow has it, and as gpuadmin wants it here."""

from __future__ import annotations

import os
import pwd
import re
import time
from contextlib import nullcontext
from typing import Any

from ..accounts import desired as desired_accounts
from ..bounded import read_small, short
from ..errors import NodeError
from ..lookup import group_names
from ..people import acting_as
from ..run import Runner, run_command
from ..sshd_settings import ask_sshd, expand_pattern, key_patterns
from ..textdb import Table, decode, number
from ..unit import logged
from . import keys
from .subject import Subject

NOLOGIN = ("etc/nologin", "run/nologin")
#: Settings in the answer of `sshd -T` that decide who may log in.
ASKED = ("allowusers", "denyusers", "allowgroups", "denygroups", "pubkeyauthentication", "authorizedkeysfile",
         "authorizedkeyscommand", "usepam")  # fmt: skip
SSHD_LINES = 200
KEPT_LINES = 8
SINCE = "-3days"
#: Words before a name where sshd or PAM speaks. A client's own words (its name, its version, why it leaves) are in
#: sshd's lines, too: anybody on the network writes `user minji not allowed because …` there.
_SPEAKS = (
    r"(?:error: |fatal: )?(?:User |Access denied for user |(?:Accepted|Failed|Postponed) [\w/-]+ for "
    r"|maximum authentication attempts exceeded for "
    r"|(?:Disconnected from|Disconnecting|Connection (?:closed|reset) by) (?:authenticating )?user "
    r"|pam_\w+\(sshd:\w+\): (?:(?!user |for |account )[\w:]+ )*(?:for )?(?:user|for|account) '?"
    r"|Authentication refused: [\w ]+ (?:/[\w.@-]+)*/)"
)


def account(subject: Subject) -> dict[str, Any]:
    """The account of the person who is asked about. ``passwd`` None: this host does not know the name.

    ``shadow`` None: it has no line there (a directory), or may not be read by who asks.
    """
    name = subject.name or ""
    found: dict[str, Any] = {"passwd": None, "today": int(time.time() // 86400), "nologin": nologin(subject)}
    entry = find_entry(subject, name)
    if entry is not None:
        shell = subject.path(entry.pw_shell)
        found["passwd"] = {
            "uid": entry.pw_uid,
            "gid": entry.pw_gid,
            "home": short(entry.pw_dir),
            "shell": short(entry.pw_shell),
            "shell_runs": os.path.isfile(shell) and os.access(shell, os.X_OK),
            "shell_lets_in": not entry.pw_shell.endswith(("/nologin", "/false")),
        }
    found["others"] = _others(subject, name)
    found["shadow"] = None if subject.own else _shadow(subject, name)
    found["wanted"] = None if subject.own else _wanted(subject, name)
    found["groups"] = group_names(entry.pw_name, entry.pw_gid) if entry is not None and subject.root == "/" else []
    return found


def find_entry(subject: Subject, name: str) -> pwd.struct_passwd | None:
    """The entry in passwd that this host has for a name; None: the host does not know it."""
    if subject.root == "/":
        try:
            return pwd.getpwnam(name)
        except KeyError:
            return None
    fields = Table.parse("passwd", _text(subject, "etc/passwd")).get(name)
    return None if fields is None else pwd.struct_passwd((fields[0], "x", int(fields[2]), int(fields[3]), *fields[4:7]))


def _text(subject: Subject, name: str) -> str:
    return decode(read_small(subject.path(name), most=64 << 20))  # root's own; thousands of people fit


def _shadow(subject: Subject, name: str) -> dict[str, Any] | None:
    fields = Table.parse("shadow", _text(subject, "etc/shadow")).get(name)
    if fields is None:
        return None
    return {"locked": fields[1].startswith("!"), "expires": number(fields[7])}


def _others(subject: Subject, name: str) -> list[str]:
    """Other accounts that have the uid which the site gives this person."""
    if subject.uid is None:
        return []
    rows = Table.parse("passwd", _text(subject, "etc/passwd")).entries()
    return [fields[0] for fields in rows if number(fields[2]) == subject.uid and fields[0] != name][:5]


def _wanted(subject: Subject, name: str) -> dict[str, Any] | None:
    """The account that gpuadmin was last told to make here; None: none of that name."""
    found = desired_accounts.load(subject.path(subject.state)).records.get(name)
    if found is None:
        return None
    user = found.user
    return {"uid": user.uid, "locked": user.locked, "expires": user.expires, "docker": user.docker}


def nologin(subject: Subject) -> dict[str, str] | None:
    """The file that keeps everybody but root out (pam_nologin(8)), and its own words; None: there is none."""
    for name in NOLOGIN:
        try:
            words = short(read_small(subject.path(name), most=4096).decode("utf-8", "replace"))
        except FileNotFoundError:
            continue
        except (OSError, NodeError) as error:
            words = short(error)
        return {"file": f"/{name}", "words": words or "(without a reason)"}
    return None


def sshd_keys(subject: Subject) -> dict[str, Any]:
    """The keys that gpuadmin wrote here, and what sshd's settings say of this person."""
    name = subject.name or ""
    found = ask_settings(name) if subject.root == "/" else {}
    site, entry = keys.read_site_keys(subject, name), find_entry(subject, name)
    patterns = key_patterns({"authorizedkeysfile": [found.get("authorizedkeysfile", "")]})
    paths = [] if entry is None else [expand_pattern(one, name, entry.pw_uid, entry.pw_dir) for one in patterns]
    with acting_as(entry.pw_uid, entry.pw_gid) if entry is not None else nullcontext():
        others = [path for path in paths if path != site["path"] and not _inside(path, entry)]
        elsewhere = [keys.read_key_file(subject, path) for path in others]
    return {"site": {**site, "read": not found or site["path"] in paths}, "elsewhere": elsewhere, "settings": found}


def _inside(path: str, entry: pwd.struct_passwd | None) -> bool:
    return entry is not None and path.startswith(os.path.join(entry.pw_dir, ""))


def home_key_files(subject: Subject) -> list[str]:
    """Files of keys in a person's home, as paths below it. Sshd's usual ones where sshd cannot be asked."""
    if subject.own or subject.root != "/":
        return list(keys.USUAL)
    name = subject.name or ""
    found = key_patterns(ask_sshd("-C", f"user={name},host=localhost,addr=127.0.0.1"))
    inside = [os.path.relpath(expand_pattern(one, name, 0, "/~"), "/~") for one in found]
    return [one for one in inside if not one.startswith("..")]


def ask_settings(name: str, run: Runner = run_command) -> dict[str, str]:
    """The settings of sshd's that decide whether this person gets in, as sshd would apply them."""
    found = ask_sshd("-C", f"user={name},host=localhost,addr=127.0.0.1", run=run)
    return {key: short(" ".join(values)) for key, values in found.items() if key in ASKED}


def sshd_words(subject: Subject) -> dict[str, Any]:
    """The lines that sshd last wrote of this person. Only root's own processes count: anybody may write in its name."""
    name = subject.name or ""
    return {"lines": pick_lines(name, logged(("_UID=0", "SYSLOG_IDENTIFIER=sshd", "SYSLOG_IDENTIFIER=sshd-session"),
                                        SSHD_LINES, since=SINCE))}  # fmt: skip


def pick_lines(name: str, text: str) -> list[str]:
    """The last lines in which sshd or PAM names a person, and those of strict modes about their home.

    A line in which the client names them does not count.
    """
    wanted = re.compile(rf"\S+ \S+ [\w-]+(?:\[\d+\])?: {_SPEAKS}{re.escape(name)}(?![\w-])", re.IGNORECASE)
    return [
        short(line)
        for line in text.splitlines()
        if wanted.match(line)  # guard: what a client says in sshd's lines is nobody's -> name in line
    ][-KEPT_LINES:]
