"""Transient units of systemd: work on a node that outlives whoever asked for it."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence

from .errors import NodeError
from .run import run

PATIENCE = 10.0  # seconds; one that has just ended keeps its name for a moment


def start_unit(name: str, private_mounts: str, description: str, command: Sequence[str]) -> None:
    """Start a command as a unit. Raises NodeError with what systemd said."""
    end = time.monotonic() + PATIENCE
    while True:
        subprocess.run(("systemctl", "reset-failed", name), check=False, capture_output=True)
        try:
            run(
                ("systemd-run", f"--unit={name}", "--collect", f"--property=PrivateMounts={private_mounts}",
                 f"--description={description}", "--", *command),
                what=f"{name} could not be started",
            )  # fmt: skip
        except NodeError as error:
            if "already loaded" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.3)
        else:
            return
