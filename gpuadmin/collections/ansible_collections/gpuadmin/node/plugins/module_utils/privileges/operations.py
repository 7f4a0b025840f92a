"""The operation that reports who is root on a host, or could be."""

from __future__ import annotations

from gpuadmin.common.records.audits import PrivilegesOrder

from ..answer import Answer
from ..operation import operation
from .collect import collect
from .place import build_place


@operation("privileges", PrivilegesOrder, role="node_state", looks=True)
def report_privileges(document: PrivilegesOrder, check: bool) -> Answer:
    return Answer(report={"privileges": collect(build_place(document))})
