"""What a host runs by itself: at boot, from timers and sockets, for Slurm, and for people who ask."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from .errors import NodeError

# Each command imports what it needs, and nothing of the others: a job of Slurm's waits for its prolog.
if TYPE_CHECKING:
    from .accounts.converge import Host

USAGE = (
    "usage: cli.py apply-accounts [--check] | docker-self | close-root | hold-root [--lease SECONDS]\n"
    "       cli.py backup | copy-backups | serve-backups DIRECTORY [ORDINARY [SECONDS ENTRIES]]\n"
    "       cli.py announcements | gpu-devices | gpu-check | gpu-gate [close] | gpu-mig | disk-usage\n"
    "       cli.py gpu get | run | jupyter | list | jobs | why | release | extend | book | mail\n"
    "       cli.py notebook PROGRAMS | notebook-front\n"
    "       cli.py slurm-prolog | slurm-epilog | slurm-health\n"
    "       cli.py queue-told | queue-measured | queue-asked | queue-shown | queue-notices | gpus-asked\n"
    "       cli.py queue-door | slurm-dump DIRECTORY\n"
    "       cli.py metrics-sample [GPUS] | metrics-map | journals DAYS BYTES\n"
    "       cli.py me [check | disk | free | limits | top | web] [--language ko|en]\n"
    "       cli.py apply-limits | count-updates | keep-room | web-links | fetch-cluster\n"
    "       cli.py image-relay | image-outcome | image-check NAME\n"
    "       cli.py take-identity | trial-gate | trial-deadline | site-history | homes-mine"
)
#: What takes no arguments, by the file whose `main` it is.
PLAIN_COMMANDS = {
    "apply-limits": ".limits.applying",
    "count-updates": ".host.upgrades",
    "keep-room": ".disk.filling",
    "disk-usage": ".disk.command",
    "fetch-cluster": ".cluster_view",
    "metrics-map": ".metrics.mapper",
    "gpu-devices": ".gpus.devices",
    "gpu-check": ".gpus.kernels",
    "gpu-gate": ".slurm.gate_timer",
    "gpu-mig": ".metrics.dividing",
    "queue-told": ".slurm.login_lines",
    "queue-measured": ".metrics.queueing",
    "queue-asked": ".slurm.extend_service",
    "queue-shown": ".slurm.queue_report",
    "notebook-front": ".slurm.notebook_front",
    "gpus-asked": ".slurm.self_service",
    "queue-notices": ".slurm.notices",
    "queue-door": ".slurm.web_door",
    "site-history": ".site_history",
    "homes-mine": ".backups.promoting",
}
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
    from .accounts.converge import boot_request, converge

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


def main(arguments: list[str] | None = None, host: Host | None = None, more: Mapping[str, str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    os.umask(0o022)
    command, rest = (given[0], given[1:]) if given else ("", [])
    try:
        plain = {**PLAIN_COMMANDS, **(more or {})}
        if command in plain and not rest:
            return int(importlib.import_module(plain[command], __package__).main())
        if command in ("slurm-prolog", "slurm-epilog") and not rest:
            from .slurm import prolog

            return prolog.main(command)
        if command == "slurm-health":  # an older role names disks
            from .slurm import draining

            return draining.main()
        if command == "slurm-dump" and len(rest) == 1:
            from .backups import accounting

            return accounting.main(rest[0])
        if command == "me":
            from .me import command as me

            return me.main(rest)
        if command == "notebook" and len(rest) == 1:
            from .slurm import notebook

            notebook.main(rest[0])
        if command == "gpu":
            from .slurm import gpu

            return gpu.main(rest)
        if command == "gpu-gate" and rest == ["close"]:
            from .gpus import reconcile

            return reconcile.close()
        if command == "metrics-sample" and (not rest or (len(rest) == 1 and rest[0].isdecimal())):
            from .metrics import sampler

            return sampler.main(int(rest[0]) if rest else None)
        if command == "journals" and len(rest) == 2 and all(one.isdecimal() for one in rest):
            from .metrics import journals

            return journals.sweep(int(rest[0]), int(rest[1]))
        if command == "serve-backups" and len(rest) in (1, 2, 4) and all(one.isdecimal() for one in rest[1:]):
            from .backups import copy_server

            return copy_server.main(rest[0], *(int(one) for one in rest[1:]))
        if command in ("close-root", "hold-root"):
            from .root import guard

            return guard.main(given)
        if command in IMAGE_COMMANDS:
            from .images.commands import main as images

            return images(given)
        if (code := _of_host(command, rest, host)) is not None:
            return code
    except NodeError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(USAGE, file=sys.stderr)
    return 2


def _of_host(command: str, rest: list[str], host: Host | None) -> int | None:
    """The commands that a test gives a host of its own; None: it is none of them."""
    from .accounts.converge import Host

    host = host or Host()
    if command == "apply-accounts" and rest in ([], ["--check"]):
        return apply_accounts(host, bool(rest))
    if command == "docker-self":
        from .accounts import docker_self

        if not rest:
            return docker_self.main(host)
        print("this command takes no arguments: it acts on the account that asks", file=sys.stderr)
        return 2
    if command == "announcements" and not rest:
        from .logins import announcements

        return announcements.main(host.path(host.state))
    if command == "web-links" and not rest:
        from . import web_links

        return web_links.main(host)
    if command in ("backup", "copy-backups") and not rest:
        from .backups import timed

        return timed.main(host.path(host.state), timed.make if command == "backup" else timed.copy)
    return None
