"""The node's own commands about images: at boot, from the checks, and in the unit that passes one on."""

from __future__ import annotations

import sys

from ..errors import NodeError
from . import relay, trial
from .mounting import mounted
from .places import Places, load_settings
from .records import journal
from .subvolumes import running_root


def main(arguments: list[str]) -> int:
    """Run one of them. image-outcome: 0 confirmed, 1 not known yet, 3 failed."""
    places = Places()
    command, rest = arguments[0], arguments[1:]
    if command == "image-outcome":
        last = journal(places)
        stage = str(last.get("stage"))
        if stage == "failed" and running_root(places).name == last.get("root"):
            stage = "leaving"  # it has failed and is about to reboot
        print(f"{stage} {last.get('reason') or ''}".strip())
        return {"confirmed": 0, "failed": 3}.get(stage, 1)
    settings = load_settings(places)
    if command == "take-identity":
        for path in trial.take_identity(places, settings):
            print(f"this node's own: {path}")
        return 0
    if command == "trial-gate":
        with mounted(places, settings, store=None):
            print(trial.gate(places, settings))
        return 0
    if command == "trial-deadline":
        trial.deadline(places, settings)
        return 0
    if command == "image-check" and len(rest) == 1:
        problem = trial.check(places, settings, rest[0])
        if problem:
            print(problem, file=sys.stderr)
        return 1 if problem else 0
    if command == "image-relay":
        relay.serve(places, settings)
        return 0
    raise NodeError("usage: cli.py image-check root|identity|writable|sshd|units|gpus|gpus-worse")
