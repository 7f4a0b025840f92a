"""What the monitor host does by itself, with a gpuadmin and a copy of the site of its own."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gpuadmin.config.fields import Path
from gpuadmin.config.schema.base import Model


class Timers(Model):
    """Verbs that the monitor host runs by itself, as the account `gpuadmin-timers`. Without this section none."""

    verbs: Annotated[
        list[Literal["drift", "idle", "notify", "report", "windows"]],
        Field(
            min_length=1,
            description="Which: `idle --act` every hour, windows of `maintain` at their time, the others every day "
            "(a month's `report` is mailed once).",
        ),
    ]
    program: Annotated[Path, Field(description="gpuadmin on the monitor host.")] = "/opt/gpuadmin/bin/gpuadmin"
