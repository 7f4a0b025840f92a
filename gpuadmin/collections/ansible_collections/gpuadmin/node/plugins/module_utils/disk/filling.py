"""What a timer does every minute: limits on disks follow what is free and who has come; how full they are is told."""

from __future__ import annotations

from ..files import make_directory
from ..limits import amounts, place_amounts, room
from ..metrics.exposition import Samples
from ..metrics.running import RUN, write
from ..unit_status import print_outcome
from . import amount_notices, home_quotas

TEXT = "room.prom"


def main(places: room.Places | None = None, directory: str = f"{RUN}/room", warnings: str = amounts.OF_DOCKER) -> int:
    """Exit 0; 1 where a limit is not in force."""
    where = places or room.Places()
    code = room.main(where)
    held = place_amounts.hold(where)
    homes = home_quotas.hold(where)
    code = print_outcome([*held.done, *homes.done], [*held.problems, *homes.problems]) or code
    amount_notices.tell_node(amounts.load(where.state), warnings, where.state)
    make_directory(directory, 0o755, sync=False)
    write(directory, TEXT, samples(places).render())
    return code


def samples(places: room.Places | None = None) -> Samples:
    """Nothing where nothing is bounded."""
    found = Samples()
    for top, used, most in room.bounded(places):
        found.put("gpuadmin_people_disk_bytes", most, mountpoint=top)
        found.put("gpuadmin_people_disk_free_bytes", max(most - used, 0), mountpoint=top)
    return found
