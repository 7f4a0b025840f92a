"""Asks programs of this machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

_SECONDS = 10.0  # an ssh-agent on another machine may have gone
_OF_A_REPOSITORY = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


def ask_program(*command: str) -> subprocess.CompletedProcess[str] | None:
    """What a program says, in English; None where it is not there, or does not end."""
    # a hook of git's runs with these, which would win over `git -C`
    env = {name: value for name, value in os.environ.items() if name not in _OF_A_REPOSITORY}
    env |= {"LC_ALL": "C", "GIT_OPTIONAL_LOCKS": "0", "GIT_NO_LAZY_FETCH": "1"}
    try:
        return subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_SECONDS, check=False,
            stdin=subprocess.DEVNULL, env=env,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None


def ask_git(directory: Path, *words: str) -> str | None:
    """What git says about a directory; None where it fails, is missing or hangs."""
    # core.fsmonitor: a repository's settings may name a program there
    done = ask_program("git", "-C", str(directory), "-c", "core.fsmonitor=false", *words)
    return done.stdout.strip() if done is not None and done.returncode == 0 else None
