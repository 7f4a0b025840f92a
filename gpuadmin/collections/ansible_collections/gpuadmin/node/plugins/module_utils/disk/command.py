"""The program that a timer starts once a day: it measures, and says it to Prometheus and to each person theirs."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from types import FrameType
from typing import Any

from gpuadmin.common.metrics import PLACES

from ..errors import NodeError, in_words
from ..fields import CONTROL, valid_name
from ..files import make_directory, read_bytes
from ..limits import amounts
from ..metrics.owners import Owners
from ..metrics.running import RUN, write
from ..paths import OF_PEOPLE, STATE
from . import amount_notices
from . import records as kept
from .measuring import measure_round
from .owned import give
from .people import People, people, samples
from .records import Place
from .shares import NOBODY

SETTINGS = "disk-places.json"  # in the state directory, by the role node_metrics
TEXT = "disk.prom"
SAVED_AFTER = 60.0  # seconds of work that a power cut may cost


class Ended(Exception):
    """systemd ends it: what was measured is kept, and the next round continues from there."""


@dataclass(frozen=True)
class Where:
    """Tests put it elsewhere."""

    state: str = STATE
    directory: str = f"{RUN}/disk"
    records: str = kept.FILE

    @property
    def own(self) -> str:
        return os.path.join(self.state, OF_PEOPLE)


def settings(state: str) -> tuple[list[Place], bool]:
    """The places to measure, and whether people log in here. Raises NodeError."""
    path = os.path.join(state, SETTINGS)
    raw = read_bytes(path)
    if raw is None:
        raise NodeError(f"{path} is not there: gpuadmin provision writes it where a host is in the group monitor")
    try:
        data = json.loads(raw)
        paths = {name: [data[name]] if data[name] else [] for name in ("homes", "docker")}
        paths |= {"scratch": data["scratch"], "shared": data.get("shared", [])}
        places = [Place(name, path, name in ("scratch", "shared")) for name in PLACES for path in paths[name]]
        logins = data["logins"] is True
    except (ValueError, TypeError, KeyError) as error:
        raise NodeError(f"{path} cannot be used ({error})") from None
    if not all(isinstance(one.path, str) and one.path.startswith("/") for one in places):
        raise NodeError(f"{path} names a directory by something that is not an absolute path")
    return places, logins


def main(where: Where | None = None, owners: Owners | None = None, clock: Callable[[], float] = time.time) -> int:
    """Exit 0; 1 where a whole place could not be looked at. What was measured before is told at once, as of then.

    A problem with one directory is its owner's: their figure is partial or old, and no unit of the host fails.
    """
    where, whose = where or Where(), owners or Owners()
    places, logins = settings(where.state)
    try:
        found = kept.load(where.records)
    except NodeError as error:
        print(f"Warning: {error}", file=sys.stderr)
        found = {}
    whose.refresh()
    tell(where, people(places, found, find_user_name(whose)), logins=logins)
    signal.signal(signal.SIGTERM, _end)
    began, saved, failed = time.monotonic(), time.monotonic(), False
    try:
        for done in measure_round(
            places,
            found,
            now=clock,
            whose=find_person_uid(whose),  # guard: subordinate ids have no share of their own -> lambda uid: uid
        ):
            if done.problem:
                print(
                    # guard: the journal gets no lines of somebody's making -> f'{done.path}: {done.problem}'
                    CONTROL.sub("?", f"{done.path}: {done.problem}"),
                    file=sys.stderr,
                )
            failed = (
                failed
                # guard: somebody's odd directory fails no unit -> bool(done.problem)
                or done.place_failed
            )
            if time.monotonic() - saved > SAVED_AFTER:  # guard: a power cut costs a minute of work
                saved = time.monotonic()
                kept.save(found, where.records)
    except Ended:
        kept.save(found, where.records)
        print("ended before all was measured; the next round goes on")
        return 0
    kept.save(found, where.records)
    took = time.monotonic() - began
    tell(
        where,
        people(places, found, find_user_name(whose)),
        logins=logins,
        failed=failed,
        ended=None if failed else (clock(), took),
    )
    print(f"measured {len(found)} directories in {took:.0f} s")
    return int(failed)


def _end(_number: int, _frame: FrameType | None) -> None:
    raise Ended


def find_user_name(owners: Owners) -> Callable[[int], str | None]:
    """Whose a uid is: an account's, or the one person's in whose range it is."""

    def user(uid: int) -> str | None:
        owner = owners.attribute([uid], None)
        return None if owner is None else owners.name(owner)

    return user


def find_person_uid(owners: Owners) -> Callable[[int], int]:
    """The uid of whoever a uid belongs to; NOBODY for what is nobody's, so that it is one."""

    def person(uid: int) -> int:
        owner = owners.attribute([uid], None)
        return NOBODY if owner is None else owner

    return person


def tell(
    where: Where, found: People, *, logins: bool, failed: bool = False, ended: tuple[float, float] | None = None
) -> None:
    """Write the samples, and on a node for each person what is theirs. ``ended``: when, and seconds that it took."""
    text = samples(found)
    text.put("gpuadmin_collector_success", 0 if failed else 1, source="disk")
    if ended is not None:
        text.put("gpuadmin_collector_sample_timestamp_seconds", round(ended[0], 3), source="disk")
        text.put("gpuadmin_collector_duration_seconds", round(ended[1], 3), source="disk")
    os.makedirs(where.directory, mode=0o755, exist_ok=True)
    write(where.directory, TEXT, text.render())
    try:
        amount_notices.tell_homes(amounts.load(where.state) or amounts.Amounts(), found, where.state)
    except (NodeError, OSError) as error:  # guard: a full disk of homes ends no measuring
        print(f"nobody is told what they have in their home: {in_words(error)}", file=sys.stderr)
    if not logins:
        return
    make_directory(where.own, 0o711)
    theirs: dict[str, dict[str, Any]] = {}
    for (name, place), held in found.items():
        if valid_name(name):
            theirs.setdefault(name, {})[place] = held
    for name, one in theirs.items():
        give(os.path.join(where.own, f"{name}.json"), name, json.dumps(one, default=vars).encode())
    for name in os.listdir(where.own):
        if name.partition(".json")[0] not in theirs:  # guard: a person who has nothing any more has no file
            os.unlink(os.path.join(where.own, name))


def known(state: str, records: str) -> People:
    """What was measured before, of everybody; nothing where it was not, or its record is damaged."""
    whose = Owners()
    try:
        places, _logins = settings(state)
        whose.refresh()
        return people(places, kept.load(records), find_user_name(whose))
    except NodeError:
        return {}


def report(state: str = STATE, records: str = kept.FILE, names: Sequence[str] = ()) -> dict[str, Any]:
    """For an admin: by person and place, all of it. ``names``: these alone; none is everybody. Raises NodeError."""
    places, _logins = settings(state)
    whose = Owners()
    whose.refresh()
    result: dict[str, dict[str, Any]] = {}
    for (name, place), held in people(places, kept.load(records), find_user_name(whose)).items():
        if not names or name in names:
            result.setdefault(name, {})[place] = held
    return {"people": result, "places": [asdict(one) for one in places]}
