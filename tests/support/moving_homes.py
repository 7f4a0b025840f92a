"""Two nodes with homes and a storage host, as directories of one machine: the jobs of both sides, without ssh."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpuadmin.takeover.node.moving import (
    aside,
    jobs,
    looking,
    placing,
    record,
    taking,
)
from tests.support import independent

ROOT = Path(__file__).resolve().parents[2]
NODES = ("gpu1", "gpu2")
#: Node code needs the standard library alone, and starts sooner without looking for what else is installed.
PYTHON = (sys.executable, "-I", "-S")
#: What sshd does with the key of the storage host.
SERVE = """
import sys
sys.path[:0] = sys.argv[1].split(":")
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from gpuadmin.takeover.node.moving import serving
try:
    serving.serve(f"{sys.argv[2]}/{sys.argv[3]}/state", sys.argv[4], run=f"{sys.argv[2]}/{sys.argv[3]}/run")
except (NodeError, OSError) as error:
    sys.exit(f"Error: {error}")
"""


def end_before(step: int, job: str, arguments: dict[str, Any]) -> None:
    """Do a job of the storage host, in this process, which is killed right before that step of the job."""
    left = step

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*given: Any, **more: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*given, **more)

        return counting

    for module in (record, taking, placing):
        for name in ("save", "gone", "sync_filesystem", "rename_new", "exchange", "asked"):
            if hasattr(module, name):
                setattr(module, name, counted(getattr(module, name)))
    # one after the other, in this process
    jobs.each = lambda function, tasks, *_: ((task, function(task)) for task in tasks)
    getattr(jobs, job)(arguments)


class Cluster:
    """`base`/HOST/home is a node's directory of homes, `base`/storage/homes that of the storage host."""

    def __init__(self, base: Path, storage: Path | None = None) -> None:
        self.base = base
        self.storage = storage or base / "storage"
        self.homes = self.storage / "homes"
        self.state = self.storage / "state"
        self.skeleton = base / "skel"
        self.paths = f"{ROOT}/gpuadmin/collections:{ROOT}"
        for path in (self.homes, self.state, self.skeleton, *(base / host / "home" for host in NODES)):
            path.mkdir(parents=True)
            path.chmod(0o755)
        for host in NODES:
            record.make(str(base / host / "state"))
        (self.skeleton / ".profile").write_text("umask 022\n")
        (base / "serve.py").write_text(SERVE)

    def home(self, host: str, name: str, uid: int, files: dict[str, bytes]) -> Path:
        """A home with files, on a node or (`storage`) on the storage host."""
        top = (self.homes if host == "storage" else self.base / host / "home") / name
        top.mkdir(mode=0o700, exist_ok=True)
        for inner, content in files.items():
            path = top / inner
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        own(top, uid)
        return top

    def parts(self, name: str, uid: int, *hosts: str, there: bool = False) -> list[dict[str, Any]]:
        """The homes of a person as the controller would have them fetched; the first is the main one."""
        found = []
        for number, host in enumerate(hosts):
            facts = (self.base / host / "home" / name).stat()
            found.append(
                {"name": name, "uid": uid, "host": host, "main": number == 0 and not there, "there": there,
                 "device": facts.st_dev, "inode": facts.st_ino, "step": record.BEGUN, "checksum": "", "files": 0,
                 "bytes": 1000}
            )  # fmt: skip
        return found

    def arguments(self, parts: list[dict[str, Any]]) -> dict[str, Any]:
        for host in NODES:
            allowed = [one for one in parts if one["host"] == host]
            place = Path(record.directory(str(self.base / host / "state"))) / "allowed.json"
            place.write_text(json.dumps({"path": str(self.base / host / "home"), "homes": allowed}))
        return {
            "homes": parts, "root": str(self.homes), "workers": 1, "skeleton": str(self.skeleton),
            "state": str(self.state), "run": str(self.base / "run"),
            "command": [*PYTHON, str(self.base / "serve.py"), self.paths, str(self.base)],
        }  # fmt: skip

    def do(self, job: str, parts: list[dict[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = getattr(jobs, job)(self.arguments(parts))
        return found

    def killed(self, job: str, parts: list[dict[str, Any]], step: int) -> bool:
        """Run a job that is killed right before its N-th step. Returns whether it had so many.

        In a fork, which has imported everything: a Python of its own would take longer to start than the job takes.
        """
        process = multiprocessing.get_context("fork").Process(
            target=end_before, args=(step, job, self.arguments(parts))
        )
        process.start()
        process.join()
        assert process.exitcode in (0, -signal.SIGKILL)
        return process.exitcode != 0

    def parts_there(self, *people: str) -> list[dict[str, Any]]:
        """What the storage host says of homes that are being moved."""
        wanted = {name: (self.homes / name).stat().st_uid for name in people if (self.homes / name).exists()}
        found: list[dict[str, Any]] = looking.storage(
            str(self.homes), wanted, str(self.skeleton), str(self.state)
        )["parts"]  # fmt: skip
        return found

    def aside(self, parts: list[dict[str, Any]]) -> None:
        """Rename the old homes on their nodes."""
        for one in parts:
            aside.set_aside(self.node_homes(one), self.node_state(one), old(one))

    def node_homes(self, part: dict[str, Any]) -> str:
        return str(self.base / part["host"] / "home")

    def node_state(self, part: dict[str, Any]) -> str:
        return str(self.base / part["host"] / "state")


def old(part: dict[str, Any]) -> record.Part:
    return record.Part(**{key: value for key, value in part.items() if key != "placed"})


def own(top: Path, uid: int) -> None:
    """Everything in it is that person's."""
    for path in (top, *top.rglob("*")):
        os.lchown(path, uid, uid)


def facts(top: Path | str) -> dict[str, Any]:
    """What is in a home, told by a program that shares nothing with gpuadmin. Each step asks it half a dozen times."""
    found: dict[str, Any] = json.loads(json.dumps(independent.manifest(str(top))))
    return found


def differ(before: dict[str, Any], top: Path) -> list[str]:
    return independent.differences(before, facts(top))
