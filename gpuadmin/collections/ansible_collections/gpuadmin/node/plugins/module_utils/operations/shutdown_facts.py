"""gpuadmin.node.shutdown_facts: whether a host can be switched off now."""

from __future__ import annotations

from dataclasses import dataclass

from .. import power
from ..answer import Answer

#: A task of this role need not name a field that the role has a variable for.
ROLE = "power"


@dataclass(frozen=True)
class Document:
    """Report what keeps a host from being switched off.

    Reports who is on the host, which hosts mount from it over NFS, and which jobs of gpuadmin's run on it.
    With ``require`` it fails where one of these keeps the host from being switched off.
    """

    #: First uid of people.
    uid_first: int
    #: Last uid of people.
    uid_last: int
    #: Whether people log in here.
    node: bool = False
    #: Whether other hosts may mount from it.
    serves: bool = False
    #: Whether people do not count.
    force: bool = False
    #: Whether to fail where there is a reason, or something is not known.
    require: bool = False


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    found = power.collect(node=document.node, uid_first=document.uid_first, uid_last=document.uid_last)
    reasons = power.problems(
        found,
        force=document.force,
        # guard: a storage host that is mounted refuses when it is asked, too -> False
        serves=document.serves,
    )
    report = {"power": {**vars(found), "problems": reasons}}
    if document.require and reasons:
        return Answer(report=report, problem=f"{'; '.join(reasons)}; it was left as it is")
    return Answer(report=report, more={"progress": f"waits: {'; '.join(reasons)}" if reasons else ""})
