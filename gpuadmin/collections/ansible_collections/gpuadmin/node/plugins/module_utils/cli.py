"""Entry on a node: ``/usr/bin/python3 -I /var/lib/gpuadmin/lib/gpuadmin_node/cli.py COMMAND``.

Isolated mode leaves the directory of a digest out of the path; it is put there, so that each file has its name.
"""

from __future__ import annotations

import fcntl
import importlib
import os
import sys
from collections.abc import Mapping


def run(more: Mapping[str, str] | None = None) -> int:
    """Run the command of the command line. ``more``: further commands, as commands.PLAIN_COMMANDS has them."""
    here = os.path.dirname(os.path.realpath(__file__))
    try:
        # until the end: what is locked is not pruned (code_cache.py)
        fcntl.flock(os.open(os.path.join(here, "lock"), os.O_RDONLY | os.O_CLOEXEC), fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        pass  # still do the work; it is root's alone, and people ask about themselves (gpuadmin-me)
    top, _, package = here.rpartition("/ansible_collections/")
    sys.path.insert(0, top)
    sys.dont_write_bytecode = True
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # a locale may lack a name's letters
    return int(importlib.import_module(f"ansible_collections.{package.replace('/', '.')}.commands").main(more=more))


if __name__ == "__main__":
    sys.exit(run())
