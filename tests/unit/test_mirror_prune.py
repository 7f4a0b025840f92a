"""What bounds the cache of images, as the role writes it: what was longest not asked for goes, and no more of it."""

import os
import subprocess
from pathlib import Path

import pytest
from jinja2 import Template

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "roles/docker_mirror/templates/mirror-prune.j2"
EMPTY = "1000000000000 1000000000000"


def prune(directory: Path, most: int, df: str) -> list[str]:
    """Run it on a cache of three parts of 1 MB, the oldest first; return which stay. `df`: what that prints."""
    for number, name in enumerate("abc"):
        path = directory / f"docker/registry/v2/blobs/sha256/{name * 2}/{name * 64}/data"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x" * 10**6)
        os.utime(path, (10**9 + number, 10**9 + number))
    programs = directory / "bin"
    programs.mkdir()
    (programs / "df").write_text(f"#!/bin/sh\nprintf 'Avail 1B-blocks\\n{df}\\n'\n")
    (programs / "df").chmod(0o755)
    script = directory / "prune"
    script.write_text(Template(TEMPLATE.read_text()).render(docker_mirror_directory=directory, docker_mirror_most=most))
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    subprocess.run(["sh", str(script)], check=True, env=environment)
    return sorted(path.parent.name[0] for path in directory.rglob("data"))


@pytest.mark.parametrize(
    ("most", "df", "kept"),
    [
        (10**9, EMPTY, ["a", "b", "c"]),
        (2_500_000, EMPTY, ["b", "c"]),
        (10, EMPTY, []),
        (10**9, "1000000 30000000", ["c"]),  # of a disk of 30 MB, 3 stay free
    ],
)
def test_what_was_longest_not_asked_for_goes(tmp_path: Path, most: int, df: str, kept: list[str]) -> None:
    assert prune(tmp_path, most, df) == kept
