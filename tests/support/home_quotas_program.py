"""What test_user_quotas.py runs in a kernel of its own: homes on ext4 and xfs, held to amounts and let go."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.desired import DesiredState, Settings
from ansible_collections.gpuadmin.node.plugins.module_utils.disk import carried_ids, home_quotas, shared_amounts
from ansible_collections.gpuadmin.node.plugins.module_utils.homes import shared
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.amounts import Amounts
from ansible_collections.gpuadmin.node.plugins.module_utils.limits.room import Kept, Places
from ansible_collections.gpuadmin.node.plugins.module_utils.mounts import read_mountinfo
from ansible_collections.gpuadmin.node.plugins.module_utils.user_quotas import UserQuotas

from gpuadmin.common.records.homes import SharedDirectory

ACCOUNTS: dict[str, str | None] = {"passwd": "", "shadow": "", "group": ""}
UIDS = {"minji": 20001, "jiho": 20002}


class Disk:
    """A disk with the homes of two people; ``options``: of its mount."""

    def __init__(self, device: str, fstype: str, options: str) -> None:
        self.fstype = fstype
        self.top = Path("/run", Path(device).name)
        self.top.mkdir()
        subprocess.run(["mount", "-t", fstype, "-o", options, device, str(self.top)], check=True)
        self.homes = self.top / "homes"
        for name, uid in UIDS.items():
            (self.homes / name).mkdir(parents=True)
            os.chown(self.homes / name, uid, uid)
        self.places = Places(f"{self.top}-state", f"{self.top}-run")
        self.host = replace(home_quotas.Host(), lookup=lambda name: (UIDS[name], UIDS[name]) if name in UIDS else None)

    def hold(self, home: str) -> Kept:
        wanted = Amounts(home, homes=str(self.homes), mountpoint=str(self.top))
        return home_quotas.hold(self.places, wanted, host=self.host)

    def write(self, name: str, megabytes: int, path: str = "") -> str:
        """Why writing so much as that person failed; nothing where it did not."""
        who = ["setpriv", f"--reuid={UIDS[name]}", f"--regid={UIDS[name]}", "--clear-groups"]
        dd = [
            "dd",
            "if=/dev/zero",
            f"of={path or f'{self.homes}/{name}/file'}",
            "bs=1M",
            f"count={megabytes}",
            "conv=fsync",
        ]
        done = subprocess.run(who + dd, stderr=subprocess.PIPE, text=True, check=False)
        return done.stderr.splitlines()[0].rpartition(": ")[2] if done.returncode else ""

    def say(self, *words: object) -> None:
        print(":", self.fstype, *words, flush=True)

    def story(self) -> None:
        self.say("set", len(self.hold("50M").done))
        self.say("again", self.hold("50M") == Kept())
        self.say("below", self.write("minji", 40))
        self.say("above", self.write("minji", 80))
        self.say("neighbour", self.write("jiho", 20))
        used = home_quotas.used(self.places.state, self.host)["minji"]
        self.say("counted", 45_000_000 < used.bytes <= used.most, used.held)
        self.say("less", *self.hold("30M").problems, self.write("minji", 40))
        self.say("back", len(self.hold("unlimited").done))
        self.say("free", self.write("minji", 80))
        (self.homes / "minji/deep/in").mkdir(parents=True)
        os.chown(self.homes / "minji/deep/in", 20003, 0)
        found = carried_ids.look(
            carried_ids.Places([str(self.homes)]), Settings(), DesiredState(), ACCOUNTS, f"{self.top}-records"
        )
        self.say("carried", sorted(found.ids), found.ids[20003], found.looked[1:], found.not_looked)

    def share(self) -> None:
        """A directory that minji's group shares, of 50 MB, with a project of its own."""
        place = f"{self.top}/shared/data"
        one = SharedDirectory("data", place, "minji", UIDS["minji"], "50M", backup=False)
        made = shared.converge([one], str(self.homes), str(self.top), read_mountinfo(), check=False)
        held = shared_amounts.hold([one], check=False)
        self.say("shared", len(made.done), *made.problems, len(held.done), *held.notes, *held.problems)
        self.say("shared again", shared_amounts.hold([one], check=False) == Kept())
        self.say("shared below", self.write("minji", 40, f"{place}/file"))
        self.say("shared above", self.write("minji", 80, f"{place}/file"))
        shared_amounts.hold([replace(one, size="unlimited")], check=False)
        self.say("shared free", self.write("minji", 80, f"{place}/file"))


if __name__ == "__main__":
    for disk in (Disk("/dev/ubda", "ext4", "usrquota,prjquota"), Disk("/dev/ubdb", "xfs", "uquota,pquota")):
        disk.story()
        disk.share()
    for disk in (Disk("/dev/ubdc", "ext4", "rw"), Disk("/dev/ubdd", "xfs", "rw")):
        kept = disk.hold("50M")
        disk.say("off", kept.done, kept.problems, *kept.notes)
        disk.say("users", list(UserQuotas(f"/dev/{disk.top.name}").users()))
