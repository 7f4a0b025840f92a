"""Promoting a host of second copies: which copy each home is made from, what is newer elsewhere, what is in the way.

Pure. What is not known about the old storage host counts as a reason to leave all as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from gpuadmin.answers import Answers
from gpuadmin.common.text import clock, counted, listed
from gpuadmin.config.inventory import Host
from gpuadmin.config.load import Site
from gpuadmin.config.schema import Settings

#: What people read, on their terminals and at login. `{time}`: of the newest copy.
NOTICE = {
    "en": "The storage host failed. Homes are now copies from {time} or earlier. What was saved later is on the failed "
    "host alone: the admins will tell you what can be brought back.\nPrograms that had files in a home open may end "
    "with errors: type `cd`, and start them again.",
    "ko": "스토리지 서버에 장애가 생겨, 홈 디렉터리를 {time} 또는 그 이전의 사본으로 바꾸었습니다. 그 뒤에 저장한 "
    "파일은 고장 난 서버에만 있습니다. 되돌릴 수 있는지는 관리자가 알려 드립니다.\n홈의 파일을 열어 둔 프로그램은 "
    "오류로 끝날 수 있으니, `cd`를 입력하고 다시 실행해 주세요.",
}
READ_ONLY = "For now homes can be read, and not written.\n지금은 홈을 읽을 수만 있고 쓸 수는 없습니다."
_Set = Mapping[str, Any]
WRITES = "Homes can be written again.\n이제 홈에 다시 쓸 수 있습니다."


@dataclass(frozen=True)
class Choice:
    """`homes`: name → the copy that it is made from. `times`: copy → when it was made. `unverified`: whose copy is not
    known to be good by now. `without`: name → why there is none. `newer`: name → a backup that no copy has."""

    homes: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, str] = field(default_factory=dict)
    unverified: frozenset[str] = frozenset()
    without: Mapping[str, str] = field(default_factory=dict)
    newer: Mapping[str, str] = field(default_factory=dict)

    @property
    def newest(self) -> str:
        """When the newest of the copies was made."""
        return max((self.times[one] for one in self.homes.values()), default="")

    def lines(self) -> list[str]:
        """Return a line for each copy: when it was made, and whose homes it has."""
        found = []
        for copy in sorted({*self.homes.values()}, reverse=True):
            names = sorted(name for name, one in self.homes.items() if one == copy)
            weak = [name for name in names if name in self.unverified]
            read = f"; not verified since it came, or damaged since: {listed(weak)}" if weak else ""
            found.append(f"{counted(len(names), 'home')} as of {local_time(self.times[copy])}: {listed(names)}{read}")
        return found


def local_time(stamp: str) -> str:
    """Given `2026-12-21T01:02:03Z`, return the time by this machine's clock."""
    return clock(datetime.fromisoformat(stamp).timestamp())


def choose(
    copies: Iterable[_Set], people: Mapping[str, int] | None, gone: Sequence[str], old: Iterable[_Set], end: str
) -> Choice:
    """Given the sets of copies, who has an account (name → uid; None: a directory knows) and who is `gone`, return
    which copy each home is made from: the newest, since each was compared with its manifest when it came.

    `old`: the old storage host's own sets, where it answers. `end`: no copy can be from later (2026-12-21T01:02:03Z).
    """
    homes: dict[str, str] = {}
    times, unverified = {}, set[str]()
    without = dict.fromkeys(people or {}, "there is no copy")
    for one in sorted(copies, key=lambda one: _rank(str(one["created"]), end)):
        times[one["name"]] = str(one["created"])
        for name, home in one["homes"].items():
            uid = (people or {}).get(name)
            if name in gone or (people is not None and uid is None and not name.startswith("_")):
                continue  # nobody's: it stays in the copy
            if uid not in (None, home["uid"]):  # guard: nobody gets a home of another uid's
                without[name] = f"the copy is of uid {home['uid']}, not {uid}: gpuadmin restore-home {name}"
                continue
            homes[name] = one["name"]
            (unverified.discard if home["verified"] else unverified.add)(name)
    newer: dict[str, str] = {}
    for one in sorted(old, key=lambda one: str(one["created"])):
        names = [name for name in one["homes"] if str(one["created"]) > times.get(homes.get(name, ""), "")]
        newer |= dict.fromkeys(names, str(one["name"]))
    left = {name: why for name, why in without.items() if name not in homes}
    return Choice(homes, times, frozenset(unverified), left, newer)


def find_uids(site: Site) -> dict[str, int] | None:
    """Who has an account (name → uid); None: a directory knows."""
    if site.settings.accounts.source != "registry":
        return None
    return {one.name: one.uid or 0 for one in site.registry.registry.users}


def find_end(now: datetime) -> str:
    """Given the time in UTC, return the latest time that a copy can be from: clocks differ."""
    return f"{now + timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}"


def _rank(created: str, end: str) -> tuple[bool, str]:
    # guard: a copy that a clock had in another year is not the newest -> (True, created)
    return created <= end, created


def find_refusal(host: Host, old: Host, copies: Answers, serves: Answers) -> str:
    """Why a host is not promoted; or empty. `copies`: what hosts say of backups. `serves`: what they have of the old
    host's."""
    unknown = {**copies.unknown, **serves.unknown}
    if host.name in unknown:  # guard: a host that cannot say whether the old one serves takes nothing over
        return f"{host.name}: {unknown[host.name]}"
    if old.name in copies.failed:  # guard: an old storage host that could not be looked at is not a dead one
        return f"{old.name} answers, and could not be looked at: {copies.unknown[old.name]}"
    seen = sorted(name for name, one in serves.known.items() if one["answers"])
    # guard: two hosts never serve homes -> ""
    return f"{old.name} serves: its NFS port answers {listed(seen)}. {_way_out(old, copies)}" if seen else ""


def _way_out(old: Host, copies: Answers) -> str:
    if old.name not in copies.known:
        return f"People may work there: cut its power (the plug, or gpuadmin power off {old.name} --hard)"
    if "storage" not in old.groups:
        return f"gpuadmin provision --limit {old.name} takes its export away"
    stop = f"gpuadmin run {old.name} -- systemctl disable --now nfs-server"
    return f"gpuadmin run gpu -- sync; {stop}; then, as nothing is saved any more, gpuadmin backup, and promote again"


def find_left(settings: Settings, old: Host) -> list[str]:
    """What does not come along, of what the site has there."""
    left = [f"what was saved after these copies, the attic, and backups that are not copies are on {old.name} alone"]
    left += [f"/shared/{one.name} has no backup (shared): it is away" for one in settings.shared if not one.backup]
    if settings.images.server in (None, old.name):
        left.append(f"images are on {old.name}: nodes go on with theirs, gpuadmin build-image makes new ones")
    for group, what in (("slurm", "the queue, and its accounting (copy _slurm)"), ("monitor", "measurements")):
        if group in old.groups:
            left.append(f"{what} were on {old.name}: put another host into the group {group}, then gpuadmin provision")
    return left
