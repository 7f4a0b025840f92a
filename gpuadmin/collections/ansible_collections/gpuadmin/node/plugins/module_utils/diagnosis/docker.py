"""The Docker of a person: place, subordinate ids, socket, daemon, and containers that ended.

The daemon is the person's: it is asked as them, through their socket, with bounds on time and size, and only where it
runs already, because to ask starts it. What it answers is whatever they like.
"""

from __future__ import annotations

import json
import os
import re
import socket
import stat
import time
from typing import Any

from ..accounts.subids import parse as parse_ranges
from ..bounded import read_small, short
from ..errors import NodeError
from ..limits import room
from ..people import acting_as
from ..textdb import decode
from ..unit import logged
from . import docker_needs
from .sessions import CGROUP, cgroup_alive, find_uid
from .subject import Subject

SECONDS = 1.5  # for one question to a daemon
LARGEST_ANSWER = 1 << 20
MOST_CONTAINERS = 5
SINCE = "-1day"
ENDED = '["created","exited","dead","restarting"]'  # one whose program is missing was created, and never ran
COMPLAINT = re.compile(r"level=(?:error|fatal)|failed|error|cannot|denied|no space|not found", re.IGNORECASE)
#: Docker's name of a processor, by the kernel's name for it (uname(2)); others are not reported.
ARCHITECTURES = {
    "x86_64": "amd64", "aarch64": "arm64", "ppc64le": "ppc64le", "s390x": "s390x", "riscv64": "riscv64",
}  # fmt: skip
HARMLESS = re.compile(r"level=(?:info|debug|warning)")  # a daemon says "error" about things that it can do without


def docker(subject: Subject) -> dict[str, Any]:
    """The place, ids, socket and words of a daemon: all but its own answers."""
    name, uid = subject.name or "", find_uid(subject)
    found: dict[str, Any] = {
        "place": subject.docker,
        "data": None,
        "subids": None,
        "socket": None,
        "daemon": False,
        "words": [],
        "mappers": [],
    }
    if subject.docker is None or uid is None:
        return found
    found["subids"] = {kind: _subids(subject, kind, name, uid) for kind in ("subuid", "subgid")}
    found["data"] = _look_at_data(subject, os.path.join(subject.docker, name))
    place = _find_directory(subject.path(subject.docker))
    space = os.statvfs(place)
    found["bytes"], found["free"] = room.space(place)
    found["inodes_free"] = space.f_favail if space.f_files else None
    found["socket"] = _look_at_socket(subject.path(f"run/user/{uid}/docker.sock"), uid)
    found["installed"] = os.path.exists(subject.path("usr/bin/dockerd")) or os.path.exists(
        subject.path("usr/sbin/dockerd")
    )
    found["daemon"] = cgroup_alive(uid, "docker.service", subject.path(CGROUP))
    found["mappers"] = docker_needs.find_mapper_faults(subject) if found["installed"] else []
    if subject.root == "/":
        try:
            found["words"] = _pick_complaints(uid)
        except NodeError:
            if not subject.own:  # people may read a journal of their own only where it is on a disk
                raise
    return found


def _find_directory(path: str) -> str:
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _subids(subject: Subject, kind: str, name: str, uid: int) -> int:
    """The number of subordinate ids that a person has here."""
    text = decode(read_small(subject.path(f"etc/{kind}"), most=64 << 20))
    return sum(one.count for one in parse_ranges(text) if one.owner in (name, str(uid)) and not one.problem)


def _look_at_data(subject: Subject, path: str) -> dict[str, Any] | None:
    try:
        facts = os.lstat(subject.path(path))
    except FileNotFoundError:
        return None
    return {"path": path, "directory": stat.S_ISDIR(facts.st_mode), "uid": facts.st_uid}


def _look_at_socket(path: str, uid: int) -> str:
    """The socket in a word: ``ok``, ``missing``, or what else is there."""
    try:
        facts = os.lstat(path)
    except OSError:
        return "missing"
    if not stat.S_ISSOCK(facts.st_mode):
        return "is not a socket"
    return "ok" if facts.st_uid == uid else f"belongs to uid {facts.st_uid}"


def _pick_complaints(uid: int) -> list[str]:
    """The last complaints of the daemon and of its person's manager."""
    text = logged((f"_UID={uid}", "_SYSTEMD_USER_UNIT=docker.service", "+", f"_UID={uid}", "USER_UNIT=docker.service"),
                  60, since=SINCE)  # fmt: skip
    return [short(line) for line in text.splitlines() if COMPLAINT.search(line) and not HARMLESS.search(line)][-4:]


