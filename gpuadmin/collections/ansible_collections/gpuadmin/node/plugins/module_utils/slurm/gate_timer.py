"""What the timer of the gate does each minute: GPUs are brought to grants, limits to jobs, and jobs' use is noted."""

from __future__ import annotations

import time

from ..gpus import reconcile
from ..gpus.gate import Places
from ..unit_status import print_outcome
from . import job_use, owned, slice_limits


def main(places: Places | None = None) -> int:
    """1 where the gate, or a limit, is not what it should be; what is wrong is said."""
    where = places or Places()
    outcome = reconcile.reconcile(where)
    job_use.look(where)
    told = owned.tell_terminals(where)
    limits = slice_limits.apply(where, time.time())
    done = [*outcome.done, *told, *limits.done]
    return print_outcome(done or ["nothing is to be done"], [*outcome.problems, *limits.problems])
