"""Directories, files and links that a role wants on a host, observed and made in one pass.

A role of twenty files as twenty tasks costs twenty round trips per host, also when there is nothing to do. Where the
root is a read-only one it is opened only if something in it differs, and closed again whatever happens.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from gpuadmin.common.records.files import Directory, File, FilesOrder, Link

from ..errors import NodeError
from ..files import make_directory, read_bytes, sync_filesystem, write_atomic
from ..run import run_command
from .guard import open_root

TEMPORARY = ".gpuadmin-new"


@dataclass(frozen=True)
class Operation:
    """One step: what it does to which path, and the texts for a diff."""

    verb: str  # make | mode | write | link | remove
    path: str
    entry: Directory | File | Link | None = None
    before: str = ""
    after: str = ""

    @property
    def summary(self) -> str:
        if self.verb == "link" and isinstance(self.entry, Link):
            return f"link {self.path} to {self.entry.target}"
        if self.verb == "mode" and not isinstance(self.entry, (Link, type(None))):
            return f"make root the owner of {self.path} and set its mode {_get_bits(self.entry):04o}"
        return f"{'make directory' if self.verb == 'make' else self.verb} {self.path}"


@dataclass
class Plan:
    operations: list[Operation] = field(default_factory=list)

    @property
    def summaries(self) -> list[str]:
        return [operation.summary for operation in self.operations]

    def diff(self) -> list[dict[str, str]]:
        """What Ansible shows with --diff: one entry for each path."""
        return [
            {"before_header": one.path, "after_header": one.path, "before": one.before, "after": one.after}
            for one in self.operations
        ]


def enabled(units: Sequence[str], files: Sequence[File]) -> list[Link]:
    """The links that `systemctl enable` makes for unit files of this order, as their [Install] sections say.

    Raises NodeError for one that is not in the order, or says nothing.
    """
    texts = {entry.path: entry.content for entry in files}
    links = []
    for unit in units:
        if unit not in texts:
            raise NodeError(f"{unit} cannot be enabled, because it is not one of the files")
        directory, name = os.path.split(unit)
        section, found = "", []
        for line in texts[unit].splitlines():
            key, _, value = (word.strip() for word in line.partition("="))
            if key.startswith("["):
                section = key
            elif section == "[Install]" and key in ("WantedBy", "RequiredBy"):
                kind = "wants" if key == "WantedBy" else "requires"
                found += [Link(os.path.join(directory, f"{by}.{kind}", name), unit) for by in value.split()]
        if not found:
            raise NodeError(
                f"{unit} cannot be enabled, because no WantedBy= or RequiredBy= is in its [Install] section"
            )
        links += found
    return links


def masked(units: Sequence[str]) -> list[Link]:
    """The links that `systemctl mask` makes. Raises NodeError for anything that is not a unit's name."""
    for unit in units:
        if not unit or "/" in unit:
            raise NodeError(f"{unit!r} is not the name of a unit")
    return [Link(os.path.join("/etc/systemd/system", unit), "/dev/null") for unit in units]


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _get_bits(entry: Directory | File) -> int:
    return int(entry.mode, 8)


def _attributes_differ(status: os.stat_result, mode: int) -> bool:
    return stat.S_IMODE(status.st_mode) != mode or (status.st_uid, status.st_gid) != (os.geteuid(), os.getegid())


def plan_directories(order: FilesOrder) -> list[Operation]:
    found = []
    entries: list[Directory | File | Link] = [*order.directories, *order.files, *order.links]
    wanted = {entry.path for entry in entries}
    for entry in order.directories:
        status = _status(entry.path)
        if status is None:
            found.append(Operation("make", entry.path, entry, after=f"directory {_get_bits(entry):04o}\n"))
            continue
        if not stat.S_ISDIR(status.st_mode):
            raise NodeError(f"{entry.path} is there already, and is not a directory")
        if _attributes_differ(status, _get_bits(entry)):
            before = f"{status.st_uid}:{status.st_gid} {stat.S_IMODE(status.st_mode):04o}\n"
            found.append(Operation("mode", entry.path, entry, before, f"0:0 {_get_bits(entry):04o}\n"))
        if entry.exclusive:
            for name in sorted(os.listdir(entry.path)):
                path = os.path.join(entry.path, name)
                if path not in wanted:
                    found.append(Operation("remove", path, before=f"{name}\n"))
    return found


