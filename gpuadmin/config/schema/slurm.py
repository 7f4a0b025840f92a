"""A fair queue for GPUs, kept by Slurm: groups of people, their shares and their limits."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from gpuadmin.config.fields import UserName
from gpuadmin.config.schema.base import Model

#: The group of everybody who is in no other.
EVERYBODY = "people"

Share = Annotated[int, Field(ge=1, le=10000)]
Gpus = Annotated[int, Field(ge=1, le=10000)]
Hours = Annotated[int, Field(ge=1, le=8784)]
Queued = Annotated[int, Field(ge=1, le=100000)]


class OwnShare(Model):
    """A group of people (`group` in users.yml) with its own share and limits. What is left out is as for everybody."""

    name: Annotated[UserName, Field(description="The group's name; in Slurm that of an account, and of a QOS.")]
    share: Annotated[Share | None, Field(description="As `slurm.share`.")] = None
    gpus: Annotated[Gpus | None, Field(description="As `slurm.gpus`.")] = None
    hours: Annotated[Hours | None, Field(description="As `slurm.hours`.")] = None
    queued: Annotated[Queued | None, Field(description="As `slurm.queued`.")] = None


class Slurm(Model):
    """A fair queue: people ask for GPUs with `gpu get`, and Slurm decides whose turn it is. Without this section there
    is none.

    The inventory's group `slurm` has the host of its controller. A node with `slurm_node: false` takes no jobs.
    """

    share: Annotated[
        Share,
        Field(
            description="The share of everybody who is in none of `groups`: a group with 20 gets twice as much as one "
            "with 10 while both want GPUs."
        ),
    ] = 10
    gpus: Annotated[
        Gpus | None, Field(description="How many GPUs one person may have at once; without it there is no limit.")
    ] = None
    hours: Annotated[Hours, Field(description="The longest time for which somebody may ask, in hours.")] = 24
    queued: Annotated[Queued, Field(description="How many jobs one person may have, waiting ones counted.")] = 20
    extend: Annotated[
        Literal["never", "free", "always"],
        Field(
            description="Whether people may give a job of theirs more time (`gpu extend`), up to `hours` from its "
            "start: `free` while nobody waits for GPUs."
        ),
    ] = "free"
    half_life: Annotated[
        int, Field(ge=1, le=365, description="Days after which what somebody has used counts half.")
    ] = 7
    constrain: Annotated[
        list[Literal["cores", "memory"]],
        Field(
            description="What Slurm keeps a job from taking beyond what it asked for, besides GPUs. Nodes need the "
            "controllers `cpuset` and `memory` of cgroup v2 for it."
        ),
    ] = ["cores", "memory"]
    groups: Annotated[list[OwnShare], Field(description="Groups of people with other shares or limits.")] = []

    @model_validator(mode="after")
    def _once(self) -> Slurm:
        names = [EVERYBODY, "normal", "exception", *(group.name for group in self.groups)]
        for name in names:
            if names.count(name) > 1:  # QOSs of Slurm's own, and of `gpuadmin grant`
                raise ValueError(f"groups: {name!r} is taken; choose another name")
        return self
