"""Amounts: how much one person may have in their home, of Docker's data and of scratch, and what they are told.

The kernel holds to it: Docker's data and scratch on btrfs (place_amounts.py), homes on ext4 and xfs with user quotas
(disk/home_quotas.py). All else was measured, and is told; scratch without quotas is not.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

from gpuadmin.common.amounts import UNLIMITED, disk_amount
from gpuadmin.common.text import listed, size_words

from .. import btrfs, qgroups
from ..errors import NodeError
from ..files import make_directory, read_bytes
from ..paths import OF_PEOPLE, STATE
from . import records

RECORD = "amounts.json"
HOME, DOCKER, SCRATCH = "home", "docker", "scratch"
NEARLY = 90  # percent of an amount: from here on people are told when they log in
#: In the directory of homes: for each person what was measured there. Nodes cannot count a large home in time.
OF_HOMES = ".gpuadmin-amounts"
#: On a node: what people with nearly all of an amount of its disk read when they log in.
OF_DOCKER = "/run/gpuadmin-amounts"
LANGUAGES = ("en", "ko")


@dataclass(frozen=True)
class OwnAmounts:
    names: Sequence[str]
    home: Optional[str] = None
    docker: Optional[str] = None
    scratch: Optional[str] = None


@dataclass(frozen=True)
class Amounts:
    """What amounts.json has. ``homes``: where the homes are, on the storage host; ``mountpoint``: of their disk.

    ``data``: where Docker's data is, on a node; ``scratch_in``: where each person has a directory there. ``admin``:
    whom no amount concerns.
    """

    home: str = UNLIMITED
    docker: str = UNLIMITED
    people: Sequence[OwnAmounts] = ()
    homes: Optional[str] = None
    mountpoint: Optional[str] = None
    data: Optional[str] = None
    admin: Optional[str] = None
    scratch: str = UNLIMITED
    scratch_in: Sequence[str] = ()

    def most(self, place: str, name: str) -> int | None:
        """Bytes that somebody may have, of HOME, DOCKER or SCRATCH; None: as much as there is. The later entry wins."""
        if name == self.admin:
            return None
        own = [getattr(one, place) for one in self.people if name in one.names and getattr(one, place) is not None]
        return disk_amount(str((own or [getattr(self, place)])[-1]))

    def directories(self, place: str) -> list[str]:
        """What has everybody's places of that kind on this host."""
        if place == SCRATCH:
            return [one for one in self.scratch_in if one != self.data]
        found = self.homes if place == HOME else self.data
        return [] if found is None else [found]

    def bounds(self, place: str) -> bool:
        """Whether anybody has such an amount on this host."""
        if not self.directories(place):
            return False
        said = [getattr(self, place), *(getattr(one, place) for one in self.people)]
        return any(one not in (None, UNLIMITED) for one in said)

    def words(self) -> list[str]:
        """What everybody may have here, and who differs; nothing where there are no amounts."""
        found = []
        kinds = ((HOME, "a home"), (DOCKER, "a person's Docker data"), (SCRATCH, "a person's scratch"))
        for place, what in kinds:
            if not self.bounds(place):
                continue
            own = [
                f"{', '.join(one.names)}: {_size(getattr(one, place))}"
                for one in self.people
                if getattr(one, place) is not None
            ]
            where, most = listed(self.directories(place)), _size(getattr(self, place))
            found.append("; ".join([f"{where}: {what} may have {most}", *own]))
        return found


@dataclass(frozen=True)
class Used:
    """Bytes that somebody has, and may have. ``held``: the kernel refuses more.

    ``when``: seconds since 1970 when it was measured; None: it is so now. ``partial``: it is more than was counted.
    """

    bytes: int
    most: int
    held: bool = False
    when: Optional[float] = None
    partial: bool = False

    @property
    def percent(self) -> int:
        return self.bytes * 100 // self.most


def _size(text: str) -> str:
    amount = disk_amount(text)
    return "as much as there is" if amount is None else size_words(amount)


def load(state: str = STATE) -> Amounts | None:
    """What this host was told; None: nothing. Anybody may ask. Raises NodeError for a damaged record."""
    return records.load(Amounts, os.path.join(state, RECORD))


