"""Which links were followed and which sessions were left, until they would end anyway; a restart forgets none.

The file has the time of its making, then a line for each: when it may be forgotten, whose it is, its digest. Anything
older than the file is not accepted: with a new disk no link works a second time.
"""

from __future__ import annotations

import os
import re
from collections import Counter

from .files import DashboardError, read_bytes, write_atomic

_LINE = re.compile(r"([0-9]{1,12}) (\S{1,500}) ([0-9a-f]{64})")
_MOST = 1000  # of one signer at a time: a node that signs without end keeps nobody else out
_MOST_OF_ONE = 50  # in one name by one signer: a person who follows links without end keeps only themselves out
_DEAD = 1000  # expired lines until the file is written again


class Full(DashboardError):
    """One signer has so many that no more fit, so none is accepted."""


class UsedTokens:
    """The digests of tokens that were used. For one process with one thread."""

    def __init__(self, path: str, now: float) -> None:
        """Read the file; make it if there is none. Raises DashboardError, OSError."""
        self._path = path
        self._until: dict[str, tuple[int, str]] = {}
        self._of: Counter[str] = Counter()
        raw = read_bytes(path)
        first, *lines = (raw or b"").decode("ascii", "replace").splitlines() or [""]
        if raw is not None and not first.isdecimal():
            raise DashboardError(
                f"{path} is not as the dashboard writes it: remove it; earlier links are not accepted then"
            )
        self.since = int(first) if raw is not None else int(now)
        for line in lines:
            found = _LINE.fullmatch(line)
            if found is not None:  # the last one may have been cut off, and then nobody came in by it
                self._add(int(found[1]), found[2], found[3])
        self._write(now)

    def has(self, digest: str) -> bool:
        """Whether the token with that digest was used."""
        return digest in self._until

    def spend(self, digest: str, signer: str, until: float, now: float) -> bool:
        """Mark a token as used until it expires (seconds since 1970). False: it was used before. The mark is on disk
        when this returns. `signer`: who signed it, or SIGNER~NAME if each of a signer's names is counted as well.
        Raises Full, and OSError, after which it counts as spent.
        """
        if digest in self._until:
            return False
        if self._find_full(signer):
            self._forget_expired(now)
            full = self._find_full(signer)
            if full:  # guard: one signer's links do not fill the memory for others
                raise Full(f"{full} has {self._of[full]} links that have not expired yet")
        self._add(int(until) + 1, signer, digest)
        if (
            not self._whole or self._lines - len(self._until) >= _DEAD  # guard: half a written line spoils no other
        ):
            self._write(now)
        else:
            # guard: what is spent is on disk before somebody comes in
            self._append(f"{int(until) + 1} {signer} {digest}\n".encode())
        return True

    def _find_full(self, signer: str) -> str:
        """Who has too many, if anybody: a signer, or one name that it signs for."""
        most = {
            one: _MOST_OF_ONE
            if "~" in one  # guard: one person's links do not fill the memory for others of their node
            else _MOST
            for one in _name_counters(signer)
        }
        return next((one for one, number in most.items() if self._of[one] >= number), "")

    def _append(self, line: bytes) -> None:
        self._whole = False  # until the whole line is there: nothing after half a line could be read
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            if os.write(handle, line) != len(line):
                raise DashboardError(f"{self._path}: the disk is full")
            os.fsync(handle)
        finally:
            os.close(handle)
        self._whole = True
        self._lines += 1

    def _add(self, until: int, signer: str, digest: str) -> None:
        if digest not in self._until:
            self._until[digest] = (until, signer)
            self._of.update(_name_counters(signer))

    def _forget_expired(self, now: float) -> None:
        for digest, (until, signer) in list(self._until.items()):
            if until <= now:
                del self._until[digest]
                self._of.subtract(_name_counters(signer))
        self._of = +self._of  # without those who have none

    def _write(self, now: float) -> None:
        self._forget_expired(now)
        lines = [f"{until} {signer} {digest}\n" for digest, (until, signer) in self._until.items()]
        write_atomic(self._path, "".join([f"{self.since}\n", *lines]).encode(), mode=0o600)
        self._lines, self._whole = len(lines), True


def _name_counters(signer: str) -> set[str]:
    """Whom one counts for: a signer, and the name if there is one."""
    return {signer, signer.partition("~")[0]}
