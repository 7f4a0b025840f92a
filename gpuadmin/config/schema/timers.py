"""What the monitor host does by itself, with a gpuadmin and a copy of the site of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpuadmin.config.fields import Path
from gpuadmin.config.schema.base import Model


class IdleShutdown(Model):
    """`gpuadmin shutdown HOSTS --idle NODES [--place PLACE]`, by a timer."""

    when: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9*:.,/ ~-]{1,60}$",
            description="When, as systemd has it (systemd.time(7)): `Fri 20:00`.",
        ),
    ]
    nodes: Annotated[int, Field(ge=1, le=1000, description="So many go at most, each time.")]
    hosts: Annotated[
        str,
        Field(
            pattern=r"^[A-Za-z0-9][A-Za-z0-9_.,:!&*-]{0,200}$",
            description="Of these, as on the command line: `gpu:!gpu1`.",
        ),
    ] = "gpu"
    place: Annotated[
        str | None,
        # not {1,96}: every gpuadmin would take 35 ms to compile it
        Field(pattern=r"^[\w ,./-]+$", max_length=96, description="Only of those with this in their `place`."),
    ] = None


class Timers(Model):
    """Verbs that the monitor host runs by itself, as the account `gpuadmin-timers`. Without this section none."""

    verbs: Annotated[
        list[Literal["drift", "idle", "notify", "power", "report", "shutdown", "windows"]],
        Field(
            min_length=1,
            description="Which: `idle --act` every hour, windows of `maintain` at their time, `power on --queue` every "
            "ten minutes, `shutdown --idle` as `shutdown` says, the others every day (a month's `report` is mailed "
            "once).",
        ),
    ]
    shutdown: Annotated[IdleShutdown | None, Field(description="Nodes that nobody uses, switched off.")] = None
    program: Annotated[Path, Field(description="gpuadmin on the monitor host.")] = "/opt/gpuadmin/bin/gpuadmin"
