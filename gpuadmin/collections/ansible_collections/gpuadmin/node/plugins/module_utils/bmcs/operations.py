"""The operation on BMCs: whether hosts are on, and switching them."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from gpuadmin.common.records.hosts import Supply

from ..answer import Answer
from ..bounded import short
from ..each import Failed, each
from ..errors import NodeError, in_words
from ..operation import operation
from .controls import Bmc, control

PAUSE, LOOK = 5.0, 180.0  # seconds between two looks, and that one may take


@dataclass(frozen=True)
class BmcsOrder:
    """Ask BMCs whether their hosts are on, and switch these.

    All are asked at once, each in a process of its own. One that does not answer is reported, and is no failure of this
    host, which only asks.
    """

    #: The hosts' BMCs.
    bmcs: Sequence[Bmc]
    #: What is wanted of all of them; empty: nothing.
    switch: Literal["", "on", "off"] = ""
    #: Of hosts that are to be off, those that are cut off. The others go by themselves, and are waited for.
    hard: Sequence[str] = ()
    #: Whether these are cut off also where their ssh answers by then.
    answering: bool = False
    #: Seconds until they are off, or until their ssh answers.
    seconds: int = 900


@operation("bmcs", BmcsOrder, role="power")
def switch_hosts(document: BmcsOrder, check: bool) -> Answer:
    acts = bool(document.switch) and not check
    seconds, found = LOOK + (document.seconds if acts else 0), {}
    for bmc, seen in each(lambda one: bring(one, document, acts=acts), document.bmcs, 32, seconds):
        found[bmc.name] = Supply("unknown", False, short(seen.why, 900)) if isinstance(seen, Failed) else seen
    done = [f"{one.name}: switch {document.switch}" for one in document.bmcs] if document.switch else []
    return Answer(done, {"bmcs": found})


def bring(bmc: Bmc, order: BmcsOrder, *, acts: bool) -> Supply:
    """Given a BMC, have its host on or off as ordered, and return how it is then."""
    seen, wanted = look(bmc), order.switch
    cut = acts and wanted == "off" and bmc.name in order.hard
    # guard: a host that has come back since somebody looked is not cut off
    if cut and seen.answers and not order.answering:
        return Supply(seen.state, True, seen.problem or "it answers by now, so it was not cut off")
    # guard: a host that goes by itself is not cut off
    if acts and not seen.problem and seen.state != wanted and (wanted == "on" or cut):
        seen = look(bmc, wanted)
    if seen.problem or not acts:
        return seen
    end = time.monotonic() + order.seconds
    while not (seen.answers if wanted == "on" else seen.state == "off" or (bmc.kind == "wol" and not seen.answers)):
        if time.monotonic() > end:
            late = "ssh does not answer yet" if wanted == "on" else f"it is {seen.state}, and not off"
            return Supply(seen.state, seen.answers, seen.problem or f"after {order.seconds} seconds {late}")
        time.sleep(PAUSE)  # hosts take minutes
        # a PC that was on its way off may have missed it; a BMC that is busy with it may not answer for a moment
        seen = look(bmc, "on" if bmc.kind == "wol" and wanted == "on" else "")
    return seen


def look(bmc: Bmc, wanted: str = "") -> Supply:
    """Switch a host where that is wanted, and say how it is, whether its ssh answers here, and what is wrong."""
    answers, state, problem = False, "unknown", ""
    for port in filter(None, (bmc.ssh, bmc.also)):
        with suppress(OSError), socket.create_connection((bmc.host, port), timeout=10) as ssh:
            answers = answers or ssh.recv(4) == b"SSH-"  # the kernel of a host that hangs still takes connections
    try:
        state = control(bmc, wanted)
    except (NodeError, OSError) as error:
        problem = short(in_words(error), 900)
    return Supply("on" if answers and bmc.kind == "wol" else state, answers, problem)  # type: ignore[arg-type]  # as control says
