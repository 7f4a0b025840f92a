"""What gpuadmin-me finds of somebody."""

from __future__ import annotations

FOUND = {
    "expires": "2027-02-28",
    "home": {
        "path": "/home/minji", "used": 5 * 10**9, "whole": False, "free": 10**12, "bytes": 4 * 10**12, "amount": None,
    },
    "docker": None,
    "gpus": {
        "gpus": [
            {"index": 0, "name": "H100", "holders": ["minji", "others"]},
            {"index": 1, "name": "H100", "holders": ["others"]},
            {"index": 2, "name": "H100", "holders": []},
        ]
    },
}  # fmt: skip
