"""Says on stderr what the lab is doing, once it takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import Progress as Bar
from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

from gpuadmin.console import echo
from gpuadmin.display import make_console

#: Seconds after which a phase is worth a line.
PATIENCE = 2.0


class Progress:
    """Shows phases: a spinner on a terminal, plain lines otherwise."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()

    def line(self, text: str) -> None:
        """Print one line."""
        echo(text, err=True)

    @contextmanager
    def phase(self, text: str) -> Iterator[None]:
        """Show `text` while the body runs, if that takes longer than two seconds."""
        begin = time.monotonic()
        shower = self._spinner(text) if self._terminal else self._line(text)
        with shower:
            yield
        seconds = time.monotonic() - begin
        if seconds > PATIENCE:
            self.line(f"{text}: {seconds:.0f} s")

    @contextmanager
    def _line(self, text: str) -> Iterator[None]:
        timer = threading.Timer(PATIENCE, self.line, (f"{text} …",))
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def _spinner(self, text: str) -> Iterator[None]:
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        with Bar(*columns, console=make_console(json=True), transient=True) as bar:
            bar.add_task(text, total=None)
            yield
