"""Templates of mails and pages: a site's own comes before gpuadmin's, and what is wrong with it is a sentence."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2.loaders import split_template_path
from jinja2.sandbox import ImmutableSandboxedEnvironment

from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError
from gpuadmin.reading import is_absent, read_text
from gpuadmin.text import korean_term, visible

HINT = "correct the site's template, or delete it: gpuadmin has one of its own"


class _Loader(jinja2.BaseLoader):
    """As jinja2's FileSystemLoader, which gives errors of the system and of codecs for what cannot be read."""

    def __init__(self, places: list[Path]) -> None:
        self._places = places

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Callable[[], bool]]:
        for place in self._places:
            path = place.joinpath(*split_template_path(template))
            try:
                absent = is_absent(path)
            except OSError as error:
                raise ConfigError(f"{path}: {error.strerror}", hint="it must be a file that you can read") from None
            if not absent:
                return read_text(path), str(path), lambda: True
        raise jinja2.TemplateNotFound(template)


class Templates:
    """The templates of one folder of templates/, which are plain text: nothing is escaped.

    `site`: a site's directory, whose templates come first.
    """

    def __init__(
        self, folder: str, site: Path | None = None, filters: Mapping[str, Callable[..., Any]] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        self._folder, self._site = folder, site
        own = [] if site is None else [site / "templates" / folder]
        self._environment = ImmutableSandboxedEnvironment(
            loader=_Loader([*own, content_path("templates", folder)]),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
            **options,
        )
        self._environment.filters.update({"korean_term": korean_term, **(filters or {})})

    def rendered(self, name: str, values: Mapping[str, Any]) -> str:
        """Given a template's name and its values, return its text. Raises ConfigError naming what is wrong."""
        where = f"templates/{self._folder}/{name}"
        try:
            return self._environment.get_template(name).render(values)
        except ConfigError as error:  # it cannot be read
            raise ConfigError(error.message.removeprefix(f"{self._site}/"), hint=error.hint) from None
        except jinja2.TemplateSyntaxError as error:
            raise ConfigError(f"{where}:{error.lineno}: {error.message}", hint=HINT) from None
        except Exception as error:  # whatever a site's own template does wrong
            raise ConfigError(f"{where}: {type(error).__name__}: {error}", hint=HINT) from None


def load_report_template(name: str, **filters: Callable[[Any], object]) -> jinja2.Template:
    """Given a page of templates/report/ and its filters, return it. What it shows is text: escaped, and visible."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(content_path("templates", "report")), undefined=jinja2.StrictUndefined,
        autoescape=True, finalize=_make_visible, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= filters
    return environment.get_template(name)


def _make_visible(value: object) -> object:
    """A text with all that is in it to be seen; what a template made is markup already."""
    return visible(value) if isinstance(value, str) and not hasattr(value, "__html__") else value
