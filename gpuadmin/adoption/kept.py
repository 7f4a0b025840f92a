"""What adoption.json keeps of a host, so that a twin can have it, too: no hash, no key, nothing of GECOS."""

from __future__ import annotations

import hashlib
import re
from typing import Annotated, Any, NotRequired

from pydantic import Field
from typing_extensions import TypedDict  # pydantic wants this one before Python 3.12

from gpuadmin.adoption.seen import Host
from gpuadmin.ansible.shapes import adoption as shapes

_WHOM = re.compile(r"sudo for (.+) in /")


class KeptAccount(TypedDict):
    name: shapes.Name
    uid: shapes.Id | None
    gid: shapes.Id | None
    home: shapes.Line
    shell: shapes.Name
    password: str | None
    expires: shapes.Id | None


class KeptKeys(TypedDict):
    """`plain`: the number of each key, by which one that several people have is told; `options`: of one key each."""

    plain: Annotated[list[shapes.Id], Field(max_length=50)]
    options: Annotated[list[shapes.Names], Field(max_length=50)]
    odd: shapes.Id


class Kept(TypedDict):
    """A part that adopt could not look at is None. `sudo`: who has a rule of it; `images`: whether the root fits;
    `suite`: its release, by its code name."""

    accounts: Annotated[list[KeptAccount], Field(max_length=5000)] | None
    groups: Annotated[list[shapes.Group], Field(max_length=5000)] | None
    subids: shapes.Subids | None
    sources: shapes.Names | None
    homes: Annotated[list[shapes.Homes], Field(max_length=20)] | None
    keys: Annotated[dict[shapes.Name, KeptKeys], Field(max_length=5000)] | None
    active: shapes.Names | None
    sudo: shapes.Names | None
    include: bool | None
    images: bool | None
    suite: NotRequired[shapes.Name | None]


def _number(line: str) -> int:
    """The number of a public key, whatever is written behind it: the same on all hosts, at each look."""
    return int.from_bytes(hashlib.sha256(line.split()[1].encode()).digest()[:4], "big")


def kept(host: Host) -> dict[str, Any]:
    """What a twin needs of a host's answer: Kept."""
    accounts, directory, keys = host.part("accounts"), host.part("directory"), host.part("keys")
    services, sudo, sshd, root = (host.part(name) for name in ("services", "sudo", "sshd", "root"))
    system = host.part("system")
    return {
        "accounts": None
        if accounts is None
        else [{name: one[name] for name in KeptAccount.__annotations__} for one in accounts],
        "groups": host.part("groups"),
        "subids": host.part("subids"),
        "sources": None if directory is None else directory["sources"],
        "homes": host.part("homes"),
        "keys": None
        if keys is None
        else {
            name: {
                "plain": sorted(_number(line) for line in one["plain"]),
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
