"""Finds the Debian mirror that this machine's own apt configuration names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_DEBIAN_SUITES = (
    "bullseye", "bookworm", "trixie", "forky", "duke", "sid", "oldstable", "stable", "testing", "unstable",
)  # fmt: skip


def mirror() -> str | None:
    """Return the URI of a Debian mirror, or None to leave the choice to mmdebstrap.

    `GPUADMIN_LAB_MIRROR` comes first, then apt's own sources (none of them on a machine without apt, or on
    Ubuntu, whose mirrors do not carry Debian).
    """
    return os.environ.get("GPUADMIN_LAB_MIRROR") or mirror_from(Path("/etc/apt"))


def mirror_from(apt: Path) -> str | None:
    """Given an apt configuration directory, return the first Debian archive URI that its sources name."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file() or file.suffix not in (".list", ".sources"):
            continue
        text = file.read_text(errors="replace")
        parse = parse_deb822 if file.suffix == ".sources" else parse_one_line
        for source in parse(text):
            if is_debian_archive(source):
                return source.uri.rstrip("/")
    return None


@dataclass(frozen=True)
class Source:
    """What apt takes packages from: one URI and suite. `signed_by` is empty if none is named."""

    uri: str
    suite: str
    components: tuple[str, ...]
    signed_by: str = ""


def is_debian_archive(source: Source) -> bool:
    """Given a source, tell whether it is a main Debian archive: not security updates, not a vendor's packages.

    Vendors, too, have URIs that end with /debian and suites named like Debian's; but their component is rarely
    `main`, and where it is, they name a key of their own.
    """
    return (
        source.uri.startswith(("http://", "https://"))
        and source.uri.rstrip("/").endswith("/debian")
        and source.suite in _DEBIAN_SUITES
        and "main" in source.components
        and (not source.signed_by or "debian-archive" in source.signed_by)
    )


def parse_one_line(text: str) -> Iterator[Source]:
    """Given a one-line-style sources file, yield each binary source (sources.list(5))."""
    for line in text.splitlines():
        found = re.fullmatch(r"\s*deb\s+(?:\[([^]]*)\]\s*)?(\S+)\s+(\S+)\s*(.*)", line.split("#", 1)[0])
        if found:
            options, uri, suite, components = found.groups()
            signed_by = re.search(r"signed-by=(\S+)", options or "")
            yield Source(uri, suite, tuple(components.split()), signed_by[1] if signed_by else "")


def parse_deb822(text: str) -> Iterator[Source]:
    """Given a deb822-style sources file, yield each enabled binary source (sources.list(5))."""
    for stanza in re.split(r"\n\s*\n", text):
        fields: dict[str, str] = {}
        last = ""
        for line in stanza.splitlines():
            if line.startswith("#"):
                continue
            if line[:1] in (" ", "\t"):
                fields[last] = fields.get(last, "") + " " + line.strip()
            elif ":" in line:
                name, value = line.split(":", 1)
                last = name.strip().lower()
                fields[last] = value.strip()
        if "deb" not in fields.get("types", "").split() or fields.get("enabled", "yes").lower() in ("no", "false"):
            continue
        components = tuple(fields.get("components", "").split())
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield Source(uri, suite, components, fields.get("signed-by", ""))
