"""A site and a host's root in a directory, to be broken in one way each; what `diagnose` then says of them.

The node's own code looks at the root, as it does on a host; the controller's rules judge. No ssh is between them.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import (
    account,
    amounts,
    collect,
    dns,
    docker,
    gpus,
    home,
    host,
    pam,
    sessions,
    trial,
    trying,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject
from ansible_collections.gpuadmin.node.plugins.module_utils.documents import parse
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import cdi
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus.look import Places, look
from ansible_collections.gpuadmin.node.plugins.module_utils.ship import read_module_source

from gpuadmin.common.causes.judge import judge
from gpuadmin.common.records.diagnosis import RegisteredPerson
from gpuadmin.config.schema import Registry, User
from gpuadmin.diagnosis.verdict import Asked, first_line, verdict
from tests.support import fake_nvml
from tests.support.sites import public_key
from tests.support.storage import mounted, run

UID, NAME, NODE = 20000, "minji", "node1"
TODAY = date(2026, 11, 23)
SERVER = "storage1:/srv/storage/homes"
VERSION = "550.163.01"
SLICE = f"sys/fs/cgroup/user.slice/user-{UID}.slice"


@dataclass
class Broken:
    """One node, and what the site says of minji. `root`: the node's files."""

    root: Path
    user: User | None
    retired: list[dict[str, Any]] = field(default_factory=list)
    name: str = NAME
    ahead: float = 0.0  # seconds that the node's clock is ahead of the controller's
    silent: dict[str, str] = field(default_factory=dict)
    servers: tuple[str, ...] = ()
    manager: str = "active"
    mounted: str = f"1 0 0:1 / / rw - btrfs /dev/vda2 rw\n2 1 0:2 / /home rw - nfs4 {SERVER} rw\n"
    seconds: float = 20.0
    expected: int | None = None  # GPUs, by the inventory
    parts: dict[str, Callable[[Subject], object]] = field(default_factory=dict)
    clean: list[Callable[[], object]] = field(default_factory=list)

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def own(self, name: str, text: str) -> None:
        """Write a file of minji's."""
        os.chown(self.write(name, text), UID, UID)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.root / name).read_text()
        assert old in text
        (self.root / name).write_text(text.replace(old, new))

    def set(self, **changes: Any) -> None:
        vars(self).update(changes)

    def part(self, name: str, found: object) -> None:
        """Have a part of the look find this."""
        self.parts[name] = lambda _: found

    def tell_amount(self, gigabytes: int, *, held: bool) -> None:
        """Have it told on disk what minji has of the 500 GB that their home may have."""
        told = {"bytes": gigabytes * 10**9, "most": 500 * 10**9, "held": held, "when": time.time(), "partial": False}
        self.write(f"home/.gpuadmin-amounts/{NAME}.json", json.dumps(told))

    def user_is(self, **changes: Any) -> None:
        assert self.user is not None
        self.user = self.user.model_copy(update=changes)

    def fill(self, name: str, options: str) -> None:
        """Mount a small file system of memory there, with what was there, and fill it."""
        path = self.root / name
        inside = [(one.name, one.stat().st_uid, oct(one.stat().st_mode & 0o7777)[2:]) for one in path.iterdir()]
        subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)], check=True)
        self.clean.append(lambda: subprocess.run(["umount", str(path)], check=True))
        for one, uid, mode in inside:
            (path / one).mkdir()
            os.chown(path / one, uid, uid)
            (path / one).chmod(int(mode, 8))

    def quota(self) -> None:
        """Have the homes on btrfs, and minji's with a quota that is used up."""
        (self.root / "home" / NAME).rmdir()
        (self.root / "home").rmdir()
        disk = mounted(self.root / "disk", self.root / "home", 128)
        home = disk.__enter__() / NAME
        self.clean.append(lambda: disk.__exit__(None, None, None))
        run("btrfs", "quota", "enable", home.parent)
        run("btrfs", "subvolume", "create", home)
        home.chmod(0o700)
        os.chown(home, UID, UID)
        run("btrfs", "qgroup", "limit", "1M", home)
        with contextlib.suppress(OSError), (home / "checkpoint").open("wb", buffering=0) as stream:
            for _ in range(1000):
                stream.write(os.urandom(4096))
                os.fsync(stream.fileno())

    def daemon(self, answers: Mapping[str, Any] | None) -> None:
        """Have a Docker daemon of minji's run; `answers`: path → JSON; None: it takes connections and says nothing."""
        self.write(f"{SLICE}/user@{UID}.service/app.slice/docker.service/cgroup.events", "populated 1\nfrozen 0\n")
        path = self.root / f"run/user/{UID}/docker.sock"
        path.unlink(missing_ok=True)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(str(path))
        os.chown(path, UID, UID)
        listener.listen(8)
        self.clean.append(listener.close)
        if answers is not None:
            thread = threading.Thread(target=_answering, args=(listener, answers), daemon=True)
            thread.start()

            def end() -> None:
                # a thread that waits for a number which is closed would take whatever has that number next
                listener.shutdown(socket.SHUT_RDWR)
                thread.join()

            self.clean.append(end)

    def container(self, architecture: str = "amd64", **state: Any) -> None:
        """Have a container that ended: its State, as Docker's API has it, and what its image is for."""
        identity, image = "0123456789ab" + "0" * 52, "sha256:" + "1" * 64
        self.daemon(
            {
                f"/images/{image}/json": {"Architecture": architecture},
                "/containers/json": [{"Id": identity}],
                f"/containers/{identity}/json": {
                    "Name": "/train",
                    "Image": image,
                    "State": {"FinishedAt": "2026-11-23T01:00:00Z"} | state,
                },
            }
        )

    def gpu(self, address: str = "0000:01:00.0", driver: str | None = "nvidia") -> None:
        """Have a GPU of NVIDIA's on the bus."""
        at = self.root / "sys/bus/pci/devices" / address
        for name, value in (("vendor", "0x10de"), ("device", "0x2330"), ("class", "0x030200")):
            self.write(f"sys/bus/pci/devices/{address}/{name}", f"{value}\n")
        if driver is not None:
            drivers = self.root / "sys/bus/pci/drivers" / driver
            drivers.mkdir(parents=True, exist_ok=True)
            (at / "driver").symlink_to(drivers)

    def gpus(self, *changes: tuple[str, str | None], gpu: int | None = None, libraries: str = VERSION) -> None:
        """Have two GPUs with NVIDIA's driver, its management library, and names for containers (CDI)."""
        for address in ("0000:01:00.0", "0000:41:00.0"):
            self.gpu(address)
        self.write("sys/module/nvidia/version", f"{VERSION}\n")
        (self.root / "dev").mkdir()
        for name in ("nvidiactl", "nvidia0", "nvidia1"):
            os.mknod(self.root / "dev" / name, stat.S_IFCHR, os.makedev(1, 3))
            (self.root / "dev" / name).chmod(0o666)
        directory = self.root / "usr/lib/x86_64-linux-gnu"
        directory.mkdir(parents=True, exist_ok=True)
        # a copy: the file that the link leads to has the version in its name
        (directory / f"libnvidia-ml.so.{libraries}").write_bytes(fake_nvml.library().read_bytes())
        (directory / fake_nvml.NAME).symlink_to(f"libnvidia-ml.so.{libraries}")
        described = self.write("nvml", fake_nvml.described(*changes, gpu=gpu))
        os.environ[fake_nvml.VARIABLE] = str(described)
        self.clean.append(lambda: os.environ.pop(fake_nvml.VARIABLE))
        self.write(cdi.UNIT, "")
        answering = look(
            Places(str(self.root), str(self.root / "sys/bus/pci/devices"), lock=f"{self.root}/run/gpus/l")
        ).gpus
        edits = {"deviceNodes": [{"path": "/dev/nvidia0"}, {"path": "/dev/nvidia1"}]}
        devices = [{"name": name, "containerEdits": {}} for name in sorted({*cdi.wanted(answering), cdi.ALL})]
        self.write(cdi.SPEC, json.dumps({"kind": cdi.KIND, "devices": devices, "containerEdits": edits}))

    def process(self, pid: int, uid: int) -> None:
        """Have a process in somebody's session."""
        self.write(f"proc/{pid}/cgroup", f"0::/user.slice/user-{uid}.slice/session-1.scope\n")

    def facts(self) -> dict[str, Any]:
        """What the node's code finds, each part in a process of its own as on a node, and what it makes of that."""
        asked = parse(RegisteredPerson, self.asked().person, "person")
        subject = Subject(
            name=self.name, uid=None if self.user is None else self.user.uid, homes="/home", docker="/local/.docker",
            servers=self.servers, gpus=self.expected, root=str(self.root),
        )  # fmt: skip
        mounted = self.mounted
        parts: dict[str, Callable[[Subject], object]] = {
            "account": account.account, "keys": account.sshd_keys, "home": home.home, "docker": docker.docker,
            "containers": docker.containers, "amounts": amounts.own, "clock": host.clock, "names": host.names,
            "memory": host.memory,
            "mount": lambda one: home.mount(one, mounted),
            "homes": lambda one: {**home.homes(one), "mount": home.mount(one, mounted)},
            "sessions": lambda one: {
                "manager": self.manager, "words": [], "slice": sessions.count_slice(UID, one.path(sessions.CGROUP)),
            },
            "gpus": gpus.gpus, "kernels": gpus.kernels, "dns": dns.dns, "temporary": host.temporary, "pam": pam.pam,
        } | ({"trial": self.session} if self.asked().untried is None else {}) | self.parts  # fmt: skip
        facts = collect.collect(subject, seconds=self.seconds, chosen=parts)
        return {**facts, "causes": [one.document() for one in judge(facts, asked)]}

    def session(self, subject: Subject) -> dict[str, Any]:
        """What is tried in a session of minji's, as them and in their home; PAM and systemd are not in a directory."""
        entry = account.find_entry(subject, self.name)
        assert entry is not None
        home, shell = subject.path(entry.pw_dir), subject.path(entry.pw_shell)
        with subprocess.Popen(
            [trial.PYTHON, "-I", "-S", "-c", read_module_source(trying)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            user=UID, group=UID, extra_groups=(), env={"HOME": home, "PATH": os.environ["PATH"]}, cwd="/",
        ) as process:  # fmt: skip
            asked = {"home": home, "shell": shell if Path(shell).stat().st_size else entry.pw_shell, "docker": None}
            return trial.run_steps(process, None, UID, asked)

    def asked(self) -> Asked:
        users = [] if self.user is None else [self.user.model_dump()]
        registry = Registry.model_validate({"users": users, "retired": self.retired})
        return Asked(self.name, registry, TODAY, "storage1", "/srv/storage/homes")

    def says(self) -> tuple[str, str]:
        """The first line, and what to do."""
        asked = self.asked()
        known = {} if NODE in self.silent else {NODE: self.facts()}
        times = {NODE: known[NODE]["clock"]["seconds"] - self.ahead} if known else {}
        found = [one for one in verdict(asked, known, self.silent, times) if one.code != "clock-free"]
        return first_line(asked, found, known), found[0].todo if found else ""


def _answering(listener: socket.socket, answers: Mapping[str, Any]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            question = connection.recv(65536).split()[1].decode().partition("?")[0]
            body = json.dumps(answers.get(question, {})).encode()
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n" + body)


def sound(root: Path) -> Broken:
    """A node on which nothing is wrong: minji has an account, a key, a home, and Docker."""
    broken = Broken(root, User(name=NAME, uid=UID, keys=[public_key(NAME)]))
    root.chmod(0o755)  # a daemon is asked as its person, who has to reach the socket
    broken.write("etc/passwd", f"root:x:0:0::/root:/bin/bash\n{NAME}:x:{UID}:{UID}::/home/{NAME}:/bin/bash\n")
    broken.write("etc/shadow", f"root:*:1::::::\n{NAME}:*:1:0:99999:7:::\n", 0o600)
    for kind in ("subuid", "subgid"):
        broken.write(f"etc/{kind}", f"{NAME}:2147483648:65536\n")
    broken.write("bin/bash", "", 0o755)
    broken.write("usr/bin/dockerd", "", 0o755)
    for name in ("newuidmap", "newgidmap"):
        broken.write(f"usr/bin/{name}", "", 0o4755)
    broken.write("etc/pam.d/sshd", "@include common-session\nsession required pam_limits.so # limits\n")
    broken.write(
        "etc/pam.d/common-session", "account [success=1 default=ignore] pam_unix.so\n-session optional pam_no.so\n"
    )
    for name in ("pam_unix.so", "pam_limits.so"):
        broken.write(f"usr/lib/x86_64-linux-gnu/security/{name}", "")
    broken.write(f"var/lib/gpuadmin/keys/{NAME}", public_key(NAME) + "\n")
    broken.write("proc/meminfo", "MemTotal: 100000 kB\nMemAvailable: 50000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n")
    for name, mode in (("home/minji", 0o700), ("local/.docker/minji", 0o700), (f"run/user/{UID}", 0o700)):
        (root / name).mkdir(parents=True)
        (root / name).chmod(mode)
        os.chown(root / name, UID, UID)
    for name in ("tmp", "var/tmp"):
        (root / name).mkdir(parents=True)
        (root / name).chmod(0o1777)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(str(root / f"run/user/{UID}/docker.sock"))
    bound.close()  # systemd's would listen; that it is there, and whose it is, is what is looked at
    os.chown(root / f"run/user/{UID}/docker.sock", UID, UID)
    return broken


@contextmanager
def one(root: Path) -> Iterator[Broken]:
    """A sound node, whose mounts and servers are gone afterwards."""
    broken = sound(root)
    try:
        yield broken
    finally:
        for clean in reversed(broken.clean):
            clean()
