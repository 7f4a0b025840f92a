"""Write labels for a site's machines, to be printed and stuck on them: what the inventory and hardware.json say."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import segno
from markupsafe import Markup

from gpuadmin.actions.shared.dashboard import find_dashboard_address
from gpuadmin.actions.shared.monitor import dashboard_host
from gpuadmin.actions.shared.pages import write_marked
from gpuadmin.auditing.hardware import FILE, load
from gpuadmin.config.inventory import Host
from gpuadmin.config.load import Site, load_site
from gpuadmin.console import echo, echo_document
from gpuadmin.options import Options
from gpuadmin.reading import expanded
from gpuadmin.report import local_document
from gpuadmin.templates import load_report_template

_MARK = "<!-- made by gpuadmin audit --labels -->\n"


def write_labels(options: Options, patterns: Sequence[str], output: Path) -> int:
    """Write a page of labels for all hosts, or those that are named; no host is asked. Returns the exit code."""
    found = load_site(options.site)
    allowed = found.inventory.limited(options.limit)
    named = [host for part in patterns for host in found.inventory.limited(part, "HOST")]
    hosts = [host for host in {one.name: one for one in named or allowed}.values() if host in allowed]
    labels = _list_labels(found, hosts)
    address = find_dashboard_address(found) if dashboard_host(found) is not None else ""
    code = segno.make(address, micro=False).svg_inline(scale=3, border=0) if address else ""
    template = load_report_template("labels.html.j2")
    page = template.render(cluster=found.settings.name, labels=labels, code=Markup(code))
    path = expanded(str(output))
    if options.check:  # guard: check mode writes no labels
        echo(f"would write {path}", err=True)
        return 0
    write_marked({path: page.replace("\n", f"\n{_MARK}", 1)}, _MARK, option="FILE")
    if unknown := [label["name"] for label in labels if not label["serial"]]:
        echo(f"Note: {FILE} has no serial number of {', '.join(unknown)}: gpuadmin audit --record", err=True)
    document = local_document("audit", {"labels": labels, "page": address, "file": str(path)}, site=found.directory)
    echo_document(document if options.json else str(path))
    return 0


def _list_labels(site: Site, hosts: Sequence[Host]) -> list[dict[str, str]]:
    record = load(site.directory) or {}
    return [
        {
            "name": host.name,
            **{name: str(host.variables.get(name) or "") for name in ("place", "owner")},
            "serial": ", ".join(record.get(host.name, {}).get("chassis", {})),
        }
        for host in hosts
    ]
