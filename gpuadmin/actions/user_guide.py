"""Write the user's guide for a site. Asks no host and changes nothing but the files that were asked for."""

from __future__ import annotations

from gpuadmin.actions.shared.pages import find_gpus, give, languages, write_guide
from gpuadmin.config.load import load_site
from gpuadmin.pages.guide import NAME


def user_guide(site: str | None, *, language: str | None, output: str | None, as_json: bool) -> int:
    """Print the guide, or write it into a directory as Markdown and HTML. Returns the exit code."""
    found = load_site(site)
    gpus = find_gpus(found, say=True)
    wanted = languages(found, language)
    return give(NAME, "guide", wanted, lambda one: write_guide(found, one, gpus), output, as_json=as_json)
