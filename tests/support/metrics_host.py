"""A host's processes as /proc has them, in a directory: whose they are, what they have open."""

from __future__ import annotations

import os
from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.module_utils.metrics.owners import Owners

NAMES = {1001: "alice", 1002: "bob", 1003: "carol", 900: "gpuadmin", 0: "root"}
SUBUID = "alice:100000:65536\nbob:165536:65536\n1003:231072:65536\n"
HOST = "pid:[1]"


class Host:
    """``proc`` is the directory; `/dev` has nvidia0 and nvidia1 as ordinary numbers."""

    def __init__(self, at: Path, subuid: str = SUBUID) -> None:
        self.at, self.proc = at, at / "proc"
        self.proc.mkdir()
        (at / "subuid").write_text(subuid)
        (self.proc / "self/ns").mkdir(parents=True)
        (self.proc / "self/ns/pid").symlink_to(HOST)

    def owners(self) -> Owners:
        known = {name: uid for uid, name in NAMES.items()}
        found = Owners(str(self.at / "subuid"), NAMES.get, lambda name: (known[name],) * 2 if name in known else None)
        found.refresh()
        return found

    def process(
        self,
        pid: int,
        uid: int | tuple[int, int, int, int],
        cgroup: str = "0::/system.slice/x.service\n",
        *,
        started: int = 1000,
        name: str = "python",
        namespace: str = HOST,
        files: dict[int, tuple[str, int, int]] | None = None,
        mounts: str = "",
        program: str | None = "/usr/bin/python3",
    ) -> None:
        """``files``: path, inode and mount by number. ``started``: hundredths of a second since boot. ``program``: None
        for a thread of the kernel's."""
        base = self.proc / str(pid)
        for part in ("ns", "fd", "fdinfo"):
            (base / part).mkdir(parents=True)
        uids = (uid,) * 4 if isinstance(uid, int) else uid
        (base / "status").write_text(f"Name:\t{name}\nUmask:\t0022\nUid:\t" + "\t".join(map(str, uids)) + "\nGid:\t0\n")
        (base / "stat").write_text(f"{pid} ({name}) S 1 " + "0 " * 17 + f"{started} 0 0\n")
        (base / "cgroup").write_text(cgroup)
        (base / "ns/pid").symlink_to(namespace)
        if program is not None:
            (base / "exe").symlink_to(program)
        (base / "mountinfo").write_text(mounts)
        for number, (path, inode, mount) in (files or {}).items():
            (base / f"fd/{number}").symlink_to(path)
            (base / f"fdinfo/{number}").write_text(f"pos:\t0\nflags:\t02\nmnt_id:\t{mount}\nino:\t{inode}\n")
        if os.geteuid() == 0:
            os.chown(base, uids[1], uids[1])


def user_cgroup(uid: int, rest: str = "app.slice/x.service") -> str:
    return f"0::/user.slice/user-{uid}.slice/user@{uid}.service/{rest}\n"
