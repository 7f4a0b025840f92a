"""People's notebooks: whose browser nginx may lead to one (it asks before each request), and the page that leads there.

Notebooks have an origin of their own, by another port: what runs in one cannot read the dashboard's pages, nor press
its buttons (docs/decisions/0208-a-persons-notebook.md).
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from .pages import Pages
from .queue import Queue
from .viewer import Settings, Viewer

PERSON = "x-gpuadmin-notebook"  # in which nginx says whose notebook is asked for
#: A notebook as links have it: node and job.
NOTEBOOK = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]{0,62}/[1-9][0-9]{0,9}")


def may_open(viewer: Viewer | None, persons: list[str]) -> int:
    """Given who looks and whom nginx has named, return the status that it is answered: 204, 401 or 403."""
    if viewer is None:
        return 401
    # guard: a notebook is its person's alone, and an admin's name from the controller is nobody's here -> False
    refused = viewer.admin or persons != [viewer.name]
    return 403 if refused else 204


def address(request: Request, settings: Settings, person: str, notebook: str) -> str:
    """Where a notebook is, by the name that the browser knows this host by."""
    host = urlsplit(f"//{request.headers['host']}").hostname or ""
    node, _, job = notebook.partition("/")
    # JupyterLab leaves a phone no room for a cell; Jupyter Notebook is the same server's
    view = "tree" if "Mobi" in request.headers.get("user-agent", "") else "lab"
    return f"https://{f'[{host}]' if ':' in host else host}:{settings.notebooks}/{node}/{person}/{job}/{view}"


def own(request: Request, settings: Settings, viewer: Viewer, queue: Queue) -> dict[str, str]:
    """Job → address, of those that somebody has running."""
    found = [one for one in queue.of(viewer.name) if one.notebook and settings.notebooks and not viewer.admin]
    return {one.id: address(request, settings, viewer.name, f"{one.nodes}/{one.id}") for one in found}


def routes(access: Callable[[Request], Viewer | None], settings: Settings, pages: Pages) -> list[Route]:
    """Nothing where the site has no notebooks."""

    async def allow(request: Request) -> Response:
        return Response(status_code=may_open(access(request), request.headers.getlist(PERSON)))

    async def lead(request: Request) -> Response:
        viewer, notebook = access(request), f"{request.path_params['node']}/{request.path_params['job']}"
        if viewer is None:
            return RedirectResponse("/enter", status_code=303)
        if request.path_params["node"] not in settings.nodes or not NOTEBOOK.fullmatch(notebook):
            raise HTTPException(404)
        values = {"address": address(request, settings, viewer.name, notebook)}
        return pages.page(request, "notebook.html", values, viewer)

    ask: Callable[[Request], Awaitable[Response]] = allow
    found = [Route("/notebook-allowed", ask), Route("/notebooks/{node}/{job}", lead)]
    return found if settings.notebooks else []
