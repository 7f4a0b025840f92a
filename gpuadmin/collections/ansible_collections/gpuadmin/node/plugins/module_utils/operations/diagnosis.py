"""gpuadmin.node.diagnosis: why something does not work for a person or on a host."""

from __future__ import annotations

from gpuadmin.common.causes.judge import judge
from gpuadmin.common.records.diagnosis import DiagnosisOrder as Document

from ..answer import Answer
from ..diagnosis.collect import collect
from ..diagnosis.subject import build_subject

#: A task of this role need not name a field that the role has a variable for.
ROLE = "node_state"


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    facts = collect(build_subject(document))
    causes = judge(facts, document.person)
    return Answer(report={"diagnosis": {**facts, "causes": [one.document() for one in causes]}})
