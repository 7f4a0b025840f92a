"""What does each phase of a reset; their order is in gpuadmin/semester/machine.py."""

from __future__ import annotations

from gpuadmin.actions.semester.data import Backup, Prune, Wipe
from gpuadmin.actions.semester.people import Announce, EndSessions, Lock
from gpuadmin.actions.semester.phase import Phase
from gpuadmin.actions.semester.reopen import Reopen

_ALL: tuple[type[Phase], ...] = (Announce, Lock, EndSessions, Backup, Wipe, Prune, Reopen)
OBJECTS = {phase.name: phase for phase in _ALL}
