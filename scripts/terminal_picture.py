"""Draw a terminal session as SVG: run commands in a pseudo-terminal and keep what they show.

python scripts/terminal_picture.py OUT.svg 'gpuadmin add-user …' 'gpuadmin list-users' …
"""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pexpect
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.text import Text

WIDTH = 108
# What a progress line writes over itself: cursor movement and erasing. The last state of each line is what is kept.
_MOVES = re.compile(r"\x1b\[\?25[lh]|\x1b\[\d*[ABCDGJ]|\x1b\[\d*;\d*H")

_SPINNER = re.compile("[\u2800-\u28ff]")


def session(command: str) -> str:
    """Run a command on a pseudo-terminal, answer `y` to a question, and return what is on the screen at the end."""
    child = pexpect.spawn(
        "/bin/bash", ["-c", command], encoding="utf-8", dimensions=(60, WIDTH), timeout=600, env={**_environment()}
    )
    output = io.StringIO()
    child.logfile_read = output
    while child.expect([r"\[y/N\]: ", pexpect.EOF]) == 0:
        child.sendline("y")
    kept = []
    for line in output.getvalue().replace("\r\n", "\n").split("\n"):
        last_state = _MOVES.sub("", re.split(r"\x1b\[2K|\r", line)[-1])
        if not _SPINNER.search(last_state):
            kept.append(last_state)
    return "\n".join(kept).strip("\n")


def _environment() -> dict[str, str]:
    import os

    return {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(WIDTH)}


def main() -> None:
    target, *commands = sys.argv[1:]
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    for command in commands:
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        console.print(Text.from_ansi(session(command)))
        console.print()
    # rich's format names a font to fetch from somebody's server; what the reader has is good enough
    frame = re.sub(r"@font-face \{\{.*?\}\}|<!--.*?-->", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    Path(target).write_text(console.export_svg(title="gpuadmin", code_format=frame), encoding="utf-8")


if __name__ == "__main__":
    main()
