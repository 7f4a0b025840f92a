"""The causes that hosts found, on the controller: their remedies filled in, those of all hosts in one order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from gpuadmin.common.causes.cause import Cause
from gpuadmin.common.causes.judge import CAUSES

_PLACE = {code: place for place, code in enumerate(CAUSES)}


def read_cause(host: str, found: Mapping[str, Any], storage: str, export: str) -> Cause:
    """Given a cause that a host reported, return it. `storage` serves the homes from the directory `export`."""
    code = str(found["code"]) if found["code"] in CAUSES else "unknown"
    remedy = str(found["remedy"]).replace("STORAGE", storage).replace("EXPORT", export)
    evidence = tuple(f"{host}: {line}" for line in found.get("evidence", ()))
    return Cause(code, str(found["cause"]), remedy, evidence, (host,))


def weigh_cause(cause: Cause) -> str:
    """Return how bad a cause is: one of SEVERITIES."""
    return CAUSES[cause.code].severity


def as_document(cause: Cause) -> dict[str, Any]:
    """The cause as `--json` has it."""
    return {**cause.document(), "severity": weigh_cause(cause), "remedy": cause.todo, "hosts": list(cause.hosts)}


def order_causes(found: Iterable[Cause]) -> list[Cause]:
    """Order causes, the most decisive first; one that several hosts found names them all."""
    merged: dict[tuple[str, str], Cause] = {}
    for one in found:
        known = merged.setdefault((one.code, one.cause), one)
        if known is not one:
            hosts = (*known.hosts, *(host for host in one.hosts if host not in known.hosts))
            evidence = (*known.evidence, *one.evidence)
            merged[one.code, one.cause] = replace(known, hosts=hosts, evidence=evidence)
    # a cause of all hosts is more likely the one than a cause of one host
    return sorted(merged.values(), key=lambda one: (_PLACE[one.code], -len(one.hosts)))
