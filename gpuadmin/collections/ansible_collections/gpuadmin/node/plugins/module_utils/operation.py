"""Operations: what the controller can ask a host for. A room's are in its `operations.py`.

An operation is a record, its document, and a function that is given the document and whether it is a check, and returns
an Answer. Its name is in ROOMS as well, so that a call imports the room that it needs and no other.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Optional

from .answer import Answer
from .documents import parse
from .errors import NodeError, NothingBegun, in_words
from .root.guard import RootError

#: A host has the code of the take-over only while one of its verbs is at work (docs/decisions/0199).
TAKEOVER = "gpuadmin.takeover.node"
#: Room → the operations in its `operations.py`.
ROOMS = {
    ".accounts": ("accounts", "admin_account", "admins", "docker_restart"),
    ".backups": ("backup", "promote_homes", "restore_home", "restore_homes"),
    ".bmcs": ("bmcs",),
    ".diagnosis": ("diagnosis",),
    ".disk": ("disk_amounts", "disk_usage"),
    ".gpus": ("burn_in", "gpu_driver", "gpu_gate", "gpu_grants", "gpus"),
    ".homes": ("former_homes", "homes"),
    ".host": ("audit", "homes_release", "host_facts", "host_status", "unused_mounts", "shutdown_facts", "upgrade"),
    ".host_settings": ("host_settings",),
    ".images": (
        "image_facts", "image_job", "image_layout", "image_relay", "image_store", "install", "netboot", "stick",
    ),
    ".limits": ("disk_room", "limits"),
    ".logins": ("announcements", "login_access", "sessions", "sshd_keys", "tell"),
    ".metrics": ("gpu_mig", "idle", "measured"),
    ".privileges": ("privileges",),
    ".root": ("code", "command", "files", "packages", "python_environment", "root_command"),
    ".slurm": ("slurm_accounts", "slurm_drain", "slurm_exception", "slurm_nodes", "slurm_order", "slurm_queue"),
    ".wipe": ("leftovers", "term_facts", "wipe_homes", "wipe_scratch"),
    TAKEOVER: ("adoption", "move_docker", "move_homes", "renumber"),
}  # fmt: skip


@dataclass(frozen=True)
class Operation:
    """``document``: the record that ``perform`` takes.

    ``role``: a task of this role need not name a field that the role has a variable for. ``each``: the part of the
    report with an entry for each person, or with as many; Ansible does not walk it. ``looks``: it changes nothing.
    """

    document: type
    perform: Callable[..., Answer]
    role: Optional[str] = None
    each: Optional[str] = None
    looks: bool = False


_OPERATIONS: dict[str, Operation] = {}


def operation(name: str, document: type, **more: Any) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Make a function an operation. ``more``: further fields of Operation, as literals: plugin_utils/documents.py reads
    them from the source.
    """

    def register(perform: Callable[..., Answer]) -> Callable[..., Answer]:
        _OPERATIONS[name] = Operation(document, perform, **more)
        return perform

    return register


def find_room(name: str) -> str | None:
    """Given an operation's name, return its room, as ROOMS has it; None where there is no such operation."""
    return next((room for room, names in ROOMS.items() if name in names), None)


def find_operation(name: str) -> Operation | None:
    """Given an operation's name, import its room and return it; None where there is no such operation."""
    room = find_room(name)
    if room is None:
        return None
    importlib.import_module(f"{room}.operations", __package__)
    return _OPERATIONS[name]


def run(name: str, given: object, *, check: bool, **more: Any) -> dict[str, object]:
    """Given an operation's name and its document, return the result for Ansible. ``more``: for tests.

    What goes wrong in a way that somebody can do something about is in the result, in words.
    """
    found = find_operation(name)
    if found is None:
        return Answer(problem=f"{name[:80]!r} is not an operation").result()
    try:
        answer = found.perform(parse(found.document, given, name, templated=True), check, **more)
    except (NodeError, RootError, OSError) as error:
        words = in_words(error)
        # guard: only what failed before it began says so -> {"begun": False}
        begun = {"begun": False} if isinstance(error, NothingBegun) else {}
        answer = Answer(report={"problems": [words], **begun}, problem=words)
    return answer.result(found.each)
