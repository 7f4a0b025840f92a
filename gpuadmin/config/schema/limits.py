"""Limits: how much of a node one person gets, for everything they run there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from gpuadmin.common.amounts import (
    UNLIMITED,
    ask_for_disk,
    ask_for_memory,
    ask_for_processors,
    ask_for_reserve,
    ask_for_swap,
    ask_for_tasks,
)
from gpuadmin.config.fields import GroupName, UserName
from gpuadmin.config.schema.base import Model

_PLAIN = {"type": ["string", "integer"]}
Memory = Annotated[str, BeforeValidator(ask_for_memory)]
Swap = Annotated[str, BeforeValidator(ask_for_swap), Field(json_schema_extra=_PLAIN)]
Tasks = Annotated[str, BeforeValidator(ask_for_tasks), Field(json_schema_extra=_PLAIN)]
Processors = Annotated[str, BeforeValidator(ask_for_processors), Field(json_schema_extra=_PLAIN)]
Reserve = Annotated[str, BeforeValidator(ask_for_reserve), Field(json_schema_extra=_PLAIN)]
Disk = Annotated[str, BeforeValidator(ask_for_disk)]
Weight = Annotated[int, Field(ge=1, le=10000)]


class OwnLimits(Model):
    """Limits of certain people. What is left out is as for everybody."""

    names: Annotated[list[UserName], Field(description="Whose limits these are.")] = []
    groups: Annotated[
        list[GroupName], Field(description="Groups of people (`group` in users.yml) whose limits these are, too.")
    ] = []
    memory: Annotated[Memory | None, Field(description="As `limits.memory`.")] = None
    swap: Annotated[Swap | None, Field(description="As `limits.swap`.")] = None
    tasks: Annotated[Tasks | None, Field(description="As `limits.tasks`.")] = None
    processors: Annotated[Processors | None, Field(description="As `limits.processors`.")] = None
    processor_weight: Annotated[Weight | None, Field(description="As `limits.processor_weight`.")] = None
    home: Annotated[Disk | None, Field(description="As `limits.home`.")] = None
    docker: Annotated[Disk | None, Field(description="As `limits.docker`.")] = None
    scratch: Annotated[Disk | None, Field(description="As `limits.scratch`.")] = None

    @model_validator(mode="after")
    def _somebody(self) -> OwnLimits:
        if not (self.names or self.groups):
            raise ValueError("say whose limits these are: names or groups")
        return self


class Limits(Model):
    """How much of a node one person gets, for shells, containers and jobs together. Without this section: everything.

    A host's `limits_memory` and the like in the inventory win; `people` wins over both.
    """

    memory: Annotated[
        Memory,
        Field(
            description="Memory of one person: a share of the node's (`80%`), a size (`64G`) or `unlimited`. The "
            "kernel kills processes of whoever needs more. All people together leave 5 % of the node's memory, at "
            "least 256 MiB and at most 8 GiB, to root, sshd and gpuadmin."
        ),
    ] = "80%"
    swap: Annotated[
        Swap, Field(description="Swap of one person: a share of the node's, a size, `0` for none, or `unlimited`.")
    ] = "50%"
    tasks: Annotated[
        Tasks,
        Field(
            description="Processes and threads of one person: a share of what the node's kernel can have (`10%`: some "
            "50,000 where it has 64 GiB), a number, or `unlimited`."
        ),
    ] = "10%"
    processors: Annotated[
        Processors,
        Field(
            description="How many processors one person may use at once: a number, a share of the node's, or "
            "`unlimited`. It applies on an idle node, too; usually `processor_weight` is enough."
        ),
    ] = "unlimited"
    processor_weight: Annotated[
        Weight,
        Field(description="How processors are shared while all are busy: 200 gets twice as much as 100."),
    ] = 100
    disk_reserve: Annotated[
        Reserve,
        Field(
            description="What people cannot fill of a node's own disk, and of the homes' disk on the storage host: "
            "a share (`5%`), a size, or `0` for nothing. On btrfs gpuadmin turns quotas on for it, keeps at least "
            "1.25 GiB (an eighth of a disk below 10 GiB), and gives all that people write (scratch, Docker's data, "
            "homes) one limit; ext4 keeps blocks for root by itself; other file "
            "systems keep nothing, and `provision` says so."
        ),
    ] = "5%"
    home: Annotated[
        Disk,
        Field(
            description="What one person may have in their home: a size (`500G` is 500 GB) or `unlimited`. On ext4 "
            "and xfs with user quotas the kernel refuses more; elsewhere it is measured once a day, and people are "
            "told (`gpuadmin-me`, the login message from 90 %, `diagnose`). On a storage host, `limits_home` in the "
            "inventory."
        ),
    ] = UNLIMITED
    docker: Annotated[
        Disk,
        Field(
            description="What one person may have of Docker's data on each node: a size (`200G` is 200 GB) or "
            "`unlimited`. On btrfs, where `disk_reserve` is not `0`, the kernel refuses more in every place for "
            "Docker's data that is made from then on; in an older one it is measured, and its person told, as "
            "on other file systems."
        ),
    ] = UNLIMITED
    scratch: Annotated[
        Disk,
        Field(
            description="What one person may have in their directory of `reset.scratch` (`/local/NAME`) on each node: "
            "a size or `unlimited`. On btrfs, where `disk_reserve` is not `0`, the kernel refuses more in every one "
            "that is made from then on; elsewhere nothing does, and `provision` says so."
        ),
    ] = UNLIMITED
    people: Annotated[
        list[OwnLimits],
        Field(description="Limits of certain people. Where somebody is in several entries, the later ones win."),
    ] = []


#: What one person may have of disks. None of it is the kernel's limits of slices.
AMOUNTS = ("home", "docker", "scratch")
#: What the inventory may say otherwise for a group or a host, as limits_memory and so on.
OF_A_HOST = ("memory", "swap", "tasks", "processors", "processor_weight", "disk_reserve", *AMOUNTS)


def any_amount(limits: Limits, hosts: Iterable[Mapping[str, Any]], place: str) -> bool:
    """Whether anybody of a site has an amount of `home`, `docker` or `scratch`. `hosts`: the variables of each."""
    said = [getattr(one, place) for one in (limits, *limits.people)]
    said += [variables.get(f"limits_{place}") for variables in hosts]
    return any(one not in (None, UNLIMITED) for one in said)
