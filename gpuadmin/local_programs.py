"""Asks programs of this machine."""

from __future__ import annotations

import os
import subprocess

_SECONDS = 10.0  # an ssh-agent on another machine may have gone


def ask_program(*command: str) -> subprocess.CompletedProcess[str] | None:
    """What a program says, in English; None where it is not there, or does not end."""
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
            stdin=subprocess.DEVNULL, env={**os.environ, "LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0"},
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
