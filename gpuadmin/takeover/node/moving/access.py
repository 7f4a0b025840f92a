"""The key that the storage host has while homes are moved: one command, homes that were decided on, an end."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.files import (
    make_directory,
    read_bytes,
    unlink_if_present,
    write_atomic,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.root.guard import open_root
from ansible_collections.gpuadmin.node.plugins.module_utils.run import LOOKING, look, run, run_command
from ansible_collections.gpuadmin.node.plugins.module_utils.ship import ship_package
from ansible_collections.gpuadmin.node.plugins.module_utils.sshd_settings import printed

from gpuadmin.common import ssh_key

from . import record, serving

MARK = "gpuadmin-move-homes"
KEY = re.compile(r"ssh-ed25519 [A-Za-z0-9+/]{68}={0,2}")
ADDRESS = re.compile(r"[0-9A-Za-z][0-9A-Za-z.:-]{0,252}")
SSHD = "/usr/sbin/sshd"
SCAN = 5  # seconds for a node to answer
DAYS = 7  # after which sshd takes the key no more, whatever became of the run
CODE = "code"
PROGRAM = """import sys
sys.path.insert(0, {code!r})
import importlib
sys.exit(importlib.import_module({module!r}).main({state!r}))
"""
HOST_KEY = "etc/ssh/ssh_host_ed25519_key.pub"


def public_key(text: str) -> str:
    """The type and the number of a public key. Raises NodeError for anything else than one of ed25519."""
    found = KEY.match(text)
    if found is None:  # guard: a key is nothing but a key
        raise NodeError("that is not an ed25519 public key")
    return found.group(0)


def host_key(host: Host) -> str:
    """By which key this host can be known; empty: it has none of that kind."""
    data = read_bytes(host.path(HOST_KEY))
    found = None if data is None else KEY.match(data.decode("ascii", "replace"))
    return "" if found is None else found.group(0)


def refuses_root(address: str) -> str:
    """Why sshd of this node would let root of that address in by no key, in words; empty: it would, or does not say."""
    who = f"user=root,host={address},addr={address}" if ADDRESS.fullmatch(address) else "user=root"
    try:
        done = look((SSHD, "-T", "-C", who))
    except (NodeError, OSError):
        return ""
    found: dict[str, list[str]] = {}
    for keyword, value in printed(done.stdout if done.returncode == 0 else ""):
        found.setdefault(keyword, []).extend(value.split())
    why = ""
    if found.get("permitrootlogin") == ["no"]:
        why = "PermitRootLogin no"
    elif found.get("pubkeyauthentication") == ["no"]:
        why = "PubkeyAuthentication no"
    elif "any" not in found.get("authenticationmethods", ["any"]) and "publickey" not in found["authenticationmethods"]:
        why = "AuthenticationMethods"
    elif not {".ssh/authorized_keys", "%h/.ssh/authorized_keys", "/root/.ssh/authorized_keys"} & set(
        found.get("authorizedkeysfile", [".ssh/authorized_keys"])
    ):
        why = "AuthorizedKeysFile"
    elif "allowusers" in found and not any(map(_root, found["allowusers"])):
        why = "AllowUsers"
    elif "allowgroups" in found and not any(map(_root, found["allowgroups"])):
        why = "AllowGroups"
    elif any(map(_root, [*found.get("denyusers", ()), *found.get("denygroups", ())])):
        why = "DenyUsers or DenyGroups"
    return f"sshd there lets root in by no key ({why}; sshd -T -C {who})" if why else ""


def _root(pattern: str) -> bool:
    """Whether a pattern of sshd_config(5) may mean root, whatever host it names."""
    return fnmatchcase("root", pattern.partition("@")[0])


def reached(addresses: Mapping[str, str]) -> dict[str, str]:
    """On the storage host: which ed25519 host key answers at the addresses of nodes, on port 22; empty: none does."""
    asked = {address for address in addresses.values() if ADDRESS.fullmatch(address)}
    found: dict[str, str] = {}
    try:
        # those that do not answer keep it waiting for these seconds once, not each
        done = run_command(("ssh-keyscan", "-T", str(SCAN), "-t", "ed25519", *sorted(asked)), seconds=LOOKING)
    except (NodeError, OSError):
        return {}
    for line in done.stdout.splitlines():
        address, _, key = line.partition(" ")
        match = KEY.match(key)
        if match is not None:
            found[address] = match.group(0)
    return {host: found.get(address, "") for host, address in addresses.items()}


def key_file(state: str) -> str:
    return os.path.join(record.directory(state), "key")


def known_hosts(state: str) -> str:
    return os.path.join(record.directory(state), "known_hosts")


def make_key(state: str, nodes: Mapping[str, Mapping[str, Any]]) -> str:
    """On the storage host: make a key, and know the nodes (name → address, key). Returns the public key."""
    record.make(state)
    lines = []
    for one in nodes.values():
        address = str(one["address"])
        if not ADDRESS.fullmatch(address):  # guard: an address is an address
            raise NodeError(f"{address[:80]!r} is not an address")
        lines.append(f"{address} {public_key(str(one['key']))}\n")
    write_atomic(known_hosts(state), "".join(lines).encode(), mode=0o600)
    path = key_file(state)
    if not os.path.exists(path):
        failed = {"ssh-keygen": "no key could be made", "sync": "the key is not known to be on disk"}
        ssh_key.make(Path(path), MARK, lambda command: run(command, what=failed[command[0]]))
    with open(f"{path}.pub", encoding="ascii") as stream:
        return public_key(stream.read())


def drop_key(state: str) -> None:
    """On the storage host: the key is not needed any more."""
    key = key_file(state)
    for path in (key, f"{key}.pub", f"{key}.new", f"{key}.new.pub", known_hosts(state)):
        unlink_if_present(path)


def let_in(host: Host, key: str, path: str, homes: Sequence[record.Part]) -> None:
    """On a node: the key may ask for these homes below ``path``, and for nothing else."""
    state = host.path(host.state)
    record.make(state)
    text = json.dumps({"path": path, "homes": list(homes)}, default=vars)
    write_atomic(os.path.join(record.directory(state), serving.ALLOWED), text.encode(), mode=0o600)
    # a node that was never provisioned keeps no code
    code = os.path.join(record.directory(state), CODE)
    ship_package(code)
    program = os.path.join(code, "serve.py")
    write_atomic(program, PROGRAM.format(module=serving.__name__, state=state, code=code).encode(), mode=0o600)
    until = time.strftime("%Y%m%d%H%M", time.localtime(time.time() + DAYS * 86400))
    _edit(host, f'restrict,expiry-time="{until}",command="{sys.executable} -I {program}" {public_key(key)} {MARK}')


def let_out(host: Host) -> None:
    """On a node: the key may ask for nothing any more."""
    _edit(host, None)
    place = record.directory(host.path(host.state))
    path = os.path.join(place, serving.ALLOWED)
    if os.path.lexists(path):
        os.unlink(path)
    code = os.path.join(place, CODE)
    if os.path.isdir(code):
        shutil.rmtree(code)


def _edit(host: Host, line: str | None) -> None:
    path = host.path("root/.ssh/authorized_keys")
    before = (read_bytes(path) or b"").decode("utf-8", "surrogateescape")
    lines = [one for one in before.split("\n") if not one.endswith(f" {MARK}")]
    after = "\n".join(lines).rstrip("\n")
    if line is not None:
        after = f"{after}\n{line}" if after else line
    after = f"{after}\n" if after else ""
    if after == before or (not after and not before):
        return
    with open_root(host.root, state=host.path(host.state), run=host.path("run/gpuadmin")):
        make_directory(os.path.dirname(path), 0o700)
        write_atomic(path, after.encode("utf-8", "surrogateescape"), mode=0o600)
