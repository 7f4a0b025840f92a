"""Mounts of ours that the site does not want any more, or wants from elsewhere: unmounted when nobody uses them."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Optional

from ..files import read_bytes
from ..mounts import mounted_on, parse_mountinfo, read_mountinfo
from ..run import Runner, run_command

UNITS = "/etc/systemd/system"
#: The first line of a mount's unit of the role `mounts`.
MARK = b"# Managed by gpuadmin (mounts)."
_SECONDS = 90  # a server that is away answers no umount


@dataclass
class Released:
    """``units``: files that may go; ``done``, ``notes``: what was unmounted, and what stays mounted, and why."""

    units: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def release(
    wanted: Mapping[str, str],
    *,
    check: bool,
    directory: str = UNITS,
    run: Runner = run_command,
    mountinfo: Callable[[], str] = read_mountinfo,
) -> Released:
    """Given unit → what it is to mount, unmount what differs, unless ``check``. Nothing is forced: who has a file open
    keeps it, and the next run tries again."""
    found = Released()
    for name in sorted(os.listdir(directory)):
        path = os.path.join(directory, name)
        if not name.endswith(".mount") or not os.path.isfile(path) or os.path.islink(path):
            continue
        text = read_bytes(path) or b""
        where, what = _field(text, "Where"), _field(text, "What")
        if not text.startswith(MARK) or where is None or what == wanted.get(name[:-6]):  # guard: only ours is unmounted
            continue
        gone = name[:-6] not in wanted
        there = mounted_on(where, parse_mountinfo(mountinfo()))
        if there is not None and there.fstype != "autofs":
            found.done.append(f"unmount {what} from {where}, unless somebody uses it")
            # without -l: what is in use stays
            done = None if check else run(("timeout", str(_SECONDS), "umount", where))
            if done is not None and done.returncode != 0:  # guard: a mount that is in use keeps its units
                found.done.pop()
                found.notes.append(
                    f"{where} is still mounted from {what}, which somebody uses; the next run tries again"
                )
                continue
        if gone:
            found.done.append(f"{where} is mounted no more")
            found.units += [f"{directory}/{name}", f"{directory}/{name[:-6]}.automount"]
            found.units.append(f"{directory}/multi-user.target.wants/{name[:-6]}.automount")
            if not check:
                run(("systemctl", "stop", f"{name[:-6]}.automount"))
    return found


def _field(text: bytes, name: str) -> Optional[str]:
    found = re.search(rb"(?m)^%s=(.+)$" % name.encode(), text)
    return found.group(1).decode("utf-8", "replace") if found else None
