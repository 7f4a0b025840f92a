"""gpuadmin.node.wipe_homes: wiping homes that are in a verified backup."""

from __future__ import annotations

from dataclasses import replace

from gpuadmin.common.records.wipes import WipeHomes as Document

from .. import background
from ..answer import Answer
from ..wipe import homes
from ..wipe.jobs import empty_trash

EACH = "homes"


def operate(document: Document, check: bool) -> Answer:
    plan = homes.converge(
        document,
        check=check,  # guard: check mode moves no home -> False
    )
    if check:  # guard: check mode empties no trash
        return Answer.of(plan)
    return Answer.of(plan, deleted=background.perform("wipe-homes", empty_trash, replace(document, users=())))
