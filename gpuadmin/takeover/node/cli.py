"""Entry for units of the take-over: ``/usr/bin/python3 -I /var/lib/gpuadmin/lib/gpuadmin_takeover/cli.py COMMAND``.

It has the commands of the daily cli.py as well, from the same directory: the unit of a boot ends its work with the
gpuadmin that it began with, whatever was provisioned meanwhile.
"""

from __future__ import annotations

import importlib
import os
import sys

COMMANDS = {"renumber": "gpuadmin.takeover.node.renumbering.work"}


def run() -> int:
    sys.path.insert(0, os.path.realpath(__file__).rpartition("/gpuadmin/takeover/")[0])
    sys.dont_write_bytecode = True
    return int(importlib.import_module("ansible_collections.gpuadmin.node.plugins.module_utils.cli").run(COMMANDS))


if __name__ == "__main__":
    sys.exit(run())
