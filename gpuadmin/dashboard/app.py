"""The dashboard's pages, as an application for a server such as uvicorn. Access (access.py) says who looks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..common.given import DAY, STEP, merge_given
from ..common.queries import GIVEN
from ..common.samples import Sample
from . import notebooks, plots, queries, usage_page, views
from .announced import announced
from .answer_turns import AnswerTurns
from .buttons import Buttons
from .door import Door
from .files import DashboardError
from .pages import Pages, choose_language, environment
from .prometheus import Asked, Prometheus
from .snapshot import Snapshot, take_snapshot
from .status_page import StatusPage, status_page, write_status
from .texts import say
from .viewer import Settings, Viewer

_DAYS = (7, 30)  # for which a person's hours are added up
_WEEK = 900.0  # seconds for which everybody's hours of the last days serve everybody
_PATIENCE = 3.0  # seconds for which the page of people waits for them; what comes later is there when it comes again
_LOOK = 5.0  # seconds for which a look serves everybody
_EVERY = 60.0  # seconds between two writings of the page without a login

Answer = Callable[[Request, Viewer, Snapshot], Awaitable[Response]]


class _Static(StaticFiles):
    """Files that a browser keeps, and asks for by their digest whether they have changed."""

    async def get_response(self, path: str, scope: Any) -> Response:
        try:
            answer = await super().get_response(path, scope)
        except (OSError, ValueError):  # no file has such a name (older Starlettes)
            raise HTTPException(404) from None
        answer.headers["Cache-Control"] = "no-cache"
        return answer


class Dashboard:
    """What the pages are answered from."""

    def __init__(
        self,
        prometheus: Prometheus,
        access: Any,
        settings: Settings,
        files: str,
        alive: Callable[[], None],
        door: Door | None,
    ) -> None:
        self._asked, self._access, self._settings = Asked(prometheus), access, settings
        self._pages = Pages(environment(files), settings)
        self._written, self._alive = "", alive
        self._kept: tuple[float, Snapshot | None] = 0.0, None
        self._looking: asyncio.Task[Snapshot] | None = None
        self._turns = AnswerTurns()
        self._buttons = Buttons(door, access, self._pages, settings)

    def routes(self, files: str) -> list[Route | Mount]:
        """All addresses but those of Access."""
        return [
            Route("/", self._for_viewers(self._overview)),
            Route("/nodes/{name}", self._for_viewers(self._node)),
            Route("/people", self._for_viewers(self._people)),
            Route("/people/{name}", self._for_viewers(self._person)),
            Route("/me", self._for_viewers(self._me)),
            Route("/queue", self._for_viewers(self._queue)),
            Route("/given", self._for_viewers(self._given)),
            Route("/jobs", self._for_viewers(self._buttons.show_jobs)),
            Route("/queue/{verb}", self._for_viewers(self._buttons.press), methods=["POST"]),
            Route("/free", self._for_viewers(self._free)),
            Route("/rules", self._for_viewers(self._rules)),
            Route("/usage", self._for_viewers(self._usage)),
            Route("/usage.csv", self._for_viewers(self._usage)),
            Route("/data/cluster", self._for_viewers(self._cluster_data)),
            Route("/data/nodes/{name}", self._for_viewers(self._node_data)),
            Route("/data/people/{name}", self._for_viewers(self._person_data)),
            Route("/data/now", self._now),
            Route("/status", self._status),
            *notebooks.routes(self._access.viewer, self._settings, self._pages),
            Route("/favicon.ico", lambda request: RedirectResponse("/static/icon.svg", status_code=308)),
            Mount("/static", _Static(directory=os.path.join(files, "static"))),
        ]

    def _for_viewers(self, answer: Answer) -> Callable[[Request], Awaitable[Response]]:
        """The one way to a page: nobody gets to an answer who was not let in."""

        async def endpoint(request: Request) -> Response:
            # guard: nobody gets a page without being let in -> Viewer("", True)
            viewer = self._access.viewer(request)
            if viewer is None:
                if request.url.path.startswith("/data/"):
                    return JSONResponse({"error": "log in"}, status_code=401, headers={"Cache-Control": "no-store"})
                return RedirectResponse("/enter", status_code=303, headers={"Cache-Control": "no-store"})
            try:
                found = await self._look()
                return await answer(request, viewer, found)
            except DashboardError as error:
                print(f"dashboard: {error}", file=sys.stderr)
                return self._pages.message(request, 503, "away-title", "away", viewer)

        return endpoint

    async def _look(self) -> Snapshot:
        """One that is seconds old at most; who comes while it is made waits for the same. Raises DashboardError."""
        until, kept = self._kept
        if kept is not None and time.monotonic() < until:
            return kept
        if self._looking is None:
            self._looking = asyncio.ensure_future(self._look_again())
        return await asyncio.shield(self._looking)

    async def _look_again(self) -> Snapshot:
        try:
            found = await take_snapshot(self._asked, self._settings)
            self._kept = time.monotonic() + _LOOK, found
            return found
        finally:
            self._looking = None

    def _page(
        self, request: Request, template: str, found: Snapshot, viewer: Viewer, values: Mapping[str, Any]
    ) -> Response:
        rows = announced(self._settings.announcements, found.when)
        return self._pages.page(request, template, {**values, "look": found}, viewer, announced=rows)

    async def _overview(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        return self._page(request, "overview.html", found, viewer, views.overview(found))

    async def _node(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        node = found.node(request.path_params["name"])
        if node is None:
            raise HTTPException(404)
        return self._page(request, "node.html", found, viewer, {"node": views.node_page(node, found)})

    async def _people(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        spent = await self._ask_week()
        if spent is None:
            found = replace(found, missing=(*found.missing, "hours"))
        page = views.people_page(found, viewer, _DAYS[0], spent, self._settings.admins)
        return self._page(request, "people.html", found, viewer, page)

    async def _ask_week(self) -> list[Sample] | None:
        """Everybody's hours of the last days; None where Prometheus does not say them soon."""
        with contextlib.suppress(DashboardError, asyncio.TimeoutError):
            return await asyncio.wait_for(self._asked.now(queries.hours_of_all(_DAYS[0]), _WEEK, slow=True), _PATIENCE)
        return None

    async def _person(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        name = await self._require_known(request.path_params["name"], viewer, found)
        async with self._turns.take(viewer.name):
            spent = dict(zip(_DAYS, await asyncio.gather(*(self._spent(name, days) for days in _DAYS))))
        page = views.person_page(name, found, viewer, spent)
        return self._page(request, "person.html", found, viewer, {"person": page})

    async def _spent(self, name: str, days: int) -> Any:
        asked = (queries.query_gpu_hours(kind, name, days) for kind in ("held", "measured", "active"))
        answers = (self._asked.now(query, 300.0, slow=True) for query in asked)
        return views.measured(*await asyncio.gather(*answers))

    async def _me(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        known = viewer.name in views.known_people(found, viewer)
        chosen = request.query_params.get("lang")
        query = f"?lang={chosen}" if chosen in self._settings.languages else ""
        path = f"/people/{quote(viewer.name, safe='')}" if known else "/"
        return RedirectResponse(path + query, status_code=303)

    async def _queue(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        if found.queue is None:
            raise HTTPException(404)
        return self._page(request, "queue.html", found, viewer, {
            "queue": found.queue, "mine": found.queue.of(viewer.name),
            "ended": [one for one in found.queue.ended if one.user == viewer.name],
            **self._buttons.offer(viewer, found),
            "notebooks": notebooks.own(request, self._settings, viewer, found.queue),
        })  # fmt: skip

    async def _given(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        end = time.time() // STEP * STEP  # who asks a minute later asks the same
        async with self._turns.take(viewer.name):
            answer = await self._asked.over_time(GIVEN, end - _DAYS[-1] * DAY, end, STEP)
        rows = [one for one in merge_given(answer, end) if found.node(one.node) is not None]
        return self._page(request, "given.html", found, viewer, {"days": _DAYS[-1], "rows": rows, "now": end})

    async def _free(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        numbers = {"gpus": (1, 1, 64), "memory": (0, 0, 1000)}
        wanted = {}
        for field, (usual, least, most) in numbers.items():
            text = request.query_params.get(field, "") or str(usual)
            if not (text.isascii() and text.isdecimal() and len(text) < 6 and least <= int(text) <= most):
                words = say(choose_language(request, self._settings), f"need-{field}")
                return self._pages.message(request, 400, "wrong", "wrong-value", viewer, words, least, most)
            wanted[field] = int(text)
        return self._page(request, "free.html", found, viewer, views.free_page(found, **wanted))

    async def _rules(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        texts = dict(zip(self._settings.languages, self._settings.rules))
        language = choose_language(request, self._settings)
        if language not in texts:
            raise HTTPException(404)
        return self._page(request, "rules.html", found, viewer, {"rules": texts[language]})

    async def _usage(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        span, by = request.query_params.get("span", "30"), request.query_params.get("by", "user")
        period = usage_page.choose_period(span, self._settings, time.time())
        if period is None or by not in usage_page.BY:
            raise HTTPException(404)
        begin, end = usage_page.weeks(period)
        async with self._turns.take(viewer.name):
            asked = [self._asked.now(query(period), 300.0, slow=True) for query in usage_page.QUERIES]
            waited = [
                self._asked.over_time(usage_page.query_waits(share, period), begin, end, usage_page.WEEK)
                for share in usage_page.SHARES
            ]
            (used, hours), waits = await asyncio.gather(*asked), await asyncio.gather(*waited)
        page = usage_page.make_page(span, by, period, used, hours, waits, self._settings)
        if request.url.path.endswith(".csv"):
            headers = {"Content-Disposition": f'attachment; filename="usage-{by}-{span}.csv"'}
            return Response(usage_page.csv_text(by, page["rows"]), media_type="text/csv", headers=headers)
        return self._page(request, "usage.html", found, viewer, page)

    async def _require_known(self, name: str, viewer: Viewer, found: Snapshot) -> str:
        """The name of a person who has a page."""
        known = views.known_people(found, viewer)
        if name not in known and name not in views.known_people(found, viewer, await self._ask_week()):
            raise HTTPException(404)
        return name

    async def _cluster_data(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        return await self._plots(request, viewer, queries.of_cluster, plots.use_plot)

    async def _person_data(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        name = await self._require_known(request.path_params["name"], viewer, found)
        return await self._plots(request, viewer, lambda step: queries.of_person(name, step), plots.use_plot)

    async def _node_data(self, request: Request, viewer: Viewer, found: Snapshot) -> Response:
        node = found.node(request.path_params["name"])
        if node is None:
            raise HTTPException(404)
        return await self._plots(
            request,
            viewer,
            lambda step: queries.of_node(node.name, step),
            lambda *rest: plots.node_plots(node, *rest),
        )

    async def _plots(self, request: Request, viewer: Viewer, query: Any, make: Any) -> Response:
        span = request.query_params.get("span", "1d")
        if span not in queries.SPANS:
            raise HTTPException(404)
        seconds, step = queries.SPANS[span]
        end = time.time() // step * step  # a whole step: somebody who asks a moment later asks the same
        asked = query(step)
        begin = end - seconds
        async with self._turns.take(viewer.name):
            answers = await asyncio.gather(*(self._asked.over_time(one, begin, end, step) for one in asked.values()))
        made = make(dict(zip(asked, answers)), end, seconds, step, choose_language(request, self._settings))
        return JSONResponse({"span": span, "plots": made}, headers={"Cache-Control": "no-store"})

    async def status_now(self) -> StatusPage:
        """The page without a login, as things are now."""
        now = time.time()
        found = None
        with contextlib.suppress(DashboardError):
            found = await self._look()
        rows = announced(self._settings.announcements, now)
        return status_page(self._pages.templates, self._settings.cluster, found, rows, now)

    async def _status(self, request: Request) -> Response:
        page = await self.status_now()
        return HTMLResponse(page.text, headers={"Cache-Control": "no-store", "Content-Security-Policy": page.policy})

    async def keep_status(self) -> None:
        """Write the page every minute, for as long as the service runs. A full disk is said once, and tried again."""
        while True:
            page = await self.status_now()
            try:
                await asyncio.to_thread(write_status, self._settings.status_file, page)
                problem = ""
            except OSError as error:
                problem = f"dashboard: {self._settings.status_file}: {error.strerror}"
            if problem and problem != self._written:
                print(problem, file=sys.stderr)
            self._written = problem
            self._alive()
            await asyncio.sleep(_EVERY)

    async def _now(self, request: Request) -> Response:
        """All GPUs, for a node that asks for the people on it; they may see the same on the first page."""
        if self._access.find_node(request) is None:  # guard: only a node of the site is told who holds what
            return JSONResponse({"error": "this is for nodes"}, status_code=401)
        try:
            return JSONResponse(views.cluster_now(await self._look()))
        except DashboardError:
            return JSONResponse({"error": "Prometheus does not answer"}, status_code=503)

    async def refused(self, request: Request, error: Exception) -> Response:
        """What is not there, or not allowed."""
        status = error.status_code if isinstance(error, HTTPException) else 500
        later = {"Retry-After": "10"} if status == 429 else {}
        if request.url.path.startswith("/data/"):
            problem = {"error": "wait" if status == 429 else "not found"}
            return JSONResponse(problem, status_code=status, headers={"Cache-Control": "no-store", **later})
        title, why = {404: ("not-found", "not-found-why"), 429: ("often", "often-why")}.get(
            status, ("wrong", "not-found-why")
        )
        viewer = self._access.viewer(request) if status in (404, 429) else None
        answer = self._pages.message(request, status, title, why, viewer)
        answer.headers.update(later)
        return answer

    async def failed(self, request: Request, error: Exception) -> Response:
        """A defect of ours: its traceback is in the journal, and not on the page."""
        return self._pages.message(request, 500, "failed", "failed-why")


def application(
    *,
    prometheus: Prometheus,
    access: Any,
    settings: Settings,
    files: str,
    alive: Callable[[], None] = lambda: None,
    door: Door | None = None,
) -> Starlette:
    """Given whom to ask, who decides who looks, what the site says of itself, and the directory that has `templates`
    and `static`, return the application. `alive` is called every minute, for as long as it goes on.
    """
    board = Dashboard(prometheus, access, settings, files, alive, door)

    @contextlib.asynccontextmanager
    async def running(_app: Starlette) -> AsyncIterator[None]:
        task = asyncio.ensure_future(board.keep_status()) if settings.status_file else None
        try:
            yield
        finally:
            if task is not None:
                task.cancel()

    routes: Sequence[Any] = [*access.routes(), *board.routes(files)]
    handlers: Mapping[Any, Any] = {HTTPException: board.refused, 500: board.failed}
    # no page has a secret in it that its length could tell
    packed = [Middleware(GZipMiddleware, minimum_size=2000)]
    return Starlette(routes=list(routes), middleware=packed, exception_handlers=dict(handlers), lifespan=running)
