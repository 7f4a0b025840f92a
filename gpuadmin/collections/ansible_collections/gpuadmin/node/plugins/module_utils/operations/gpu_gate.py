"""gpuadmin.node.gpu_gate: who may open the GPUs of a host: everybody, or those who were granted one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Literal, Optional

from gpuadmin.common.text import counted

from ..answer import Answer
from ..errors import NodeError
from ..gpus import gate, reconcile, telling, tried
from ..gpus.gate import Settings
from . import files

ROLE = "gpu_stack"
#: Where earlier versions wrote the drop-ins, which win over those in /run.
EARLIER = "/etc/systemd/system"
#: The timer has the settings for its condition: without them it stands still.
_AFTER = (("systemctl", "daemon-reload"), ("systemctl", "restart", "gpuadmin-gpu-gate.timer"))


@dataclass(frozen=True)
class Document:
    """Keep people out of GPUs that they were not granted, or let everybody in again.

    Writes the drop-ins of people's slices and of services that run what people gave them, and brings what runs
    already to the same. Fails where a GPU can be opened afterwards that nobody was granted.
    """

    #: ``open`` for everybody, or ``granted``.
    access: Literal["open", "granted"]
    #: Whose slices stay open beside root's.
    exempt: Sequence[str] = ()
    #: GPU → its device files, on a host without NVIDIA's driver.
    devices: Optional[Mapping[str, Sequence[str]]] = None
    #: How the names of GPUs' devices begin in /proc/devices, on such a host.
    groups: Optional[Sequence[str]] = None


def operate(document: Document, check: bool, places: telling.Places | None = None) -> Answer:
    where = places or telling.Places()
    wrong = (tried.problems(where.root) or ()) if document.access == "granted" else ()
    there, earlier = ([f"{above}/{path}" for path in gate.PATHS.values()] for above in (where.units, EARLIER))
    if document.access == "open":
        known = f"{where.units}/{telling.KNOWN}"
        answer = files.operate(files.Document(absent=[where.settings, *there, *earlier, known], after=_AFTER), check)
    else:
        settings = Settings(
            document.access, document.groups or Settings.groups, gpus=document.devices, exempt=document.exempt
        )
        text = json.dumps(asdict(settings), indent=1) + "\n"
        wanted = [files.WantedFile(where.settings, text)]
        wanted += [files.WantedFile(f"{where.units}/{name}", one) for name, one in gate.drop_ins(settings).items()]
        answer = files.operate(files.Document(files=wanted, absent=earlier, after=_AFTER), check)
    if answer.operations:  # its files are in many directories, and nobody chooses among them
        word = "remove" if document.access == "open" else "write"
        done = f"{word} {counted(len(answer.operations), 'file')} of the gate (gpus.access: {document.access})"
        answer = replace(answer, operations=[done])
    if wrong:
        closing = [f"close the gate: {one}" for one in wrong]
        answer = replace(answer, operations=[*answer.operations, *closing], changed=True)
    if check:
        return answer
    outcome = reconcile.reconcile(where)
    if outcome.problems:  # guard: a gate that is open is not called granted
        raise NodeError("; ".join(outcome.problems))
    return answer
