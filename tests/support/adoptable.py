"""Answers of hosts that gpuadmin has no part in, as tables are made from."""

from __future__ import annotations

from typing import Any

from gpuadmin.takeover.adoption.seen import Host
from tests.support.sites import public_key


def account(name: str, uid: int, **more: Any) -> dict[str, Any]:
    """An entry of passwd and shadow, as a host tells it."""
    return {
        "name": name, "uid": uid, "gid": uid, "gecos": "", "home": f"/home/{name}", "shell": "/bin/bash",
        "password": "set", "expires": None, **more,
    }  # fmt: skip


def homes(
    *names: str, path: str = "/home", source: str = "/dev/sda1", fstype: str = "ext4", **more: Any
) -> dict[str, Any]:
    """A directory of homes with these in it, by name."""
    of = {"kind": "directory", "uid": 1001, "owner": "minji", "mode": 0o700, "problem": None}
    entries = [{"name": one, **of} for one in names]
    return {
        "path": path, "fstype": fstype, "source": source, "mounted": False, "network": fstype.startswith("nfs"),
        "entries": entries, "more": 0, "problem": None, **more,
    }  # fmt: skip


def keys(*plain: str, **more: Any) -> dict[str, Any]:
    """Somebody's keys."""
    return {"plain": list(plain), "options": [], "odd": 0, "why": [], "problem": None, **more}


ROOT = account("root", 0, home="/root")
#: A node with two people, where everything fits but its own homes.
ANSWER: dict[str, Any] = {
    "system": {
        "name": "Debian GNU/Linux 13 (trixie)", "id": "debian", "codename": "trixie", "family": "debian",
        "hostname": "gpu1", "kernel": "6.12", "python": "3.13.5", "systemd": True, "root": True,
    },
    "accounts": [ROOT, account("minji", 1001), account("jiho", 1002)],
    "groups": [{"name": "docker", "gid": 990, "members": []}, {"name": "sudo", "gid": 27, "members": []}],
    "subids": {"subuid": [{"name": "minji", "start": 100000, "count": 65536}], "subgid": []},
    "directory": {"sources": [], "accounts": []},
    "homes": [homes()],
    "keys": {"minji": keys(public_key("minji")), "jiho": keys()},
    "used": {"units": {}, "idle": None},
    "file_systems": [{"point": "/", "fstype": "ext4", "source": "/dev/sda1", "subvolume": "/", "network": False}],
    "exports": [],
    "docker": {"data": "/var/lib/docker", "containers": 0, "volumes": [], "volume_count": 0, "program": False,
               "lingering": []},
    "gpus": {"bus": [{"address": "0000:01:00.0", "name": "NVIDIA A100"}], "devices": 1, "driver": "570.1",
             "model": None},
    "services": {"active": [], "repositories": []},
    "sudo": [], "sshd": {"include": True, "settings": {"usedns": ["no"]}, "problem": None},
    "root": {"problems": []}, "unknown": {},
}  # fmt: skip


def host(name: str = "gpu1", **parts: Any) -> Host:
    """A host that answers as ANSWER says, but for some parts."""
    return Host(name, {**ANSWER, **parts})


def storage(name: str = "nas1", **parts: Any) -> Host:
    """A host without GPUs that exports homes, and has nobody's account."""
    given = {
        "accounts": [ROOT], "keys": {}, "gpus": {"bus": [], "devices": 0, "driver": None, "model": None},
        "exports": [{"path": "/srv/homes", "clients": "*(rw)"}], "homes": [homes()],
        "file_systems": [
            *ANSWER["file_systems"],
            {"point": "/srv", "fstype": "btrfs", "source": "/dev/sdb", "subvolume": "/", "network": False},
        ],
    }  # fmt: skip
    return host(name, **{**given, **parts})
