"""A fair queue for GPUs, kept by Slurm: groups of people, their shares and their limits."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, model_validator

from gpuadmin.common.names import name_gpu_type
from gpuadmin.config.fields import GroupName, HostName
from gpuadmin.config.schema.base import Model
from gpuadmin.config.schema.metrics import WebAddress

#: The group of everybody who is not in another.
EVERYBODY = "people"

Share = Annotated[int, Field(ge=1, le=10000)]
Gpus = Annotated[int, Field(ge=1, le=10000)]
Hours = Annotated[int, Field(ge=1, le=8784)]
Queued = Annotated[int, Field(ge=1, le=100000)]
Cpus = Annotated[int, Field(ge=1, le=1000000)]
Memory = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,4}G$")]
Nodes = Annotated[int, Field(ge=1, le=10000)]


class Book(Model):
    """What one person may book in advance: GPUs of one node for themselves, from a time on (`gpu book`)."""

    gpus: Annotated[Gpus, Field(description="How many GPUs a booking may have.")] = 1
    hours: Annotated[Hours, Field(description="The longest booking, in hours.")] = 8
    days: Annotated[int, Field(ge=1, le=60, description="How many days ahead a booking may begin at most.")] = 7
    lead: Annotated[
        int,
        Field(
            ge=0,
            le=168,
            description="How many hours ahead people must book at least. A booking that nobody uses ends after half "
            "an hour, and its person cannot have the next one any sooner.",
        ),
    ] = 12
    standing: Annotated[
        int, Field(ge=1, le=20, description="How many bookings one person may have that are not over yet.")
    ] = 1


GpuType = Annotated[str, Field(min_length=1, max_length=80), AfterValidator(name_gpu_type)]


class Owns(Model):
    """Nodes that are a group's: its people's jobs come first there."""

    nodes: Annotated[list[HostName], Field(description="These nodes.")] = []
    types: Annotated[
        list[GpuType], Field(description="All nodes with GPUs of these types (`gpu list`) that no group names itself.")
    ] = []
    others: Annotated[
        Literal["preempted", "never"],
        Field(description="Others' jobs get what is free there and are preempted when the group needs it; or never."),
    ] = "preempted"


class OwnShare(Model):
    """A group of people (`group` in users.yml) with its own share and limits. What is left out is as for everybody."""

    name: Annotated[GroupName, Field(description="The group's name; in Slurm that of an account, and of a QOS.")]
    share: Annotated[Share | None, Field(description="As `slurm.share`.")] = None
    gpus: Annotated[Gpus | None, Field(description="As `slurm.gpus`.")] = None
    hours: Annotated[Hours | None, Field(description="As `slurm.hours`.")] = None
    queued: Annotated[Queued | None, Field(description="As `slurm.queued`.")] = None
    cpus: Annotated[Cpus | None, Field(description="As `slurm.cpus`.")] = None
    memory: Annotated[Memory | None, Field(description="As `slurm.memory`.")] = None
    nodes: Annotated[Nodes | None, Field(description="As `slurm.nodes`.")] = None
    book: Annotated[Book | None, Field(description="As `slurm.book`.")] = None
    owns: Annotated[Owns | None, Field(description="The nodes that are this group's.")] = None


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
    cpus: Annotated[
        Cpus | None,
        Field(
            description="How many processors the jobs of one person may have at once, jobs without GPUs included: what "
            "they take of a node can keep its GPUs from others. Without it there is no limit."
        ),
    ] = None
    memory: Annotated[
        Memory | None, Field(description="Like `cpus`, for memory: a number of GiB with a G, such as `400G`.")
    ] = None
    nodes: Annotated[
        Nodes | None,
        Field(description="On how many nodes the jobs of one person may run at once; each job counts a node again."),
    ] = None
    extend: Annotated[
        Literal["never", "free", "always"],
        Field(
            description="Whether people may give a job of theirs more time (`gpu extend`), up to `hours` from its "
            "start: `free` while nobody waits for GPUs."
        ),
    ] = "free"
    book: Annotated[
        Book | None,
        Field(description="What people may book in advance; without it only those whose group says so can."),
    ] = None
    booked: Annotated[
        int,
        Field(
            ge=1,
            le=100,
            description="How much of the queue's GPUs may be booked at one time, by all people together, in percent.",
        ),
    ] = 50
    mail: Annotated[
        list[Literal["begun", "ends", "ended", "lost"]],
        Field(
            description="What people are mailed about their jobs with GPUs, where `mail` names a server: that it has "
            "`begun` after they waited, that it `ends` within the hour, that it has `ended`, or that a GPU of it is "
            "`lost`; `[]` for nothing. People turn it off for themselves by `gpu mail off`."
        ),
    ] = ["begun", "ends", "ended", "lost"]
    webhook: Annotated[
        WebAddress | None,
        Field(description="Where the same is posted to for all people, as Slack and Mattermost take it."),
    ] = None
    constrain: Annotated[
        list[Literal["cores", "memory"]],
        Field(
            description="What Slurm keeps a job from taking beyond what it asked for, besides GPUs. Nodes need the "
            "controllers `cpuset` and `memory` of cgroup v2 for this: `[]` where they lack them."
        ),
    ] = ["cores", "memory"]
    preempted: Annotated[
        Literal["requeue", "end"],
        Field(description="Whether jobs that leave a node which another group `owns` are in the queue again, or end."),
    ] = "requeue"
    notice: Annotated[
        int, Field(ge=0, le=1440, description="So many minutes before, they are told: by mail, terminal and SIGTERM.")
    ] = 5
    oldest: Annotated[
        Literal["21.08", "22.05", "23.11"],
        Field(
            description="The oldest Slurm that a host of the queue has, at most. Before `23.11` (Debian 12, Ubuntu "
            "22.04) all its hosts know each other by munge, and with `21.08` Slurm itself limits no job."
        ),
    ] = "23.11"
    groups: Annotated[list[OwnShare], Field(description="Groups of people with other shares or limits.")] = []

    def list_groups(self) -> list[dict[str, Any]]:
        """Share and limits of the groups of people, the first of everybody who is not in another."""
        names = ("share", "gpus", "hours", "queued", "cpus", "memory", "nodes")
        everybody = {name: getattr(self, name) for name in names}
        own = [{name: getattr(one, name) for name in ("name", *names)} for one in self.groups]
        kept = [{name: value for name, value in one.items() if value is not None} for one in own]
        return [{"name": EVERYBODY, **everybody}, *({**everybody, **one} for one in kept)]

    @model_validator(mode="after")
    def _once(self) -> Slurm:
        names = [EVERYBODY, "normal", "exception", *(group.name for group in self.groups)]
        for name in names:
            if names.count(name) > 1:  # QOSs of Slurm's own, and of `gpuadmin grant`
                raise ValueError(f"groups: {name!r} is taken; choose another name")
        return self

    @model_validator(mode="after")
    def _usable(self) -> Slurm:
        """A booking is used by jobs, which have limits of their own."""
        sections: list[tuple[str, Slurm | OwnShare]] = [("", self)]
        for where, own in [*sections, *((f"groups: {one.name}: ", one) for one in self.groups)]:
            book, gpus, hours = own.book or self.book, own.gpus or self.gpus, own.hours or self.hours
            if book is not None and gpus is not None and book.gpus > gpus:
                raise ValueError(f"{where}book: {book.gpus} GPUs are more than one person may have at once ({gpus})")
            if book is not None and book.hours > hours:
                raise ValueError(f"{where}book: {book.hours} hours are more than a job may take ({hours})")
            if book is not None and book.lead >= book.days * 24:
                raise ValueError(f"{where}book: lead ({book.lead} hours) leaves nothing of the {book.days} days")
        return self
