"""The dashboard's doors: who comes in, and how."""

from __future__ import annotations

from starlette.requests import Request
from starlette.routing import Route

from .viewer import Viewer


class Doors:
    """Whoever has a session, or is named by the site's reverse proxy."""

    def viewer(self, request: Request) -> Viewer | None:
        """Who asks; None for somebody who has not come in."""
        raise NotImplementedError

    def routes(self) -> list[Route]:
        """/enter and /leave."""
        raise NotImplementedError
