"""The files that are made from code, roles and decisions: `make docs`."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def pages() -> dict[str, str]:
    """Every made file's text, by its path from the repository's root."""
    from gpuadmin.config.reference import reference_page
    from gpuadmin.mail.examples import mails_page
    from gpuadmin.pages.guide import example

    from . import alerts, architecture, benchmarks, causes, decisions, metrics, releases

    return {
        "docs/mails.md": mails_page(),
        "docs/user-guide.md": example("en"),
        "docs/user-guide.ko.md": example("ko"),
        "docs/reference-site.md": reference_page(),
        "docs/reference-metrics.md": metrics.page(),
        "docs/releases.md": releases.page(),
        "benchmarks/README.md": benchmarks.page((ROOT / "benchmarks/README.md").read_text(encoding="utf-8")),
        "docs/architecture.svg": architecture.picture(),
        "docs/architecture.md": architecture.page((ROOT / "docs/architecture.md").read_text(encoding="utf-8")),
        "docs/monitoring.md": alerts.page((ROOT / "docs/monitoring.md").read_text(encoding="utf-8")),
        "docs/diagnose.md": causes.page((ROOT / "docs/diagnose.md").read_text(encoding="utf-8")),
        "docs/decisions/README.md": decisions.index(),
    }


def outdated() -> list[str]:
    """The paths of made files that are not what would be made now."""
    found = []
    for name, text in pages().items():
        path = ROOT / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            found.append(name)
    return found
