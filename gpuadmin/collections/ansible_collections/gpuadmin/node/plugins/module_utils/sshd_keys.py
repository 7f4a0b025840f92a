"""gpuadmin's file of sshd's settings: the site's keys, then where sshd looks without it; tried before it holds.

The host's own list of files is what sshd has without our file, so it is the same before and after our file is there.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from gpuadmin.common.causes.account import judge_account
from gpuadmin.common.records.diagnosis import RegisteredPerson as Person

from .diagnosis import pam_account
from .diagnosis.account import account
from .diagnosis.keys import read_key_file
from .diagnosis.subject import Subject
from .each import Failed, each
from .errors import NodeError, in_words
from .files import read_bytes
from .paths import STATE
from .privileges.place import Place
from .privileges.sshd import matches
from .run import Runner, look
from .sshd_settings import DIRECTORY, MAIN, ask_sshd, expand_pattern, key_patterns, reads_directory, redirect_includes
from .textdb import Table, decode, encode

FILE = f"{DIRECTORY}/10-gpuadmin.conf"
SITE = f"{STATE}/keys/%u"
SECONDS, AT_ONCE = 5.0, 8  # that PAM may take for one person, and how many are asked at once
MOST = 10  # names of one obstacle
_TEXT = """\
# Managed by gpuadmin. The keys of the site's registry are on this host, so a login does not have to wait for a home
# whose server is away before it is known whose key it is. What follows them is where sshd looks without this file.
AuthorizedKeysFile {files}
# An account that has expired or is locked must not let anybody in by key either; PAM's account stage sees to that.
UsePAM yes
"""


def plan_text(root: str = "/", run: Runner = look, settings: Sequence[tuple[str, str]] = ()) -> str:
    """Given a host and further settings of sshd's, return what our file has to say there.

    Raises NodeError where it would not hold, and where somebody who can log in could not any more, with their names.
    """
    if not reads_directory(_below(root, MAIN)):
        raise NodeError(
            f"{MAIN} of this host does not include {DIRECTORY}/*.conf. Put the line 'Include {DIRECTORY}/*.conf' at its"
            " beginning, as the distributions do"
        )
    with _copied(root, None) as bare:
        without = ask_sshd("-f", bare, run=run)
    own, strict = key_patterns(without), without.get("permitrootlogin") in (["no"], ["forced-commands-only"])
    # guard: where root logs in with less than a key, that stays -> settings
    settings = [one for one in settings if one != ("PermitRootLogin", "without-password") or not strict]
    wanted = own if SITE in own else [SITE, *own]
    text = _TEXT.format(files=" ".join(wanted)) + "".join(f"{one} {value}\n" for one, value in settings)
    with _copied(root, text) as tried:
        try:
            then = ask_sshd("-f", tried, run=run)
        except NodeError as error:  # a Match above the line that includes the directory
            raise NodeError(f"{error} (tried with gpuadmin's file; Include comes before any Match)") from None
        _check_effective(root, then, wanted)
        for keyword, value in settings:
            if then.get(keyword.lower()) != [value]:  # guard: a setting that sshd would not take is not taken for set
                raise NodeError(f"{_where(root, keyword)} sets {keyword} before gpuadmin's file sets it to {value}")
        present = read_bytes(_below(root, FILE))
        if present != text.encode():
            with _copied(root, None if present is None else decode(present)) as now:
                lost = find_lost(root, now, tried, run)
            if lost:  # guard: who can log in is not shut out by sshd's settings of gpuadmin's
                raise NodeError(_name_lost(lost))
    return text


@contextmanager
def _copied(root: str, ours: str | None) -> Iterator[str]:
    """The path of a copy of sshd's settings in which our file has the text ``ours``; None: there is none."""
    with tempfile.TemporaryDirectory(prefix="gpuadmin-sshd-") as copy:
        directory = os.path.join(copy, "d")
        os.mkdir(directory)
        texts = {path: decode(read_bytes(_below(root, path)) or b"") for path in _files(root) if path != FILE}
        for path, text in {**texts, **({} if ours is None else {FILE: ours})}.items():
            above = copy if path == MAIN else directory
            with open(os.path.join(above, os.path.basename(path)), "wb") as stream:
                stream.write(encode(redirect_includes(text, directory)[0]))
        main = os.path.join(copy, os.path.basename(MAIN))
        try:
            yield main
        except NodeError as error:  # sshd names the files that it was given
            raise NodeError(str(error).replace(directory, DIRECTORY).replace(main, MAIN)) from None


def _below(root: str, path: str) -> str:
    return os.path.join(root, path.lstrip("/"))


def _files(root: str) -> list[str]:
    """sshd's files, in the order in which it reads those of the directory."""
    directory = _below(root, DIRECTORY)
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    return [MAIN, *(f"{DIRECTORY}/{name}" for name in names if os.path.isfile(os.path.join(directory, name)))]


