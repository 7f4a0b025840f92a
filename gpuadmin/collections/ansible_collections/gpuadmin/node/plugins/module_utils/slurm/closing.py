"""A node that is sick, full or without its homes is drained, and takes jobs again when what passes has passed."""

from __future__ import annotations

import os

from gpuadmin.common.waiting import FOR_NOW, FULL, SICK

from .. import health
from ..errors import NodeError, in_words
from ..gpus.gate import Places
from . import draining, queue


def close(node: str, found: health.Health) -> str:
    """Have the queue send a node no job where it should take none, or jobs again. Returns why; empty: no reason."""
    wanted = _wanted(node, found)
    if wanted is None:
        return ""
    try:
        for name in draining.bring(wanted, check=False, only=[f"--nodes={node}"]) if node else ():
            print(f"{name}: {wanted.reason or 'nothing is wrong any more'}")
    except (NodeError, OSError) as error:  # a controller that is away is asked again in a minute
        print(f"Error: {in_words(error)}")
    return "" if wanted.resume else f"{wanted.mark} {wanted.reason}"


def _wanted(node: str, found: health.Health) -> draining.Wanted | None:
    """What a node is to be; None: as it is."""
    for mark, words in (
        (SICK, [one.words for one in found.lasting]),  # guard: a sick node takes no job -> []
        (FULL, list(found.full)),  # guard: a node whose disk is full takes no job -> []
        (FOR_NOW, [one.words for one in found.sick if one.passes]),
    ):
        if words:
            joined = (", " if mark == FULL else "; ").join(words)
            text = "".join(letter if letter.isprintable() else " " for letter in joined)
            return draining.Wanted([node], text[: queue.LONGEST - len(mark) - 1], mark=mark)
    # guard: a disk that is full again at once does not open and close a node each minute -> True
    return draining.Wanted([node], resume=True, mark=FULL) if found.room else None


def main() -> int:
    """What slurmd runs each minute. 0 in any case: its log has the errors."""
    try:
        close(os.environ.get("SLURMD_NODENAME", ""), health.look_at_node(Places(), own=True))
    except (NodeError, OSError) as error:  # guard: a check that fails keeps no node from the queue
        print(f"Error: {in_words(error)}")
    return 0
