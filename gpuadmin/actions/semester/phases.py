"""The phases of a reset, in their order. Each runs, is checked, is documented and is tested from this list."""

from __future__ import annotations

from gpuadmin.actions.semester.data import Backup, Prune, Wipe
from gpuadmin.actions.semester.people import Announce, EndSessions, Lock
from gpuadmin.actions.semester.phase import Phase
from gpuadmin.actions.semester.reopen import Reopen

PHASES: tuple[type[Phase], ...] = (Announce, Lock, EndSessions, Backup, Wipe, Prune, Reopen)
