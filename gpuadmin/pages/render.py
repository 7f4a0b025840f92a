"""From a template and values to Markdown, and from Markdown to one HTML page that needs nothing else.

Templates are in templates/; a site's own templates/ comes first. What comes from a site is text: it is escaped where it
could be markup, and HTML in Markdown is shown, not obeyed.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment
from markdown_it import MarkdownIt

from gpuadmin.content import content_path
from gpuadmin.errors import ConfigError
from gpuadmin.text import one_line

LANGUAGES = ("ko", "en")
HINT = "correct the site's template, or delete it: gpuadmin has one of its own"

_STYLE = """\
body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; color: #222;
  font: 16px/1.6 system-ui, "Noto Sans KR", sans-serif; }
pre { background: #f4f4f4; padding: .7rem; overflow-x: auto; line-height: 1.4; }
code { font-family: ui-monospace, monospace; font-size: .9em; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border: 1px solid #ccc; padding: .3rem .6rem; text-align: left; vertical-align: top; }
h1, h2, h3 { line-height: 1.25; }
@media (prefers-color-scheme: dark) { body { background: #181818; color: #ddd; }
  pre { background: #262626; } a { color: #8bf; } }
"""


def markdown(folder: str, name: str, values: Mapping[str, Any], site: Path | None = None) -> str:
    """Given a folder of templates, a template's name and its values, return the page as Markdown.

    `site`: a site's directory, whose templates come first. Raises ConfigError naming a template that is wrong.
    """
    places = [content_path("templates", folder)]
    if site is not None:
        places.insert(0, site / "templates" / folder)
    environment = ImmutableSandboxedEnvironment(
        loader=jinja2.FileSystemLoader(places),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # Markdown: see escaped
    )
    environment.filters["md"] = escaped
    try:
        text = environment.get_template(name).render(values)
    except jinja2.TemplateSyntaxError as error:
        raise ConfigError(f"templates/{folder}/{name}:{error.lineno}: {error.message}", hint=HINT) from None
    except Exception as error:  # whatever a site's own template does wrong
        raise ConfigError(f"templates/{folder}/{name}: {type(error).__name__}: {error}", hint=HINT) from None
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def escaped(value: object) -> str:
    """Given a value, return it as one line of Markdown in which nothing is markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&])", r"\\\1", one_line(str(value)))


def page(text: str, language: str) -> str:
    """Given Markdown and its language, return one HTML page, with its style in it and nothing loaded from elsewhere."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("table")
    tokens = parser.parse(text)
    title = "gpuadmin"
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            words = "".join(one.content for one in tokens[place + 1].children or ())
            token.attrSet("id", slug(words))
            title = words if token.tag == "h1" else title
    body = parser.renderer.render(tokens, parser.options, {})
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def slug(heading: str) -> str:
    """Given a heading, return its anchor, as GitHub makes it: `Copying data in and out` → `copying-data-in-and-out`."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
