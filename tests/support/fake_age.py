"""Stands where age is: keeps what it was given, and says what a test wants."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

FAKE = """#!/usr/bin/env -S "{python}"
import pathlib, sys
pathlib.Path({given!r}).write_bytes(" ".join(sys.argv[1:]).encode() + b"\\n" + sys.stdin.buffer.read())
sys.stdout.write({says!r})
sys.stderr.write("no such key\\n")
sys.exit({code})
"""


def fake_age(
    folder: Path, monkeypatch: pytest.MonkeyPatch, says: str = "age-encryption.org/v1\n", code: int = 0
) -> Path:
    program, given = folder / "age", folder / "given"
    program.write_text(FAKE.format(python=sys.executable, given=str(given), says=says, code=code))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    return given
