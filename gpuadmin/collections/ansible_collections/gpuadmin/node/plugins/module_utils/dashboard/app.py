"""The pages of the dashboard, as one application."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from .doors import Doors
from .viewer import Settings


def application(*, prometheus: Any, doors: Doors, settings: Settings, files: str) -> Starlette:
    """Given whom to ask, who comes in, the settings, and the directory of templates and static files: the pages."""

    async def overview(request: Request) -> Response:
        viewer = doors.viewer(request)
        if viewer is None:
            return RedirectResponse("/enter", status_code=303)
        return PlainTextResponse(f"{settings.cluster}: {viewer.name}\n")

    return Starlette(routes=[*doors.routes(), Route("/", overview)])
