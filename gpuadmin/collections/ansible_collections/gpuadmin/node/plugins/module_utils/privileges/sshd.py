"""sshd's settings in effect, and the keys that make somebody root."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from ..bounded import read_small, short
from ..diagnosis.keys import key as parsed
from ..errors import NodeError
from ..people import acting_as
from ..sshd_settings import DIRECTORY, MAIN, ask_sshd, expand_pattern, key_patterns
from ..textdb import Table, number
from .accounts import table
from .place import Found, Place

#: What decides who gets in, and when somebody does not: sshd_config(5). Ciphers and the like differ by version.
KEYWORDS = frozenset(
    """
    allowusers denyusers allowgroups denygroups permitrootlogin passwordauthentication pubkeyauthentication
    kbdinteractiveauthentication hostbasedauthentication gssapiauthentication authenticationmethods usepam
    permitemptypasswords permituserenvironment authorizedkeysfile authorizedkeyscommand authorizedkeyscommanduser
    authorizedprincipalsfile authorizedprincipalscommand trustedusercakeys forcecommand chrootdirectory permittty
    strictmodes maxauthtries maxsessions maxstartups logingracetime clientaliveinterval clientalivecountmax usedns
    refuseconnection tcpkeepalive
    """.split()  # noqa: SIM905  a list of thirty quoted words hides what is in it
)
#: What releases call the same thing.
_SAME = {("permitrootlogin", "without-password"): "prohibit-password", ("tcpkeepalive", "true"): "yes"}
MOST_KEYS = 50
MOST_MATCHES = 20
#: A line of root's authorized_keys that gpuadmin wrote: who holds the key may hand over backups, and nothing else.
# guard: a key of root's that only looks like ours is not overlooked -> re.compile(".*serve-backups .+")
_OURS = re.compile(
    r'restrict(,from="[^"]*")?,command="[\w./-]+ -I [\w./-]+/lib/gpuadmin_node/cli\.py serve-backups [\w./ -]+" '
)


def effective(place: Place) -> dict[str, list[str]]:
    """Keyword → its values, of those that matter here; `match`: the conditions under which others hold. Raises
    NodeError."""
    return {**known(ask_sshd()), "match": matches(place)}


def known(settings: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Of sshd's settings those that matter here, as all releases call them."""
    return {
        keyword: [short(_SAME.get((keyword, value), value)) for value in values]
        for keyword, values in settings.items()
        # what closes idle shells, where it is set: sshd before 9.2 cannot say that it is not
        if keyword in KEYWORDS or (keyword == "channeltimeout" and [*values] != ["none"])
    }


def keys(place: Place, patterns: Sequence[str] | None = None) -> tuple[list[Found], dict[str, list[str]]]:
    """Keys of root's that gpuadmin did not write, and of admins' that the site does not declare; and by account the
    fingerprints of the admin's, for comparison.
    """
    if patterns is None:
        patterns = key_patterns(ask_sshd())
    passwd = table(place, "passwd")
    found: list[Found] = []
    for path, line in _lines(place, passwd, "root", patterns, found):
        if not _OURS.match(line):
            key = parsed(line)
            what = key["fingerprint"] or "a line that is not a key"
            found.append(Found(f"{what} in {path}", f"logs in as root: {_comment(line)}"))
    for name, declared in place.keys.items():
        for path, line in _lines(place, passwd, name, patterns, found):
            words = line.split()
            # guard: a key that an admin has and the site does not is named
            if not any(" ".join(pair) in declared for pair in zip(words, words[1:])):
                what = parsed(line)["fingerprint"] or "a line that is not a key"
                found.append(Found(f"{what} in {path}", f"logs in as {name}, who may be root: {_comment(line)}"))
    admins = [parsed(line)["fingerprint"] for _, line in _lines(place, passwd, place.admin, patterns, found)]
    return found, {place.admin: sorted({one for one in admins if one})[:MOST_KEYS]}


def _lines(
    place: Place, passwd: Table, account: str, patterns: Sequence[str], found: list[Found]
) -> list[tuple[str, str]]:
    entry = passwd.get(account) or [""] * 7
    uid, gid, home = number(entry[2]), number(entry[3]), entry[5]
    if uid is None or gid is None or not home:  # the C library has no such account either: nobody logs in as it
        return []
    lines = []
    for pattern in patterns:
        path = expand_pattern(pattern, account, uid, home)
        try:
            text = _as_sshd(place, path, uid, gid).decode("utf-8", "replace")
        except FileNotFoundError:
            continue
        except (OSError, NodeError) as error:
            why = getattr(error, "strerror", None) or error  # the path is said before
            found.append(Found(path, f"decides who is {account}, and was not read: {why}"))
            continue
        lines += [(path, line.strip()) for line in text.splitlines() if line.strip() and line.strip()[0] != "#"]
    return lines


def _as_sshd(place: Place, path: str, uid: int, gid: int) -> bytes:
    """What sshd reads, which does so as the person: from a home on the storage host root may get nothing."""
    root = os.open(place.root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        with acting_as(uid, gid):  # guard: an admin's keys are read as that admin -> acting_as(0)
            return read_small(path.lstrip("/"), root)
    finally:
        os.close(root)


def _comment(line: str) -> str:
    """What a key is called: what comes after its base64."""
    return re.sub(r"\A.*?\s[A-Za-z0-9+/]{40,}={0,3}\s*", "", line) or "without a name"


def matches(place: Place) -> list[str]:
    """The Match lines of sshd's files: what follows one is in effect for some people or addresses alone."""
    directory = place.path(DIRECTORY)
    names = sorted(os.listdir(directory)) if os.path.isdir(directory) else []
    files = [MAIN, *(f"{DIRECTORY}/{name}" for name in names if name.endswith(".conf"))]
    found = []
    for path in files:
        try:
            text = read_small(place.path(path)).decode("utf-8", "replace")
        except OSError:
            continue
        found += [short(line.strip()) for line in text.splitlines() if re.match(r"\s*match\s", line, re.IGNORECASE)]
    return found[:MOST_MATCHES]
