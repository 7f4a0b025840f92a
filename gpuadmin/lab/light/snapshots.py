"""Saving light hosts and bringing them back: their disks. What they had in memory is not saved; they boot."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gpuadmin.lab.commands import run
from gpuadmin.lab.light import disk, machine
from gpuadmin.lab.light.host import find_cgroup
from gpuadmin.lab.state import Host, Lab

DISKS = ("disk.img", "data.img")


def save(lab: Lab, snapshot: str) -> None:
    """Copy the disks of all hosts of a running lab, at one moment: they are paused meanwhile."""
    frozen = [find_cgroup(lab, host) / "cgroup.freeze" for host in lab.hosts]
    try:
        for switch in frozen:
            switch.write_text("1")
        run(("sync",))  # their file systems are this kernel's
        for host in lab.hosts:
            place = _place_copy(lab, host, snapshot)
            place.mkdir(parents=True, exist_ok=True)
            for name in DISKS:
                if (lab.host_directory(host) / name).exists():
                    disk.copy(lab.host_directory(host) / name, place / name)
    finally:
        for switch in frozen:
            switch.write_text("0")


def restore(lab: Lab, hosts: Sequence[Host], snapshot: str) -> None:
    """End the hosts and put their disks back; they are off afterwards."""
    for host in lab.hosts:  # a disk of the storage host is in use as long as any of them runs
        machine.kill(lab, host)
    for host in hosts:
        for name in DISKS:
            saved = _place_copy(lab, host, snapshot) / name
            if saved.exists():
                disk.copy(saved, lab.host_directory(host) / name)


def _place_copy(lab: Lab, host: Host, snapshot: str) -> Path:
    return lab.host_directory(host) / "saved" / snapshot
