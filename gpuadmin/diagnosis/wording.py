"""Words that may stay in a text for outsiders: those of gpuadmin's own sentences and of the system.

Whatever else is in it (a login name that no users.yml has, somebody's mount point, a directory, a container) becomes a
placeholder, the same one wherever it stands. So keeping a name out needs no knowledge of it.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from functools import cache

from gpuadmin.content import collections_path

#: Directories in which the sentences of a diagnosis are written, below the node's code and below this package.
_SOURCES, _COMMON = ("diagnosis", "gpus"), "common/causes"
#: Functions that make a text for the person themselves, which no archive has.
_FOR_PEOPLE = ("Text", "tell_admins", "type_command")
#: Directories and file systems that every system has, and what systemd and ssh say of themselves.
_SYSTEM = """
bin boot dev etc home lib lib64 local media mnt opt proc root run sbin scratch srv storage storage1 sys tmp usr var
btrfs ext2 ext3 ext4 xfs zfs nfs nfs4 tmpfs overlay vfat ntfs bash sh zsh fish nologin false true null
systemd service socket slice scope target timer user users sshd failed active inactive activating ubuntu debian fedora
arch nvidia amd intel person somebody mail key address left out gb mb kb tb gib mib kib
cause code severity hosts stops hinders unknown note
"""
_TOKEN = re.compile(r"[^\s:;,()\[\]{}<>\"'/=|@]+")
_PART = re.compile(r"[A-Za-z]+")
# a number, with a unit; digits in hexadecimal, as in uuids and addresses of devices, begin with one of ten
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,%+-]*(?:[kKMGTP]?i?B|ms|s|h|min|d|W|°C)?|0x[0-9a-f]{1,16}")
_SEPARATED = re.compile(r"[-_.+*!?…×°%#&~^\\]+")
_PLACEHOLDER = re.compile(r"(?:NAME[0-9]+|PERSON|SOMEBODY|MAIL|KEY|ADDRESS)")


class Wording:
    """Hides words. `known`: more that may stay, such as the names of hosts."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self._hidden: dict[str, str] = {}

    def hide(self, text: str) -> str:
        """Given a text, return it with a placeholder for each word that is not known to be harmless."""
        return _TOKEN.sub(lambda found: self._hide_word(found[0]), text)

    def _hide_word(self, token: str) -> str:
        if token in self._known or _NUMBER.fullmatch(token) or _PLACEHOLDER.fullmatch(token):
            return token
        parts = [part for part in _SEPARATED.split(token) if part]
        if all(
            part.lower() in vocabulary() or _NUMBER.fullmatch(part) or _PLACEHOLDER.fullmatch(part) for part in parts
        ):
            return token
        # guard: an archive has no word that is neither gpuadmin's nor the system's -> token
        return self._hidden.setdefault(token, f"NAME{len(self._hidden) + 1}")


@cache
def vocabulary() -> frozenset[str]:
    """Return the words that may stay, in lower case."""
    found = set(_SYSTEM.split())
    for text in (*_read_sentences(), *(os.strerror(number) for number in range(1, 134))):
        found.update(word.lower() for word in _PART.findall(text))
    return frozenset(found)


def _read_sentences() -> Iterator[str]:
    """The texts of the code that looks and judges, without docstrings and what only the person is told."""
    top = collections_path() / "ansible_collections/gpuadmin/node/plugins/module_utils"
    places = [*(top / name for name in _SOURCES), collections_path().parent / _COMMON]
    for path in sorted(path for place in places for path in place.glob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        left_out = {id(one.value) for one in ast.walk(tree) if isinstance(one, ast.Expr)}
        for one in ast.walk(tree):
            if isinstance(one, ast.Call) and ast.unparse(one.func) in _FOR_PEOPLE:
                left_out.update(id(inner) for inner in ast.walk(one))
        for one in ast.walk(tree):
            if isinstance(one, ast.Constant) and isinstance(one.value, str) and id(one) not in left_out:
                yield one.value
            elif isinstance(one, ast.AnnAssign) and isinstance(
                one.target, ast.Name
            ):  # a field, which is a key of facts
                yield one.target.id
