"""What adoption.json keeps of a host, so that a twin can have it, too: no hash, no key, nothing of GECOS."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from gpuadmin.common.records.adoption import KeptAccount
from gpuadmin.takeover.adoption.seen import Host

_WHOM = re.compile(r"sudo for (.+) in /")


def _numbers(lines: Iterable[str]) -> list[int]:
    """The numbers of public keys, whatever is written behind them: the same on all hosts, at each look. What a host
    calls a key and is none has no number.
    """
    keys = [words[1] for line in lines if len(words := line.split()) > 1]
    return sorted(int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") for key in keys)


def kept(host: Host) -> dict[str, Any]:
    """What a twin needs of a host's answer: Kept."""
    accounts, directory, keys = host.part("accounts"), host.part("directory"), host.part("keys")
    services, sudo, sshd, root = (host.part(name) for name in ("services", "sudo", "sshd", "root"))
    system = host.part("system")
    return {
        "accounts": None
        if accounts is None
        else [{field.name: one[field.name] for field in fields(KeptAccount)} for one in accounts],
        "groups": host.part("groups"),
        "subids": host.part("subids"),
        "sources": None if directory is None else directory["sources"],
        "homes": host.part("homes"),
        "keys": None
        if keys is None
        else {
            name: {
                "plain": _numbers(one["plain"]),
                "options": [option["names"] for option in one["options"]],
                "odd": one["odd"],
            }
            for name, one in keys.items()
        },
        "active": None if services is None else services["active"],
        "sudo": None if sudo is None else [who for one in sudo for who in _whom(one["key"])],
        "include": None if sshd is None else sshd["include"],
        "images": None if root is None else not root["problems"],
        "suite": None if system is None else system["codename"],
    }


def _whom(key: str) -> list[str]:
    match = _WHOM.match(key)
    return [one[:100] for one in match.group(1).split(", ")] if match else []
