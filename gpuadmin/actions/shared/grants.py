"""What the verbs about grants share: asking nodes, and the words for GPUs and times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gpuadmin.answers import Answers
from gpuadmin.common.text import listed
from gpuadmin.plan import PlanBuilder
from gpuadmin.results import RunResult
from gpuadmin.session import Session


def look(session: Session, wanted: Mapping[str, Mapping[str, Any]]) -> tuple[Answers, RunResult]:
    """Ask nodes who was granted what. `wanted`: a grant for each node; its answer has that grant as it would be."""
    asked = list(wanted) or session.some("gpu")
    if not session.options.check and not wanted:
        builder = PlanBuilder("Show grants")
        builder.add_all(asked, ["read who was granted which GPU"])
        session.planned(builder.build())
    # what is in the way of a grant is found, too; to read needs nothing of the host
    playbook = "grant" if wanted else "grants"
    run = session.run(playbook, asked, {"gpuadmin_grant": dict(wanted)}, check=True, quiet=True)
    return Answers.of(run.hosts, asked, "grants"), run


def gpu_words(gpus: Sequence[str], there: Sequence[str]) -> str:
    """GPUs by their places, as nvidia-smi has them; by name where they are not there."""
    places = [str(there.index(one)) if one in there else one for one in gpus]
    return f"GPU {listed(places)}"
