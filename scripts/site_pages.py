"""A hook of the site's builder (.config/properdocs.yml): pages that are not in docs/, and links between all of them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from properdocs.structure.files import File, Files

from gpuadmin.cli import VERBS, cli
from gpuadmin.cli._manual import commands

ROOT = Path(__file__).resolve().parents[1]
#: From the path in the repository to the page of the site.
ELSEWHERE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security-reports.md",
    "benchmarks/README.md": "benchmarks.md",
}
LINK = re.compile(r"\[([^\[\]]*)\]\(([^)#\s]+)(#[^)]*)?\)")


def verbs_page() -> str:
    """The help of every verb."""
    lines = ["# Reference of the command line", "", "Made from `--help`.", ""]
    lines += [f"- [gpuadmin {verb}](#gpuadmin-{verb}): {line}" for verb, line in VERBS.items()]
    for path, command, context in commands(cli, "gpuadmin"):
        level = "#" * min(2 + max(path.count(" ") - 1, 0), 4)
        body = "\n".join(line.rstrip() for line in command.get_help(context).splitlines())
        lines += ["", f"{level} {path}", "```", body, "```"]
    return "\n".join(lines) + "\n"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are elsewhere in the repository."""
    for source, page in ELSEWHERE.items():
        if source == "README.md":
            continue  # docs/index.md is the first page
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    files.append(File.generated(config, "reference-cli.md", content=verbs_page()))
    return files


def linked(text: str, source: str, page: str) -> str:
    """Given a page's text, and its path in the repository and in the site, return it with the site's links."""

    def replaced(match: re.Match[str]) -> str:
        words, target, anchor = match[1], match[2], match[3] or ""
        if "://" in target or target.startswith("mailto:"):
            return match[0]
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), target))
        there = ELSEWHERE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if there is not None:
            return f"[{words}]({posixpath.relpath(there, posixpath.dirname(page) or '.')}{anchor})"
        # a file of the repository is named and not linked; what is not there stays, for the builder to complain
        return words if (ROOT / path).exists() else match[0]

    return LINK.sub(replaced, text)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Links as they are in the repository lead to the pages of the site."""
    name = page.file.src_uri
    sources = (source for source, made in ELSEWHERE.items() if made == name and source != "README.md")
    source = next(sources, f"docs/{name}")
    return linked(markdown, source, name)
