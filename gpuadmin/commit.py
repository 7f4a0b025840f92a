"""The commit that a gpuadmin was made from."""

from __future__ import annotations

import subprocess
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def read_commit() -> str:
    """Return the commit and its day, such as `c6ef156b 2026-11-29`; nothing if unknown.

    Packages and archives have it in commit.txt (hatch_build.py, .gitattributes); a checkout has what git says now, with
    `-dirty` where something was changed since.
    """
    kept = (_HERE / "commit.txt").read_text(encoding="utf-8").strip()
    if not kept.startswith("$Format"):
        return kept
    if not (_HERE.parent / ".git").exists():
        return ""
    hash_, day = (_run_git("describe", "--always", "--dirty", "--exclude=*"), _run_git("log", "-1", "--format=%cs"))
    return f"{hash_} {day}".strip()


def _run_git(*arguments: str) -> str:
    line = ["git", "-C", str(_HERE.parent), *arguments]
    try:
        return subprocess.run(line, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return ""
