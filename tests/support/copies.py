"""Second copies as a host reports them, for tests of `gpuadmin promote`."""

from __future__ import annotations

from typing import Any

END = "2026-12-31T00:00:00Z"
FIRST, SECOND, THIRD = (f"2026122{day}T010203Z-daily" for day in (1, 2, 3))


def home(uid: int, verified: bool = True) -> dict[str, Any]:
    when = "2026-12-24T01:02:03Z" if verified else None
    return {"uid": uid, "files": 2, "bytes": 3000, "checksum": "c", "verified": when, "inode": 1}


def backup(name: str, **homes: dict[str, Any]) -> dict[str, Any]:
    created = f"{name[:4]}-{name[4:6]}-{name[6:8]}T01:02:03Z"
    return {"name": name, "created": created, "homes": homes, "problems": {}, "copies": {}}


COPIES = [
    backup(SECOND, minji=home(20000, verified=False), _slurm=home(64030), **{"minji.restored-x": home(20000)}),
    backup(FIRST, minji=home(20000), jiho=home(20001), seo=home(20009), junho=home(20007)),
]
PEOPLE = {"minji": 20000, "jiho": 20001, "seo": 20002, "yuna": 20003}
