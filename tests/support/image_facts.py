"""What nodes and the store say of images."""

from __future__ import annotations

from typing import Any

A, B, C = (f"{digit * 8}-0000-0000-0000-000000000000" for digit in "abc")


def entry(name: str, created: int, *parents: str, full: bool = False) -> dict[str, Any]:
    streams = [{"file": f"from-{one}.btrfs.zst", "parent": {"name": one, "uuid": A}} for one in parents]
    streams += [{"file": "full.btrfs.zst", "parent": None}] if full else []
    return {"manifest": {"name": name, "created": created, "streams": streams}, "problem": None}


def pending(root: str, image: str) -> dict[str, str]:
    return {"stage": "pending", "root": root, "image": image}


def node(**changes: Any) -> dict[str, Any]:
    return {
        "running": "a",
        "current": "a",
        "trial": "",
        "image": "a",
        "held": {"a": A},
        "roots": ["a"],
        "confirmed": ["a"],
        "refused": {},
        "last": {},
        "people": [],
        "gpu_work": [],
        "receives": {"bytes": 6_250_000, "parent": "a", "held": False},
        **changes,
    }
