"""gpuadmin queue"""

from __future__ import annotations

import click

from gpuadmin.cli._options import run_options
from gpuadmin.options import Options


@click.command("queue")
@run_options(changes=False, limit=False)
def command(options: Options) -> int:
    """Show who has GPUs of the queue, who waits for some and why, what is booked, and which nodes take no jobs.

    People see the same with `gpu list` on their nodes.
    """
    from gpuadmin.actions.queue import show_queue

    return show_queue(options)
