"""Write the user's guide for a site. Asks no host and changes nothing but the files that were asked for."""

from __future__ import annotations

from gpuadmin.actions.shared.monitor import dashboard_host
from gpuadmin.actions.shared.pages import give, gpus_of, languages
from gpuadmin.config.load import load_site
from gpuadmin.pages.guide import NAME, guide, list_login_nodes


def user_guide(site: str | None, *, language: str | None, output: str | None, as_json: bool) -> int:
    """Print the guide, or write it into a directory as Markdown and HTML. Returns the exit code."""
    found = load_site(site)
    nodes = list_login_nodes(found.settings, found.inventory.group("gpu"))
    gpus = gpus_of(found, say=True)
    shows = dashboard_host(found) is not None

    def write(wanted: str) -> str:
        return guide(
            wanted, found.settings, nodes,
            gpus=gpus, site=found.directory, dashboard=shows, hosts=found.inventory.hosts,
        )  # fmt: skip

    return give(NAME, "guide", languages(found, language), write, output, as_json=as_json)
