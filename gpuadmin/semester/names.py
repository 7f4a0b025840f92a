"""The names of a reset's phases, in their order: journal, report, command line, playbook and docs have them from here.

They are in the journals of resets that were begun: whoever changes one has to go on reading the old one.
"""

from __future__ import annotations

ANNOUNCE = "announce"
LOCK = "lock"
END_SESSIONS = "end-sessions"  # guard: a reset that was begun before goes on where it was -> 'sessions'
BACKUP = "backup"
WIPE = "wipe"
PRUNE = "prune"
REOPEN = "reopen"

PHASES = (ANNOUNCE, LOCK, END_SESSIONS, BACKUP, WIPE, PRUNE, REOPEN)
