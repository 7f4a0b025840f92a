"""From a template and values to Markdown, and from Markdown to one HTML page that needs nothing else.

Templates are in templates/; a site's own templates/ comes first. What comes from a site is text: it is escaped where it
could be markup, and HTML in Markdown is shown, not obeyed.
"""

from __future__ import annotations

import html
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt

from gpuadmin.templates import Templates
from gpuadmin.text import one_line

LANGUAGES = ("ko", "en")

_STYLE = """\
:root { color-scheme: light dark; --text: #222; --ground: #fff; --code: #f3f4f6; --line: #ccc; --link: #0b57d0; }
@media (prefers-color-scheme: dark) {
  :root { --text: #ddd; --ground: #181818; --code: #262626; --line: #484848; --link: #8bf; } }
body { max-width: 50rem; margin: 2rem auto; padding: 0 1rem; color: var(--text); background: var(--ground);
  font: 16px/1.6 system-ui, "Noto Sans KR", "Noto Sans CJK KR", sans-serif; overflow-wrap: break-word; }
:lang(ko) { word-break: keep-all; }
h1, h2, h3 { line-height: 1.25; }
h2 { margin-top: 2.2rem; padding-bottom: .2rem; border-bottom: 1px solid var(--line); }
a { color: var(--link); }
nav ul { columns: 16rem; margin: 0; padding-left: 1.2rem; }
pre { background: var(--code); padding: .7rem; border-radius: 4px; white-space: pre-wrap;
  line-height: 1.4; }
code { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .9em; }
pre code { font-size: .82em; }
:not(pre) > code { background: var(--code); padding: .1em .25em; border-radius: 3px; }
table { border-collapse: collapse; margin: 1rem 0; display: block; max-width: 100%; overflow-x: auto; }
th, td { border: 1px solid var(--line); padding: .3rem .6rem; text-align: left; vertical-align: top;
  min-width: 4.5rem; }
th { background: var(--code); }
@media (max-width: 40rem) { body { margin: 1rem auto; } h1 { font-size: 1.6rem; } h2 { font-size: 1.3rem; }
  td { overflow-wrap: anywhere; } }
@media print { :root { --text: #000; --ground: #fff; --code: #f3f4f6; --line: #999; --link: #000; }
  body { max-width: none; margin: 0; font-size: 11pt; } nav { display: none; }
  pre, tr { break-inside: avoid; } h1, h2, h3 { break-after: avoid; } }
"""
#: Fewer sections are seen at a glance.
_CONTENTS_FROM = 5


def markdown(folder: str, name: str, values: Mapping[str, Any], site: Path | None = None) -> str:
    """Given a folder of templates, a template's name and its values, return the page as Markdown.

    `site`: a site's directory, whose templates come first. Raises ConfigError naming a template that is wrong.
    """
    templates = Templates(folder, site, {"md": escaped}, keep_trailing_newline=True)
    text = templates.rendered(name, values)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"


def escaped(value: object) -> str:
    """Given a value, return it as one line of Markdown in which nothing is markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|~!&])", r"\\\1", one_line(str(value)))


def fragment(text: str, first: str) -> str:
    """Given Markdown, return its sections as HTML for a page that has a title: the one with the heading ``first``
    before all others.
    """
    _title, _headings, body = _render(text)
    sections = re.split("(?=<h2 id=)", body)[1:]
    return "".join(sorted(sections, key=lambda one: not one.startswith(f'<h2 id="{slug(first)}"')))


def page(text: str, language: str) -> str:
    """Given Markdown and its language, return one HTML page, with its style in it and nothing loaded from elsewhere."""
    title, sections, body = _render(text)
    if len(sections) >= _CONTENTS_FROM:
        before, heading, rest = body.partition("</h1>\n")
        body = f"{before}{heading}{_contents(sections)}{rest}" if heading else _contents(sections) + body
    return (
        f'<!DOCTYPE html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{html.escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )


def _render(text: str) -> tuple[str, list[str], str]:
    """The title of Markdown, the headings of its sections, and all of it as HTML."""
    parser = MarkdownIt(
        "commonmark",
        {
            "html": False  # guard: what a site says is not markup in a page -> True
        },
    ).enable("table")
    tokens = parser.parse(text)
    title, sections = "gpuadmin", list[str]()
    for place, token in enumerate(tokens):
        if token.type == "heading_open":
            words = "".join(one.content for one in tokens[place + 1].children or ())
            token.attrSet("id", slug(words))
            title = words if token.tag == "h1" else title
            if token.tag == "h2":
                sections.append(words)
    return title, sections, parser.renderer.render(tokens, parser.options, {})


def _contents(sections: Sequence[str]) -> str:
    """Links to the sections of a page."""
    lines = "".join(f'<li><a href="#{slug(one)}">{html.escape(one)}</a></li>\n' for one in sections)
    return f"<nav>\n<ul>\n{lines}</ul>\n</nav>\n"


def slug(heading: str) -> str:
    """Given a heading, return its anchor, as GitHub makes it: `Copying data in and out` → `copying-data-in-and-out`."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
