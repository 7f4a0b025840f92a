"""`scripts/release`, with stand-ins for what it fetches: what a release is made of, and what it is not begun with."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: python3, and what it puts into an environment; dh_virtualenv and dpkg-buildpackage.
PROGRAM = """#!/bin/sh
for last; do :; done
case "$(basename "$0") $*" in
*"-m venv"*) mkdir -p "$last/bin" && cp "$0" "$last/bin/python" && cp "$0" "$last/bin/cyclonedx-py" ;;
*"-m build"*)
    tar -czf dist/gpuadmin-1.tar.gz --transform 's,^[.],gpuadmin-1,' -C "$last" . && touch dist/gpuadmin-1.whl ;;
cyclonedx-py*) touch dist/gpuadmin.cdx.json ;;
dpkg-buildpackage*) test -s debian/changelog && touch ../gpuadmin_1.deb ;;
esac
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    place, programs = tmp_path / "checkout", tmp_path / "bin"
    for directory in (place / "scripts", place / "packaging/debian", programs):
        directory.mkdir(parents=True)
    shutil.copy(ROOT / "scripts/release", place / "scripts")
    (place / ".gitignore").write_text("dist/\nbuild/\n")
    (place / "packaging/debian/control").touch()
    for name in ("python3", "dh_virtualenv", "dpkg-buildpackage"):
        (programs / name).write_text(PROGRAM)
        (programs / name).chmod(0o755)
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "first")):
        subprocess.run(["git", *words], cwd=place, env=environment(place), check=True)
    return place


def environment(place: Path) -> dict[str, str]:
    return {
        **os.environ, "PATH": f"{place.parent / 'bin'}:{os.environ['PATH']}", "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_AUTHOR_NAME": "x", "GIT_AUTHOR_EMAIL": "x@x", "GIT_COMMITTER_NAME": "x", "GIT_COMMITTER_EMAIL": "x@x",
    }  # fmt: skip


def release(place: Path, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [place / "scripts/release"], env=environment(place) | more, capture_output=True, text=True, check=False
    )


def test_a_release_has_what_its_commit_has(checkout: Path) -> None:
    """Not what lies beside it, also where git was told not to see that, as many have of their editor's files."""
    (checkout / ".git/info/exclude").write_text("*.secret\n")
    (checkout / "key.secret").touch()
    done = release(checkout)
    assert done.returncode == 0, done.stderr
    listed = subprocess.run(
        ["tar", "-tzf", checkout / "dist/gpuadmin-1.tar.gz"], capture_output=True, text=True, check=True
    )
    assert "gpuadmin-1/scripts/release" in listed.stdout
    assert "key.secret" not in listed.stdout
    sums = (checkout / "dist/SHA256SUMS").read_text().splitlines()
    assert [line.split()[1] for line in sums] == [
        "gpuadmin-1.tar.gz", "gpuadmin-1.whl", "gpuadmin.cdx.json", "gpuadmin_1.deb",
    ]  # fmt: skip
    assert not (checkout / "dist/SHA256SUMS.sig").exists()


def test_it_is_signed_by_a_key(checkout: Path, tmp_path: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", tmp_path / "key"], check=True)
    assert release(checkout, KEY=str(tmp_path / "key")).returncode == 0
    with (checkout / "dist/SHA256SUMS").open("rb") as sums:
        check = [
            "ssh-keygen",
            "-Y",
            "check-novalidate",
            "-n",
            "gpuadmin-release",
            "-s",
            checkout / "dist/SHA256SUMS.sig",
        ]
        subprocess.run(check, stdin=sums, check=True, capture_output=True)


@pytest.mark.parametrize(
    ("change", "key", "words"),
    [
        ("scripts/release", "", "are not committed"),
        ("new", "", "are not committed"),
        ("", "/nowhere", "cannot be read"),
    ],
)
def test_what_it_does_not_begin_with(checkout: Path, change: str, key: str, words: str) -> None:
    if change:
        with (checkout / change).open("a") as file:
            file.write("\n")
    (checkout / "dist").mkdir()
    (checkout / "dist/earlier").touch()
    done = release(checkout, KEY=key)
    assert (done.returncode, words in done.stderr) == (1, True), done.stderr
    assert (checkout / "dist/earlier").exists()
