"""gpuadmin.node.diagnosis: why something does not work for a person or on a host."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpuadmin.common.causes.cause import Person
from gpuadmin.common.causes.judge import judge

from ..answer import Answer
from ..diagnosis.collect import collect
from ..diagnosis.subject import Subject
from ..documents import parse
from ..paths import STATE

#: A task of this role need not name a field that the role has a variable for.
ROLE = "node_state"


@dataclass(frozen=True)
class Document:
    """Why something does not work for a person or on a host.

    Looks at a person's account, keys, home, sessions and Docker, and at the host itself.
    Each part is looked at by itself and has a deadline. One that does not answer is reported as unknown.
    What that means is in the answer as well (causes), each with what to do about it.
    It changes nothing, follows no link in a home, and starts no daemon.
    With ``trial`` it begins a session of the person's, which ends within seconds and is killed with all that it
    left. It starts no user manager of theirs.
    """

    #: Whose account is looked at, as users.yml has them. Without it only the host is.
    person: Mapping[str, Any] | None = None
    #: Whether people log in here.
    node: bool = True
    #: The directory of all homes on this host.
    homes: str = "/home"
    #: The directory of everybody's Docker data, where there is Docker.
    docker: str | None = None
    #: Names or addresses that this host must be able to find.
    servers: Sequence[str] = ()
    #: How many GPUs this host should have. Without it their number is not judged.
    gpus: int | None = None
    #: What the names of its GPUs should have in them.
    gpu_model: str = ""
    #: Whether a session of the person's is tried where people log in. It is begun by sshd's rules of PAM.
    trial: bool = False
    #: Directory of this node's own state.
    state_directory: str = STATE


#: It looks, and changes nothing.
LOOKS = True


def operate(document: Document, check: bool) -> Answer:
    person = parse(Person, document.person, "person") if document.person else None
    subject = Subject(
        name=None if person is None else person.name, uid=None if person is None else person.uid, node=document.node,
        homes=document.homes, docker=document.docker, state=document.state_directory, servers=tuple(document.servers),
        gpus=document.gpus, gpu_model=document.gpu_model, trial=document.trial,
    )  # fmt: skip
    facts = collect(subject)
    causes = judge(facts, person)
    return Answer(report={"diagnosis": {**facts, "causes": [one.document() for one in causes]}})
