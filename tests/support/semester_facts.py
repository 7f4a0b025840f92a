"""Facts, people and settings for the decision of a reset."""

from __future__ import annotations

from typing import Any

from gpuadmin.config.schema import Registry, Settings
from gpuadmin.semester.facts import Facts

AT = "2026-12-31T12:00:00+00:00"

BACKUP = "20261231T120000Z-reset-2026-2"


def settings(*protected: str, source: str = "registry") -> Settings:
    return Settings.model_validate(
        {"name": "test", "term": {"name": "2026-2", "deadline": "2026-12-31"}, "protected": list(protected),
         "accounts": {"source": source}}
    )  # fmt: skip


def registry(*users: dict[str, Any], retired: tuple[dict[str, Any], ...] = ()) -> Registry:
    return Registry.model_validate({"users": list(users), "retired": list(retired)})


def home(uid: int, kind: str = "directory", problem: str | None = None, of: str | None = None) -> dict[str, Any]:
    return {"kind": kind, "uid": uid, "problem": problem, "of": of}


def facts(homes: dict[str, Any] | None, scratch: dict[str, list[dict[str, Any]]] | None = None, **more: Any) -> Facts:
    hosts: dict[str, Any] = {"storage1": None}
    if homes is not None:
        hosts["storage1"] = {"at": AT, "homes": homes, "backups": [], "processes": {}, **more}
    for node, items in (scratch or {}).items():
        hosts[node] = {"at": AT, "scratch": {"items": items}, "processes": {}}
    return Facts(hosts, {name: "timed out" for name, reported in hosts.items() if reported is None}, AT)


MINJI = {"name": "minji", "uid": 20001}
