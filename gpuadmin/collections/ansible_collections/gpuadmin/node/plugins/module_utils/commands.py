"""What a node runs by itself: at boot, for one user's own Docker, and to close a root."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, replace

from . import root
from .accounts import Host, Outcome, boot_request, converge, system_lookup
from .errors import NodeError
from .plan import Request
from .truth import load

USAGE = (
    "usage: cli.py apply-accounts [--check] | docker-self | close-root | hold-root [--lease SECONDS]\n"
    "       cli.py backup | serve-backups DIRECTORY [ORDINARY]\n"
    "       cli.py image-work | image-relay | image-outcome | image-check NAME\n"
    "       cli.py take-identity | trial-gate | trial-deadline"
)
IMAGE_COMMANDS = (
    "image-work",
    "take-identity",
    "trial-gate",
    "trial-deadline",
    "image-outcome",
    "image-check",
    "image-relay",
)


def apply_accounts(host: Host, check: bool = False) -> int:
    """Bring the running root to accounts.json. Exit 0; 3 when single accounts are in conflict (the others are done)."""
    request = boot_request(load(host.path(host.state)))
    if request is None:
        print("no accounts are recorded on this node")
        return 0
    outcome = converge(request, host, check=check)
    for operation in outcome.plan.operations:
        print(operation)
    if not outcome.changed:
        print("the accounts are as they should be")
    for problem in outcome.plan.problems:
        print(f"Warning: {problem}", file=sys.stderr)
    for conflict in outcome.plan.conflicts:
        print(f"Error: {conflict}", file=sys.stderr)
    return 3 if outcome.plan.conflicts else 0


def docker_self(host: Host, sudo_uid: str | None, name: str | None = None) -> tuple[int, str]:
    """Give the caller of sudo subids and a Docker directory; return (exit status, what to tell)."""
    import pwd

    if sudo_uid is None or not (sudo_uid.isascii() and sudo_uid.isdigit()):
        return 1, "Run this through sudo as yourself: it acts on the account that calls it."
    uid = int(sudo_uid)
    truth = load(host.path(host.state))
    settings = truth.settings
    if settings is None or settings.docker_data is None or not settings.login:
        return 1, "Docker is not set up on this host. Ask the admins."
    if uid < settings.uid_first or (settings.source == "registry" and uid > settings.uid_last):
        return 1, f"uid {uid} is not an account that gpuadmin gives Docker to."
    if name is None:
        try:
            name = pwd.getpwuid(uid).pw_name
        except KeyError:
            return 1, f"uid {uid} has no name on this host."
    record = truth.records.get(name)
    if settings.source == "registry" and (record is None or record.user.uid != uid):
        return 1, "Your account was not made by gpuadmin. Ask the admins."
    user = {"name": name, "uid": uid} if record is None else asdict(record.user)
    outcome: Outcome = converge(Request(settings, [dict(user, docker=True)]), host)
    entry = outcome.plan.users[name]
    if outcome.plan.conflicts or entry.status == "unknown":
        return (
            1,
            f"Docker could not be set up for {name}: {entry.problem or outcome.plan.conflicts[0]}. Ask the admins.",
        )
    if not outcome.changed:
        return 0, f"{name}: Docker is set up already."
    return 0, f"{name}: Docker is set up now. Log in again, then: docker run ..."


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
                print("this command takes no arguments: it acts on the account that calls it", file=sys.stderr)
                return 2
            if host.lookup is None:
                host = replace(host, lookup=system_lookup)
            status, text = docker_self(host, os.environ.get("SUDO_UID"))
            print(text, file=sys.stderr if status else sys.stdout)
            return status
        if command == "backup" and not rest:
            from . import timed_backup

            return timed_backup.main(host.path(host.state))
        if command == "serve-backups" and len(rest) in (1, 2) and all(one.isdecimal() for one in rest[1:]):
            from . import copy_server

            return copy_server.main(rest[0], *(int(one) for one in rest[1:]))
        if command in ("close-root", "hold-root"):
            return root.main(given)
        if command in IMAGE_COMMANDS:
            from .image_commands import main as images

            return images(given)
    except NodeError as error:
        print(f"Error: {error}", file=sys.stderr)
        return 1
    print(USAGE, file=sys.stderr)
    return 2
