"""What one host says and another host gets: parsed here, and rebuilt from its parts.

docs/security.md lists every such flow.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Mapping

from ansible_collections.gpuadmin.node.plugins.module_utils.fields import CONTROL, quoted, valid_name

_KIND = "ssh-ed25519"
#: How such a key begins (RFC 8709, 4): the length of its type's name, the name, and the length of the key, 32 bytes.
_HEAD = b"\0\0\0\x0bssh-ed25519\0\0\0\x20"
# guard: one host's key is one key, before another host has it -> re.compile(_KIND + r" (?P<key>\S{68})(?s:.*)")
_LINE = re.compile(rf"{_KIND} (?P<key>[A-Za-z0-9+/]{{68}})(?: [^\n]*)?\n?\Z")
_LONGEST_REASON = 300


def ssh_key(text: str) -> str:
    """Given a host's public key file, return its one key as `ssh-ed25519 AAAA…`, without what else is in the file.

    Raises ValueError for anything but one line with one such key: a second line would be a second key, and what is
    before the type would be options.
    """
    found = _LINE.match(text)
    try:
        blob = b"" if found is None else base64.b64decode(found["key"], validate=True)
    except binascii.Error:
        blob = b""
    if not blob.startswith(_HEAD):
        raise ValueError(f"{quoted(text)[:60]} is not one public key of type {_KIND}")
    return f"{_KIND} {base64.b64encode(blob).decode()}"  # guard: one host's key is made again from its parts -> text


def refusals(answers: Iterable[object]) -> list[dict[str, str]]:
    """Given what storage hosts said of homes, return the people to whom they refuse a home, and why.

    An invalid answer refuses nobody, nor does a host that is away: that is the host's own failure.
    """
    found: dict[str, str] = {}
    for answer in answers:
        report = answer.get("report") if isinstance(answer, Mapping) else None
        refused = report.get("refused") if isinstance(report, Mapping) else None
        for name, why in refused.items() if isinstance(refused, Mapping) else ():
            if (
                valid_name(name) and isinstance(why, str)  # guard: whom a storage host refuses is a login name
            ):
                found[name] = CONTROL.sub("?", why)[:_LONGEST_REASON]
    return [{"name": name, "reason": why} for name, why in found.items()]