def of_node(amounts: Amounts, place: str, name: str, state: str = STATE) -> Used | None:
    """What somebody has of Docker's data, or of scratch, on this node; of several directories the fullest.

    None: they have no amount, no place, or it was not measured. Root may ask for everybody, and people for themselves.
    """
    most, directories = amounts.most(place, name), amounts.directories(place)
    if most is None or not directories:
        return None
    groups = [find_group(os.path.join(one, name)) for one in directories]
    held = [Used(one.used, one.most, held=True) for one in groups if one is not None and one.most is not None]
    if held or place == SCRATCH:  # what was measured of scratch has /tmp in it
        return max(held, key=lambda one: one.percent, default=None)
    measured = _numbers(os.path.join(state, OF_PEOPLE, f"{name}.json"), DOCKER)
    return None if measured is None else Used(measured.bytes, most, when=measured.when, partial=measured.partial)


def find_group(path: str) -> qgroups.Group | None:
    """What the kernel counts of a person's place; None: it is not a subvolume, or has no group."""
    try:
        handle = btrfs.open_directory(path)
    except OSError:
        return None
    try:
        found, uuid = btrfs.read_subvolume(handle), btrfs.read_file_system_uuid(handle)
        if found is None or uuid is None or os.fstat(handle).st_ino != btrfs.SUBVOLUME_INODE:
            return None
    finally:
        os.close(handle)
    return qgroups.group(uuid, qgroups.own_group(found.id))


def of_home(homes: str, name: str) -> Used | None:
    """What the storage host says of somebody's home. None: they have no amount there, or it was not measured."""
    return _numbers(os.path.join(homes, OF_HOMES, f"{name}.json"), None)


def _numbers(path: str, place: str | None) -> Used | None:
    """A file of ours with what was measured; None where there is none for whoever asks, or it is damaged."""
    try:
        found = json.loads(read_bytes(path) or b"")
        found = found if place is None else found[place]
        most = int(found["most"]) if place is None else 1
        held = found.get("held") is True
        used = Used(int(found["bytes"]), most, held, float(found["when"]), bool(found["partial"]))
    except (OSError, NodeError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return used if used.most > 0 else None


def make_place(path: str, name: str, uid: int, gid: int, state: str, place: str = DOCKER) -> None:
    """Make somebody's place for Docker's data, or scratch: a subvolume where they have an amount of it, else a
    directory.

    One that exists is left alone. The caller brings it to the disk.
    """
    try:
        amounts = load(state)
    except NodeError:
        amounts = None  # the role that applies it says so
    known = amounts is not None and amounts.directories(place) and amounts.most(place, name) is not None
    if not known or os.path.lexists(path):
        make_directory(path, 0o700, uid, gid, sync=False)
        return
    above, last = os.path.split(path)
    new = os.path.join(above, f".{last}.gpuadmin-new")
    if os.path.lexists(new):
        os.rmdir(new)  # guard: a place that a power cut left half made keeps nobody from theirs
    if not btrfs.try_create(new):
        make_directory(path, 0o700, uid, gid, sync=False)
        return
    os.chmod(new, 0o700)
    os.chown(new, uid, gid)  # guard: a place is its person's before it has its name
    os.rename(new, path)  # whole, or not there


def warning(place: str, used: Used, language: str) -> str:
    """What somebody reads when they log in: empty below NEARLY percent."""
    if used.percent < NEARLY:
        return ""
    has, most = size_words(used.bytes), size_words(used.most)
    if language == "ko":
        what = {HOME: "홈 디렉터리", DOCKER: "이 노드의 Docker 데이터", SCRATCH: "이 노드의 임시 공간"}[place]
        after = "한도를 넘으면 더 이상 쓸 수 없습니다" if used.held else "한도를 넘지 않게 정리해 주세요"
        return f"{what}: 한도 {most} 중 {has} 사용({used.percent}%). {after}. 큰 파일: gpuadmin-me disk\n"
    what = {HOME: "your home", DOCKER: "your Docker data on this node", SCRATCH: "your scratch on this node"}[place]
    after = "At 100% nothing more can be written" if used.held else "Please stay below it"
    return f"{what}: {has} of {most} ({used.percent}%). {after}. What is large: gpuadmin-me disk\n"
