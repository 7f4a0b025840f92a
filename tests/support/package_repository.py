"""A repository of small Debian packages, as apt takes one from a directory: packages, Packages and Release."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path


@dataclass(frozen=True)
class Package:
    """`script`: what dpkg runs when it is configured. `settings`: the text of /etc/NAME.conf, a conffile."""

    name: str
    version: str
    depends: str = ""
    script: str = ""
    settings: str = ""

    @property
    def control(self) -> str:
        depends = f"Depends: {self.depends}\n" if self.depends else ""
        return (
            f"Package: {self.name}\nVersion: {self.version}\nArchitecture: all\n"
            f"Maintainer: Nobody <nobody@example.org>\n{depends}Description: for tests\n"
        )


def index(directory: Path, packages: Iterable[Package], *, suite: str, label: str = "Lab", build: bool = False) -> str:
    """Write the repository, with the packages themselves if they are to be built. Returns its line for apt."""
    directory.mkdir(parents=True, exist_ok=True)
    entries = []
    for one in packages:
        made = directory / f"{one.name}_{one.version}.deb"
        data = _build(directory, one, made) if build else b"x"
        digest = hashlib.sha256(data).hexdigest()
        entries.append(f"{one.control}Filename: ./{made.name}\nSize: {len(data)}\nSHA256: {digest}\n")
    text = "\n".join(entries)
    (directory / "Packages").write_text(text)
    digest = hashlib.sha256(text.encode()).hexdigest()
    (directory / "Release").write_text(
        f"Origin: {label}\nLabel: {label}\nSuite: {suite}\nVersion: 13\nDate: {formatdate(usegmt=True)}\n"
        f"SHA256:\n {digest} {len(text)} Packages\n"
    )
    return f"deb [trusted=yes] file:{directory} ./\n"


def _build(directory: Path, package: Package, made: Path) -> bytes:
    tree = directory / "trees" / f"{package.name}_{package.version}"
    (tree / "DEBIAN").mkdir(parents=True)
    (tree / "DEBIAN/control").write_text(package.control)
    if package.script:
        (tree / "DEBIAN/postinst").write_text(f"#!/bin/sh\nset -eu\n{package.script}\n")
        (tree / "DEBIAN/postinst").chmod(0o755)
    if package.settings:
        (tree / "etc").mkdir()
        (tree / f"etc/{package.name}.conf").write_text(package.settings)
        (tree / "DEBIAN/conffiles").write_text(f"/etc/{package.name}.conf\n")
    command = ["dpkg-deb", "--root-owner-group", "--build", str(tree), str(made)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return made.read_bytes()
