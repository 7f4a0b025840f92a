"""Notebooks: JupyterLab on a GPU of the queue, in a browser."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field

from gpuadmin.config.fields import Path
from gpuadmin.config.schema.base import Model
from gpuadmin.config.schema.shared import one_of

#: A package with an exact version, as pip takes it.
_PACKAGE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}(\[[A-Za-z0-9,_-]{1,80}\])?==[A-Za-z0-9][A-Za-z0-9.+!*-]{0,40}"
_INDEX = r"(https?|file)://[^\s@]{1,200}"


class Notebooks(Model):
    """JupyterLab of each person's own on a GPU of the queue (`gpu jupyter`), opened in a browser through the monitor
    host. Without this section there is none."""

    packages: Annotated[
        list[Annotated[str, AfterValidator(one_of(_PACKAGE, "a package with its version, such as jupyterlab==4.6.6"))]],
        Field(
            min_length=1,
            max_length=100,
            description="What the nodes have for those who have no JupyterLab of their own, each with its version. "
            "`provision` installs wheels, and what they need, where nobody but root writes.",
        ),
    ] = ["jupyterlab==4.6.6", "notebook==7.6.5", "ipywidgets==8.1.8"]
    index: Annotated[
        Annotated[
            str, AfterValidator(one_of(_INDEX, "the address of a package index, such as https://pypi.org/simple"))
        ]
        | None,
        Field(description="Where they come from: the address of a package index; otherwise what pip there asks."),
    ] = None
    code_server: Annotated[
        Path | None,
        Field(
            description="Where nodes have the program code-server, such as `/usr/bin/code-server`: then notebooks open "
            "VS Code, too. gpuadmin does not install it; it adds jupyter-server-proxy to `packages`."
        ),
    ] = None
    port: Annotated[
        int,
        Field(ge=1024, le=65535, description="TCP port of the monitor host at which browsers open notebooks (HTTPS)."),
    ] = 9444
    front_port: Annotated[
        int, Field(ge=1024, le=65535, description="TCP port of nodes at which the monitor host asks for them (TLS).")
    ] = 9445
