"""From plain values to HTML: the templates, with everything escaped that does not come from them."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ..common.metrics import UNKNOWN
from . import texts, words
from .viewer import Settings, Viewer

COOKIE = "gpuadmin-language"


def environment(files: str) -> Environment:
    """The templates of that directory. What is not given to one is an error, and what is given to it is escaped."""
    found = Environment(
        loader=FileSystemLoader(os.path.join(files, "templates")),
        autoescape=True, undefined=StrictUndefined,  # guard: what somebody chose is escaped -> False
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    found.filters.update(
        name=words.name, percent=words.percent, number=words.number, gib=words.gib, moment=words.moment, iso=words.iso,
        segment=partial(quote, safe=""),
    )  # fmt: skip
    found.globals.update(age_of=words.age, UNKNOWN=UNKNOWN)
    return found


def choose_language(request: Request, settings: Settings) -> str:
    """The language of an answer: chosen in the address, chosen before, or the browser's."""
    wanted = request.query_params.get("lang") or request.cookies.get(COOKIE, "")
    return texts.choose(settings.languages, wanted, request.headers.get("accept-language", ""))


class Pages:
    """What makes answers of views."""

    def __init__(self, templates: Environment, settings: Settings) -> None:
        self.templates, self._settings = templates, settings

    def page(
        self,
        request: Request,
        template: str,
        values: Mapping[str, Any],
        viewer: Viewer | None,
        *,
        announced: Sequence[Any] = (),
        status: int = 200,
    ) -> Response:
        """An answer of that template in the reader's language."""
        language = choose_language(request, self._settings)
        say = partial(texts.say, language)
        text = self.templates.get_template(template).render(
            {
                **values, "t": say, "language": language, "languages": self._languages(request), "viewer": viewer,
                "cluster": self._settings.cluster, "announced": announced, "path": request.url.path,
                "problem_words": partial(texts.problem, language), "alert_words": partial(texts.alert, language),
                "age": lambda seconds: words.age(seconds, language), "now": time.time(),
            }
        )  # fmt: skip
        answer = HTMLResponse(text, status_code=status, headers={"Cache-Control": "no-store"})
        if request.query_params.get("lang") in self._settings.languages:
            answer.set_cookie(COOKIE, language, max_age=31536000, httponly=True, secure=True, samesite="lax")
        return answer

    def _languages(self, request: Request) -> list[tuple[str, str, str]]:
        """Each language's tag, name, and the address of this page in it."""
        return [
            (tag, texts.LANGUAGES[tag], "?" + str(request.url.include_query_params(lang=tag).query))
            for tag in self._settings.languages
        ]

    def message(
        self, request: Request, status: int, title: str, why: str, viewer: Viewer | None = None, *values: object
    ) -> Response:
        """A page that only says something: two keys of texts.py."""
        say = partial(texts.say, choose_language(request, self._settings))
        return self.page(
            request, "message.html", {"title": say(title), "why": say(why, *values)}, viewer, status=status
        )