def plan_file(entry: File) -> list[Operation]:
    content = read_bytes(entry.path)
    if content != entry.content.encode():
        if not entry.show_diff:
            return [Operation("write", entry.path, entry, "", "(its text is not shown)\n")]
        before = "" if content is None else content.decode(errors="replace")
        return [Operation("write", entry.path, entry, before, entry.content)]
    if _attributes_differ(os.lstat(entry.path), _get_bits(entry)):
        return [Operation("mode", entry.path, entry)]
    return []


def plan_link(entry: Link) -> list[Operation]:
    status = _status(entry.path)
    if status is not None and not stat.S_ISLNK(status.st_mode):
        raise NodeError(f"{entry.path} is there already, and is not a link; move it away")
    before = "" if status is None else os.readlink(entry.path)
    if before == entry.target:
        return []
    return [Operation("link", entry.path, entry, f"{before}\n" if before else "", f"{entry.target}\n")]


def plan(order: FilesOrder) -> Plan:
    """Given what is wanted, return the steps that are missing. Raises NodeError if something is in the way."""
    found = plan_directories(order)
    for entry in order.files:
        found += plan_file(entry)
    for link in order.links:
        found += plan_link(link)
    found += [Operation("remove", path, before=f"{path}\n") for path in order.absent if os.path.lexists(path)]
    return Plan(found)


def validate(operations: Sequence[Operation], *, check: bool) -> None:
    """Let the programs concerned read the new files before any of them is in place. Raises NodeError with their output.

    In check mode a program that is not installed yet cannot be asked.
    """
    for one in operations:
        if one.verb != "write" or not isinstance(one.entry, File) or not one.entry.validate:
            continue
        if check and shutil.which(one.entry.validate[0]) is None:
            continue
        with tempfile.NamedTemporaryFile(prefix="gpuadmin-") as stream:
            stream.write(one.entry.content.encode())
            stream.flush()
            command = [stream.name if word == "%s" else word for word in one.entry.validate]
            result = run_command(command)
        if result.returncode != 0:
            output = (result.stderr + result.stdout).strip().replace(stream.name, one.path)
            raise NodeError(f"{one.path} was not written, because {command[0]} refuses it: {output}")


def _make(path: str, mode: int) -> None:
    """Make a directory and what is missing above it."""
    above = os.path.dirname(path)
    if not os.path.isdir(above):
        _make(above, 0o755)
    make_directory(path, mode, os.geteuid(), os.getegid(), sync=False)


def _link(path: str, target: str) -> None:
    temporary = os.path.join(os.path.dirname(path), f".{os.path.basename(path)}{TEMPORARY}")
    if os.path.lexists(temporary):
        os.unlink(temporary)
    os.symlink(target, temporary)
    os.rename(temporary, path)


def _remove(path: str) -> None:
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def _execute_one(one: Operation) -> None:
    if one.verb == "remove":
        _remove(one.path)
        return
    if one.verb != "mode":
        _make(os.path.dirname(one.path), 0o755)
    if isinstance(one.entry, Link):
        _link(one.path, one.entry.target)
    elif one.verb == "make" and isinstance(one.entry, Directory):
        _make(one.path, _get_bits(one.entry))
    elif one.verb == "write" and isinstance(one.entry, File):
        write_atomic(one.path, one.entry.content.encode(), mode=_get_bits(one.entry), sync=False)
    if isinstance(one.entry, (File, Directory)):
        os.chown(one.path, os.geteuid(), os.getegid(), follow_symlinks=False)
        os.chmod(one.path, _get_bits(one.entry))


def _nearest(path: str) -> str:
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def execute(plan: Plan) -> None:
    """Do what was planned; what is in the root, while the root is open. Everything is on disk at the end."""
    devices = {os.lstat(_nearest(one.path)).st_dev: _nearest(one.path) for one in plan.operations}
    with ExitStack() as stack:
        if os.lstat("/").st_dev in devices:
            stack.enter_context(open_root())
        for one in plan.operations:
            _execute_one(one)
        for path in devices.values():
            sync_filesystem(_nearest(path))


def run_after(commands: Sequence[Sequence[str]]) -> None:
    """Run what has to follow a change. Raises NodeError with the output of the first command that fails."""
    for command in commands:
        argv = [str(word) for word in command]
        result = run_command(argv)
        if result.returncode != 0:
            output = (result.stderr + result.stdout).strip()
            raise NodeError(f"everything was written, but {' '.join(argv)} failed: {output}")
