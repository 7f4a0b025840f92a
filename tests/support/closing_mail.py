"""The letter at the end of a term, and settings to send it with."""

from __future__ import annotations

from typing import Any

from gpuadmin.common.mail.letter import Letter
from gpuadmin.config.schema import Settings


def settings(at: int, **mail: Any) -> Settings:
    mail = {"host": "127.0.0.1", "port": at, "security": "none", "sender": "gpu@example.org"} | mail
    return Settings.model_validate({"name": "GPU 클러스터", "mail": mail})


def letter(name: str) -> Letter:
    return Letter(
        template="closing",
        address=f"{name}@example.org",
        keys=(f"closing {name} 2026-2",),
        names=(name,),
        summary="2026-2 has ended",
        values={"term": "2026-2", "accounts": [name], "backup_until": None},
    )
