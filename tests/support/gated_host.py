"""A host whose systemd does what it is told, for tests of the gate."""

import errno
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.gpus import gate, grants, reconcile, trials

UNITS = (
    "user-20000.slice loaded active active User\nuser-0.slice loaded active active User\n"
    "ssh.service loaded active running\ncron.service not-found inactive dead\n"
)
PEOPLE = {"minji": 20000, "jiho": 20001, **{f"user{number}": 20000 + number for number in range(1, 6)}}


@dataclass
class GatedHost:
    """A host whose systemd does what it is told, or says no; and who can open what."""

    places: gate.Places
    told: list[tuple[str, ...]] = field(default_factory=list)
    allow: dict[str, list[str]] = field(default_factory=dict)
    refuses: str = ""
    lies: list[str] = field(default_factory=list)
    units_there: str = UNITS
    reloads: int = 0
    slurm: tuple[int, str] = (1, "")  # what its programs end with, and print
    people: dict[str, int] = field(default_factory=lambda: dict(PEOPLE))

    def run(self, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        if command[0] == "timeout":  # what Slurm is asked
            return subprocess.CompletedProcess(command, *self.slurm, "")
        if command[1] == "list-units":
            return subprocess.CompletedProcess(command, 0, self.units_there, "")
        if command[1] == "daemon-reload":
            self.reloads += 1
            return subprocess.CompletedProcess(command, 0, "", "")
        if command[1] == "show":
            return subprocess.CompletedProcess(command, 0, "\n", "")
        self.told.append(tuple(command))
        unit = command[3]
        if unit == self.refuses:
            return subprocess.CompletedProcess(command, 1, "", "No such property\n")
        directory = Path(self.places.control) / f"{unit}.d"
        directory.mkdir(parents=True, exist_ok=True)
        (directory / "50-DeviceAllow.conf").write_text("x")
        self.allow[unit] = [
            one[len("DeviceAllow=") :].partition(" ")[0] for one in command if one.startswith("DeviceAllow=/")
        ]
        if "DeviceAllow=char-* rwm" in command:
            del self.allow[unit]
        return subprocess.CompletedProcess(command, 0, "", "")

    def lookup(self, name: str) -> tuple[int, int] | None:
        return (self.people[name], self.people[name]) if name in self.people else None

    def opens(self, cgroup: str, paths: Sequence[str], seconds: float = 1.0) -> list[str]:
        unit = Path(cgroup).name
        return [path for path in paths if path in self.allow.get(unit, paths) or path in self.lies]

    def go(self, now: float = 1500) -> reconcile.Reconciled:
        self.told.clear()
        return reconcile.reconcile(self.places, now)

    def units(self) -> dict[str, list[str]]:
        """Unit → the device files that it was told, but those of every GPU."""
        control = gate.Settings.control
        return {one[3]: [path for path in self.allow.get(one[3], []) if path not in control] for one in self.told}


def read_only(patch: pytest.MonkeyPatch) -> None:
    """As if the file system of the grants took no change."""
    real = os.unlink

    def unlink(path: str) -> None:
        if f"/{grants.DIRECTORY}/" in path:
            raise OSError(errno.EROFS, "Read-only file system", path)
        real(path)

    patch.setattr(os, "unlink", unlink)


def gated_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GatedHost:
    """Two GPUs; minji (uid 20000) is logged in, and sshd runs."""
    for name in ("state", "run", "proc"):
        (tmp_path / name).mkdir()
    for unit in ("user.slice/user-20000.slice", "system.slice/ssh.service"):
        (tmp_path / "cgroups" / unit).mkdir(parents=True)
    files = {name: [str(tmp_path / f"gpu{name}")] for name in "01"}
    for paths in files.values():
        Path(paths[0]).touch()
    settings = {"access": "granted", "gpus": files, "exempt": []}
    (tmp_path / "gate.json").write_text(json.dumps(settings))
    found = GatedHost(
        gate.Places(
            state=str(tmp_path / "state"), run=str(tmp_path / "run"), settings=str(tmp_path / "gate.json"),
            control=str(tmp_path / "control"), kept=str(tmp_path / "kept"), units=str(tmp_path / "units"),
            root=str(tmp_path),
            proc=str(tmp_path / "proc"),
            cgroups=(str(tmp_path / "cgroups"),),
            command=lambda command: found.run(command),  # noqa: PLW0108  it does not exist yet
            lookup=lambda name: found.lookup(name),  # noqa: PLW0108  nor now
        )
    )  # fmt: skip
    gate.keep_out(found.places, gate.read(found.places.settings))
    found.reloads = 0
    monkeypatch.setattr(trials, "opens", found.opens)
    monkeypatch.setattr(trials, "SETTLE", 0.1)
    return found
