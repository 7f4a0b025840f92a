"""gpuadmin.node.backup: backups of the homes."""

from __future__ import annotations

from gpuadmin.common.records.backups import BackupOrder as Document

from ..answer import Answer
from ..backups import actions

#: A task of this role need not name a field that the role has a variable for.
ROLE = "backups"


def operate(document: Document, check: bool) -> Answer:
    return actions.act(
        document,
        check=check,  # guard: check mode makes no backup -> False
    )
