"""What a node runs by itself: at boot, for people who ask for Docker, and to close a root."""

from __future__ import annotations

import importlib
import os
import sys

from .accounts import docker_self
from .accounts.converge import Host, boot_request, converge
from .errors import NodeError
from .logins import announcements
from .root import guard

USAGE = (
    "usage: cli.py apply-accounts [--check] | docker-self | close-root | hold-root [--lease SECONDS]\n"
    "       cli.py backup | copy-backups | serve-backups DIRECTORY [ORDINARY [SECONDS ENTRIES]]\n"
    "       cli.py announcements | gpu-devices | gpu-check | gpu-gate [close] | gpu-mig | disk-usage\n"
    "       cli.py gpu get | list | why | release | extend | book\n"
    "       cli.py slurm-prolog | slurm-epilog | queue-told | queue-measured | queue-asked\n"
    "       cli.py metrics-sample [GPUS] | metrics-map\n"
    "       cli.py me [check | disk | web] [--language ko|en]\n"
    "       cli.py apply-limits | keep-room | web-links\n"
    "       cli.py image-relay | image-outcome | image-check NAME\n"
    "       cli.py take-identity | trial-gate | trial-deadline"
)
#: What is of the queue, by the file that has it.
QUEUE_COMMANDS = {"queue-told": "slurm.told", "queue-measured": "metrics.queueing", "queue-asked": "slurm.asked"}
IMAGE_COMMANDS = (
    "take-identity",
    "trial-gate",
    "trial-deadline",
    "image-outcome",
    "image-check",
    "image-relay",
)


def apply_accounts(host: Host, check: bool = False) -> int:
    """Bring the running root to accounts.json. Exit 0; 3 when single accounts are in conflict (the others are done)."""
    outcome = converge(boot_request, host, check=check)
    if outcome.request is None:
        print("no accounts are recorded on this node")
        return 0
    for operation in outcome.plan.operations:
        print(operation)
    if not outcome.changed:
        print("the accounts are as they should be")
    for problem in outcome.plan.problems:
        print(f"Warning: {problem}", file=sys.stderr)
    for conflict in outcome.plan.conflicts:
        print(f"Error: {conflict}", file=sys.stderr)
    return 3 if outcome.plan.conflicts else 0


def main(arguments: list[str] | None = None, host: Host | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    host = host or Host()
    os.umask(0o022)
    command, rest = (given[0], given[1:]) if given else ("", [])
    try:
        if command == "apply-accounts" and rest in ([], ["--check"]):
            return apply_accounts(host, bool(rest))
        if command == "docker-self":
            if rest:
                print("this command takes no arguments: it acts on the account that asks", file=sys.stderr)
                return 2
            return docker_self.main(host)
        if command == "apply-limits" and not rest:
            from .limits import applying

            return applying.main()
        if command == "keep-room" and not rest:
            from .disk import filling

            return filling.main()
        if command == "me":
            from .me import command as me

            return me.main(rest)
        if command == "announcements" and not rest:
            return announcements.main(host.path(host.state))
        if command == "metrics-sample" and (not rest or (len(rest) == 1 and rest[0].isdecimal())):
            from .metrics import sampler

            return sampler.main(int(rest[0]) if rest else None)
        if command == "metrics-map" and not rest:
            from .metrics import mapper

            return mapper.main()
        if command == "disk-usage" and not rest:
            from .disk import command as disk

            return disk.main()
        if command == "web-links" and not rest:
            from . import web_links

            return web_links.main(host)
        if command == "gpu-devices" and not rest:
            from .gpus import devices

            return devices.main()
        if command == "gpu-check" and not rest:
            from .gpus import checked

            return checked.main()
        if command == "gpu-gate" and rest == ["close"]:
            from .gpus import reconcile

            return reconcile.close()
        if command == "gpu-gate" and not rest:
            from .slurm import following

            return following.main()
        if command == "gpu":
            from .slurm import gpu

            return gpu.main(rest)
        if command in QUEUE_COMMANDS and not rest:
            return int(importlib.import_module(f".{QUEUE_COMMANDS[command]}", __package__).main())
        if command in ("slurm-prolog", "slurm-epilog") and not rest:
            from .slurm import prolog

            return prolog.main(command)
        if command == "gpu-mig" and not rest:
            from .metrics import dividing

            return dividing.main()
        if command in ("backup", "copy-backups") and not rest:
            from .backups import timed

            return timed.main(host.path(host.state), timed.make if command == "backup" else timed.copy)
        if command == "serve-backups" and len(rest) in (1, 2, 4) and all(one.isdecimal() for one in rest[1:]):
            from .backups import copy_server

            return copy_server.main(rest[0], *(int(one) for one in rest[1:]))
        if command in ("close-root", "hold-root"):
            return guard.main(given)
        if command in IMAGE_COMMANDS:
            from .images.commands import main as images

            return images(given)
    except NodeError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(USAGE, file=sys.stderr)
    return 2