def _check_effective(root: str, settings: Mapping[str, Sequence[str]], wanted: Sequence[str]) -> None:
    """Raises NodeError where another file speaks before ours: sshd takes the first value that it finds."""
    found = key_patterns(settings)
    if found != list(wanted):  # guard: keys that sshd would not read are not taken for read
        raise NodeError(
            f"sshd does not read people's keys of users.yml: {_where(root, 'AuthorizedKeysFile')} says"
            f" AuthorizedKeysFile {' '.join(found) or 'none'} before gpuadmin's file. Put {SITE} first in that line"
        )
    if settings.get("usepam") != ["yes"]:  # guard: an account that has ended gets in by no key
        raise NodeError(
            f"a locked or expired account would get in by its key: {_where(root, 'UsePAM')} says UsePAM no before"
            " gpuadmin's file. Write UsePAM yes there"
        )


def _where(root: str, keyword: str) -> str:
    """The files other than ours that set a keyword."""
    line = re.compile(rf"(?im)^[ \t]*{keyword}[ \t=]")
    return ", ".join(
        path for path in _files(root) if path != FILE and line.search(decode(read_bytes(_below(root, path)) or b""))
    ) or "a file that they include"  # fmt: skip


def find_lost(root: str, now: str, then: str, run: Runner) -> dict[str, str]:
    """Who can log in by the settings in the file ``now`` and could not by those in ``then``: name → why."""
    names = [
        fields[0]
        for fields in Table.parse("passwd", decode(read_bytes(_below(root, "etc/passwd")) or b"")).entries()
        if not fields[6].endswith(("/nologin", "/false"))
    ]
    everybody = None if matches(Place(root=root)) else (ask_sshd("-f", now, run=run), ask_sshd("-f", then, run=run))
    lost: dict[str, str] = {}
    asked: list[str] = []
    closed: dict[str, list[str]] = {}
    for name in names:
        whose = ("-C", f"user={name},host=localhost,addr=127.0.0.1")
        before, after = everybody or (ask_sshd("-f", now, *whose, run=run), ask_sshd("-f", then, *whose, run=run))
        gone = [one for one in key_patterns(before) if one not in key_patterns(after)]
        if gone:
            lost[name] = f"sshd would not read keys from {', '.join(gone)} any more"
        elif before.get("usepam") != ["yes"] and after.get("usepam") == ["yes"]:
            asked.append(name)
        if _takes_passwords(before, name) and not _takes_passwords(after, name):
            closed[name] = key_patterns(after)
    if closed:  # guard: who has a password alone is not shut out
        lost.update(_refused(partial(_ask_keys, root, closed), list(closed), "the look for their keys does not end"))
    return {**lost, **_refused(partial(_ask_pam, root), asked, "PAM does not answer")}


def _refused(ask: Callable[[str], str | None], names: Sequence[str], silent: str) -> dict[str, str]:
    """Whom of these something would keep out that sshd lets in now, and why."""
    found = {}
    for name, result in each(ask, names, AT_ONCE, SECONDS, grace=0):
        why = f"{silent}: {result.why}" if isinstance(result, Failed) else result
        if why is not None:
            found[name] = why
    return found


def _takes_passwords(settings: Mapping[str, Sequence[str]], name: str) -> bool:
    root = name != "root" or settings.get("permitrootlogin") == ["yes"]
    return root and ["yes"] in (settings.get("passwordauthentication"), settings.get("kbdinteractiveauthentication"))


def _ask_keys(root: str, patterns: Mapping[str, Sequence[str]], name: str) -> str | None:
    subject = Subject(name=name, root=root)
    facts: dict[str, Any] = {"node": True, "account": {**account(subject), "nologin": None}}  # that passes
    shadow = Table.parse("shadow", decode(read_bytes(_below(root, "etc/shadow")) or b"")).get(name)
    if shadow is None or shadow[1][:1] in ("", "!", "*") or any(judge_account(facts, Person(name))):
        return None  # no password lets them in
    passwd = facts["account"]["passwd"]
    files = [expand_pattern(one, name, passwd["uid"], passwd["home"]) for one in patterns[name]]
    return None if any(read_key_file(subject, one)["keys"] for one in files) else "has a password and no key"


def _ask_pam(root: str, name: str) -> str | None:
    facts = {"node": True, "account": account(Subject(name=name, root=root))}
    if any(judge_account(facts, Person(name))):
        return None  # locked, ended, without a shell: sshd lets them in without PAM neither
    try:
        answer = pam_account.verdict(name)
    except OSError as error:
        raise NodeError(in_words(error)) from None
    return f"PAM: {answer['words']}" if answer["refused"] else None


def _name_lost(lost: Mapping[str, str]) -> str:
    reasons: dict[str, list[str]] = {}
    for name, why in sorted(lost.items()):
        reasons.setdefault(why, []).append(name)
    words = "; ".join(f"{_listed(names)} ({why})" for why, names in reasons.items())
    return (
        f"sshd's settings of gpuadmin's would shut out who can log in now: {words}."
        " Correct that first (a key; chage -M -1 NAME where a password has aged; /etc/security/access.conf), or"
        " lock them: gpuadmin lock-user NAME"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST]) + (f" and {len(names) - MOST} more" if len(names) > MOST else "")
