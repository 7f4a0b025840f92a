"""Doing something as a person with all their subordinate ids: in a user namespace like that of their containers.

Ids are there as in a container: root is the person, and N is their N-th subordinate id. What runs there can do nothing
that they could not do themselves, whatever their directories lead to: no link or mount of theirs is a way for root.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.subids import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError, in_words
from ansible_collections.gpuadmin.node.plugins.module_utils.files import read_bytes
from ansible_collections.gpuadmin.node.plugins.module_utils.textdb import decode

SECONDS = 6 * 3600.0  # for one thing
LARGEST = 1 << 20  # bytes of what comes back
_NEW_USER = 0x10000000  # CLONE_NEWUSER, sched.h
_READY = b"1"


@dataclass(frozen=True)
class Person:
    """Somebody, with the first of their subordinate ids and how many they have."""

    name: str
    uid: int
    gid: int
    subuid: int
    subgid: int
    count: int

    @property
    def maps(self) -> dict[str, str]:
        """user_namespaces(7)."""
        return {
            "uid_map": f"0 {self.uid} 1\n1 {self.subuid} {self.count}\n",
            "gid_map": f"0 {self.gid} 1\n1 {self.subgid} {self.count}\n",
        }


def person(name: str, uid: int, gid: int, root: str = "/") -> Person:
    """A person with their ranges. Raises NodeError where they have none, or two that are not alike."""
    first = {}
    counts = set()
    for kind in ("subuid", "subgid"):
        text = decode(read_bytes(os.path.join(root, "etc", kind)) or b"")
        own = [one for one in parse(text) if one.owner in (name, str(uid)) and not one.problem and one.count]
        if len(own) != 1:  # guard: ids that nobody knows the place of are not written
            raise NodeError(f"{name} has {len(own)} ranges in /etc/{kind}, not one: gpuadmin provision gives them one")
        first[kind] = own[0].start
        counts.add(own[0].count)
    return Person(name, uid, gid, first["subuid"], first["subgid"], min(counts))


def inside(who: Person, function: Callable[..., Any], *arguments: Any, seconds: float = SECONDS) -> Any:
    """Call a function as the person in their namespace, and return what it returns (what JSON can hold).

    Raises NodeError with what went wrong there, or when ``seconds`` are over.
    """
    here, there = socket.socketpair()
    child = os.fork()
    if child == 0:
        here.close()
        _child(there, function, arguments)
    there.close()
    late, text = True, b""
    try:
        with here:
            text = here.recv(1)
            if text == _READY:
                for kind, lines in who.maps.items():
                    with open(f"/proc/{child}/{kind}", "w", encoding="ascii") as stream:
                        stream.write(lines)
                here.sendall(_READY)
                text = b""
            text, late = _heard(here, text, seconds)
    finally:
        if late:
            os.kill(child, signal.SIGKILL)  # guard: what a person stops is not waited for
        os.waitpid(child, 0)
    if late:
        raise NodeError(f"no answer within {seconds:g} s")
    try:
        answer = json.loads(text)
        if answer["problem"] is None:
            return answer["value"]
        problem = str(answer["problem"])
    except (ValueError, KeyError, TypeError):
        problem = f"what ran as {who.name} was ended"
    raise NodeError(problem[:2000])


def _heard(said: socket.socket, text: bytes, seconds: float) -> tuple[bytes, bool]:
    """What comes until the end, and whether that came too late."""
    end = time.monotonic() + seconds
    while len(text) <= LARGEST and (left := end - time.monotonic()) > 0:
        said.settimeout(left)
        try:
            piece = said.recv(65536)
        except socket.timeout:
            break
        except ConnectionResetError:  # it was ended before it had read all
            return text, False
        if not piece:
            return text, False
        text += piece
    return text, True


def _child(say: socket.socket, function: Callable[..., Any], arguments: Sequence[Any]) -> None:
    """The child's life. It never returns."""
    answer: dict[str, Any] = {"value": None, "problem": None}
    try:
        os.setgroups([])
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.unshare(_NEW_USER):
            raise OSError(ctypes.get_errno(), "no user namespace")
        say.sendall(_READY)
        if say.recv(1) != _READY:
            os._exit(1)
        os.setresgid(0, 0, 0)
        os.setgroups([0])
        os.setresuid(0, 0, 0)  # guard: what is done for a person is done as that person
        os.umask(0o022)
        os.chdir("/")  # root's own directory may be closed to the person, and `tar` goes back to where it began
        answer["value"] = function(*arguments)
    except NodeError as error:
        answer["problem"] = str(error)
    except OSError as error:
        answer["problem"] = in_words(error)
    except BaseException as error:
        answer["problem"] = f"{type(error).__name__}: {error}"
    try:
        say.sendall(json.dumps(answer).encode())
    finally:
        os._exit(0)
