"""Finds the Debian mirror that this machine's own apt configuration names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

_DEBIAN_SUITES = re.compile(r"(buster|bullseye|bookworm|trixie|forky|sid|stable|testing|unstable|oldstable)$")


def mirror() -> str | None:
    """Return the URI of a Debian mirror, or None to leave the choice to mmdebstrap.

    `GPUADMIN_LAB_MIRROR` comes first, then apt's own sources (none of them on a machine without apt, or on
    Ubuntu, whose mirrors do not carry Debian).
    """
    override = os.environ.get("GPUADMIN_LAB_MIRROR")
    return override or mirror_from(Path("/etc/apt"))


def mirror_from(apt: Path) -> str | None:
    """Given an apt configuration directory, return the first Debian archive URI that its sources name."""
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    for file in files:
        if not file.is_file() or file.suffix not in (".list", ".sources"):
            continue
        text = file.read_text(errors="replace")
        parse = parse_deb822 if file.suffix == ".sources" else parse_one_line
        for uri, suite in parse(text):
            if is_debian_archive(uri, suite):
                return uri.rstrip("/")
    return None


def is_debian_archive(uri: str, suite: str) -> bool:
    """Given a source's URI and suite, tell whether it is a main Debian archive (not security, not a vendor's)."""
    path = uri.rstrip("/")
    return bool(_DEBIAN_SUITES.match(suite)) and path.startswith(("http://", "https://")) and path.endswith("/debian")


def parse_one_line(text: str) -> Iterator[tuple[str, str]]:
    """Given a one-line-style sources file, yield (URI, suite) of each binary source (sources.list(5))."""
    for line in text.splitlines():
        words = re.sub(r"\[[^]]*\]", " ", line.split("#", 1)[0]).split()
        if len(words) >= 3 and words[0] == "deb":
            yield words[1], words[2]


def parse_deb822(text: str) -> Iterator[tuple[str, str]]:
    """Given a deb822-style sources file, yield (URI, suite) of each enabled binary source (sources.list(5))."""
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
        for uri in fields.get("uris", "").split():
            for suite in fields.get("suites", "").split():
                yield uri, suite