def containers(subject: Subject) -> dict[str, Any]:
    """Containers that ended badly, and how many run: {"asked": whether a daemon was, "ended": […], "running": 1}.

    Raises NodeError, OSError.
    """
    uid = find_uid(subject)
    if (
        subject.docker is None
        or uid is None
        # guard: a daemon is not started by being asked
        or not cgroup_alive(uid, "docker.service", subject.path(CGROUP))
    ):
        return {"asked": False, "ended": [], "running": 0}
    path = subject.path(f"run/user/{uid}/docker.sock")
    listed = ask_daemon(path, uid, f'/containers/json?all=1&limit=40&filters={{"status":{ENDED}}}')
    ended = []
    for one in listed[:40] if isinstance(listed, list) else []:
        identity = one.get("Id") if isinstance(one, dict) else None
        if not isinstance(identity, str) or not re.fullmatch(r"[0-9a-f]{12,64}", identity):
            continue
        answer = ask_daemon(path, uid, f"/containers/{identity}/json")
        end = describe_end(answer)
        if end["code"]:  # the program's own complaint is in its log, which nobody else may read
            end["other"] = _other_processor(subject, _ask_image(path, uid, answer))
        ended.append(end)
        if len(ended) == MOST_CONTAINERS:
            break
    running = ask_daemon(path, uid, "/containers/json")
    return {
        "asked": True,
        "ended": [one for one in ended if one["code"] or one["oom"] or one["error"]],
        "running": len(running) if isinstance(running, list) else 0,
    }


def describe_end(found: object) -> dict[str, Any]:
    """The end of a container, from its daemon's answer; whatever the daemon answers, this is small and plain."""
    top: dict[str, Any] = found if isinstance(found, dict) else {}
    state = top.get("State")
    state = state if isinstance(state, dict) else {}
    code = state.get("ExitCode")
    return {
        # the name becomes a part of commands that somebody is told to run: Docker itself allows no other characters
        "name": re.sub(r"[^a-zA-Z0-9_.-]", "_", short(top.get("Name", "_"), 60).lstrip("/")),
        "code": code if isinstance(code, int) and -1 <= code <= 255 else None,
        "oom": state.get("OOMKilled") is True,
        "error": short(state.get("Error") or "", 200),
        "finished": short(state.get("FinishedAt") or "", 40),
        "other": None,
    }


def _ask_image(path: str, uid: int, container: object) -> object:
    """The daemon's answer about a container's image; None: it has no such image any more."""
    name = container.get("Image") if isinstance(container, dict) else None
    if not isinstance(name, str) or not re.fullmatch(r"sha256:[0-9a-f]{64}", name):
        return None
    try:
        return ask_daemon(path, uid, f"/images/{name}/json")
    except NodeError:
        return None


def _other_processor(subject: Subject, image: object) -> list[str] | None:
    """The processor that an image is for, and this host's, where the one does not run the other's programs."""
    theirs = image.get("Architecture") if isinstance(image, dict) else None
    kernels = {name: kernel for kernel, name in ARCHITECTURES.items()}
    here = ARCHITECTURES.get(os.uname().machine)
    if not isinstance(theirs, str) or theirs not in kernels or here is None or theirs == here:
        return None
    emulated = os.path.exists(subject.path(f"proc/sys/fs/binfmt_misc/qemu-{kernels[theirs]}"))
    return None if emulated else [theirs, here]


def ask_daemon(path: str, uid: int, question: str, seconds: float = SECONDS) -> Any:
    """Ask a daemon over its socket as its person, and return what its JSON says. Raises NodeError, OSError."""
    return _body(_exchange(path, uid, "GET", question, seconds))


def stop_container(path: str, uid: int, container: str, patience: int, seconds: float) -> None:
    """Have a daemon stop a container, as its person; after ``patience`` seconds it kills it. A container stopped like
    this does not start again by itself. Raises NodeError, OSError.
    """
    answer = _exchange(path, uid, "POST", f"/containers/{container}/stop?t={patience}", seconds)
    # guard: what a daemon says did not stop is not taken for stopped -> _parse_status(answer) is None
    if _parse_status(answer) not in (204, 304):  # it has ended; it had ended before
        raise NodeError(f"the daemon answered {short(answer[:100].decode('latin-1'))}")


def _exchange(path: str, uid: int, method: str, question: str, seconds: float) -> bytes:
    end = time.monotonic() + seconds
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(seconds)
        if os.geteuid() == 0:
            with acting_as(uid, uid):
                channel.connect(path)
        else:
            channel.connect(path)
        target = question.replace('"', "%22").replace("{", "%7B").replace("}", "%7D")
        channel.sendall(f"{method} {target} HTTP/1.0\r\nHost: docker\r\n\r\n".encode())
        found = bytearray()
        while True:
            left = end - time.monotonic()
            if left <= 0:
                raise NodeError(f"the daemon did not answer within {seconds:g} s")
            channel.settimeout(left)
            try:
                part = channel.recv(65536)
            except socket.timeout:
                raise NodeError(f"the daemon did not answer within {seconds:g} s") from None
            if not part:
                break
            found += part
            if len(found) > LARGEST_ANSWER:  # guard: a daemon's answer has a bound
                raise NodeError("the daemon's answer does not end")
    return bytes(found)


def _parse_status(answer: bytes) -> int | None:
    """The status of an answer; None if it does not begin as HTTP's do."""
    found = re.match(rb"HTTP/1\.[01] ([0-9]{3})[ \r]", answer)
    return int(found.group(1)) if found else None


def _body(answer: bytes) -> Any:
    head, _, body = answer.partition(b"\r\n\r\n")
    if _parse_status(answer) != 200:
        raise NodeError(f"the daemon answered {short(head[:100].decode('latin-1'))}")
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise NodeError("the daemon's answer cannot be read") from None
