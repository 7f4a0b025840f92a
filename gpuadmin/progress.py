"""What is going on while a playbook runs, and which hosts it waits for: for the person who looks, and for the log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime

from gpuadmin.common.text import listed
from gpuadmin.console import echo
from gpuadmin.display import join_lines, styled
from gpuadmin.terminal import SafeConsole

#: Tasks that Ansible itself puts before a role's own; nobody waits for them.
_ANSIBLES_OWN = "Validating arguments against arg spec"
_PATIENCE = 5.0  # seconds before a terminal shows which hosts it waits for
_COLOURS = {"changed": "green", "failed": "red", "unreachable": "red"}


@dataclass(frozen=True)
class _Busy:
    """A host that has begun a task and not ended it; times in seconds since the epoch."""

    task: str
    since: float
    until: float | None


class Progress:
    """The line that says what is going on: live on a terminal.

    Elsewhere it is a plain line now and then while a run takes long, and one per task with -v.
    """

    #: Seconds between plain lines.
    SPARING = 15.0

    def __init__(
        self,
        console: SafeConsole,
        *,
        verbose: int,
        doing: str | None = None,
        quiet: bool = False,
        note: Callable[[str], None] = lambda line: None,
    ) -> None:
        """`doing`: a sentence for all of the run, instead of the names of its tasks. `quiet`: what happens on hosts is
        not shown, because a table follows. `note`: writes a line into the log of the run.
        """
        self._console = console
        self._verbose = verbose
        self._doing = doing
        self._quiet = quiet
        self._note = note
        self._task = self._before = self._named = doing or "Starting"
        self._did = False  # whether a host has done the task that runs, and not passed over it
        self._far: dict[str, str] = {}  # host → how far it is in the task that runs
        self._busy: dict[str, _Busy] = {}
        self._limits: dict[str, int] = {}  # host → seconds that its next task may take
        self._state = threading.Lock()
        self._spoke = self._noted = time.monotonic()
        self._status = console.status(styled(f"{self._task}…")) if console.is_terminal else None
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)

    def __enter__(self) -> Progress:
        if self._status is not None:
            self._status.start()
        self._clock.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._clock.join()
        if self._status is not None:
            self._status.stop()

    def task(self, name: str) -> None:
        """A task has begun on some host."""
        if name.startswith(_ANSIBLES_OWN):
            return
        with self._state:
            self._before, self._named = self._task, self._doing or name
            self._task, self._far, self._did = self._named, {}, False
        if self._status is not None:
            self._show_live()
        elif self._verbose:
            self._console.print(f"… {name}")
            self._spoke = time.monotonic()

    def host(self, host: str, outcome: str, detail: str) -> None:
        """Take what a host did: it has `begun` a task (`detail`: its name), `done` it, or `skipped` it, or says how far
        it is (`progress`) or how many seconds its next task may take (`limit`); or what is worth a line: changed,
        failed, unreachable. A task that all hosts skip is not shown as what goes on.
        """
        if outcome == "limit":
            with self._state:
                self._limits[host] = int(detail)
        elif outcome == "begun":
            now = time.time()
            # hosts that need not wait for each other are at different tasks, and the last one to begin may be another's
            with self._state:
                self._task = self._named
                if detail and not detail.startswith(_ANSIBLES_OWN):
                    self._task = self._doing or detail
                limit = self._limits.pop(host, None)
                self._busy[host] = _Busy(self._task, now, None if limit is None else now + limit)
        elif outcome in ("done", "skipped"):
            with self._state:
                self._busy.pop(host, None)
                self._far.pop(host, None)
                self._did = self._did or outcome == "done"
                if not self._busy and not self._did:
                    self._task = self._before
            if outcome == "skipped" and self._status is not None:
                self._show_live()
        elif outcome == "progress":
            with self._state:
                new = self._far.get(host) != detail
                self._far[host] = detail
            if new:
                self._show_progress(host, detail)
        elif not self._quiet and (outcome != "changed" or self._verbose):
            self._console.print(styled("  ", (f"{outcome:<11}", _COLOURS.get(outcome, "white")), f" {host}: {detail}"))

    def waiting(self) -> str:
        """What goes on, on which hosts, since when and until when: one line without its line feed."""
        with self._state:
            far, busy, task = dict(self._far), dict(self._busy), self._task
        parts = []
        for name in dict.fromkeys(one.task for one in busy.values()):
            at_it = {host: one for host, one in busy.items() if one.task == name}
            hosts = [f"{host} ({far[host]})" if host in far else host for host in at_it]
            first = min(at_it.values(), key=lambda one: one.since)
            until = "" if first.until is None else f", until {_clock(first.until)} at the latest"
            parts.append(f"{name}: waiting for {listed(hosts)} since {_clock(first.since)}{until}")
        return "; ".join(parts) or task

    def _tick(self) -> None:
        """Say now and then, by the clock, what is waited for: Ansible says nothing while a host is silent."""
        while not self._over.wait(1.0 if self._status is not None else min(1.0, self.SPARING / 4)):
            now = time.monotonic()
            if now - self._noted >= self.SPARING:
                self._noted = now
                with suppress(OSError):  # a full disk: the run itself says so, should it need that disk
                    self._note(f"{_clock(time.time())} {self.waiting()}")
            if self._status is not None:
                self._show_live()
            elif now - self._spoke >= self.SPARING:
                self._spoke = now
                self._console.print(f"… {self.waiting()}")

    def _show_live(self) -> None:
        assert self._status is not None
        with self._state:
            long = any(time.time() - one.since > _PATIENCE for one in self._busy.values())
            head, far = self._task, list(self._far.items())
        lines = [f"  {name}: {detail}" for name, detail in far[:12]]
        self._status.update(join_lines([self.waiting() if long and not lines else head, *lines]))

    def _show_progress(self, host: str, detail: str) -> None:
        if self._status is not None:
            self._show_live()
        else:
            self._console.print(f"  {'working':<11} {host}: {detail}")
            self._spoke = time.monotonic()


@contextmanager
def slow(what: str, *, seconds: float = Progress.SPARING) -> Iterator[None]:
    """Say on standard error what goes on while the block runs, every so many seconds: for what is before any log."""
    begun, over = time.monotonic(), threading.Event()

    def say() -> None:
        while not over.wait(seconds):
            echo(f"… {what} takes long: {time.monotonic() - begun:.0f} s so far", err=True)

    clock = threading.Thread(target=say, daemon=True)
    clock.start()
    try:
        yield
    finally:
        over.set()
        clock.join()


def _clock(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds):%H:%M:%S}"
