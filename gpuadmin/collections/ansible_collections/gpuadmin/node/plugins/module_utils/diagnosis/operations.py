"""The operation that finds out why something does not work for a person or on a host."""

from __future__ import annotations

from gpuadmin.common.causes.judge import judge
from gpuadmin.common.records.diagnosis import DiagnosisOrder

from ..answer import Answer
from ..operation import operation
from .collect import collect
from .subject import build_subject


@operation("diagnosis", DiagnosisOrder, role="node_state", looks=True)
def diagnose(document: DiagnosisOrder, check: bool) -> Answer:
    facts = collect(build_subject(document))
    causes = judge(facts, document.person)
    return Answer(report={"diagnosis": {**facts, "causes": [one.document() for one in causes]}})
