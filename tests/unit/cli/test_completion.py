"""What the shell offers while somebody types."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.sites import make_site

USERS = """\
users:
  - name: minji
    uid: 20000
  - {name: minsu, uid: 20001, locked: true}
  - {name: jiho, uid: 20002}
retired:
  - {name: mina, uid: 20003, removed: 2026-02-01}
"""


def offered(line: str, directory: Path, **environment: str) -> list[str]:
    """What bash would offer for the last word of a line; that nothing is said on standard error."""
    words = line.split(" ")
    done = subprocess.run(
        [sys.executable, "-m", "gpuadmin"],
        cwd=directory,
        env={
            **{name: value for name, value in os.environ.items() if name != "GPUADMIN_SITE"},
            "_GPUADMIN_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
            **environment,
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return [text.partition(",")[2] for text in done.stdout.split()]


KINDS = {"--key ~/.s": "file", "--site /et": "dir", "--from peo": "file"}


@pytest.mark.parametrize(("words", "kind"), KINDS.items(), ids=KINDS.keys())
def test_paths_are_left_to_the_shell(tmp_path: Path, words: str, kind: str) -> None:
    line = f"gpuadmin add-user {words}"
    variables = {"_GPUADMIN_COMPLETE": "bash_complete", "COMP_WORDS": line, "COMP_CWORD": "3"}
    done = subprocess.run(
        [sys.executable, "-m", "gpuadmin"], cwd=tmp_path, env={**os.environ, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split(",")[0] == kind
    assert done.stderr == ""


LINES = {
    "gpuadmin lock-user min": ["minji"],
    "gpuadmin unlock-user min": ["minsu"],
    "gpuadmin remove-user min": ["minji", "minsu"],
    "gpuadmin remove-user minji min": ["minsu"],
    "gpuadmin extend-user --expires never ": ["minji", "minsu", "jiho"],
    "gpuadmin extend-term j": ["jiho"],
    "gpuadmin change-user mi": ["minji", "minsu"],
    "gpuadmin notify --again ji": ["jiho"],
    "gpuadmin remove-user x": [],
    "gpuadmin restore-home min": ["minji", "minsu", "mina"],
    "gpuadmin list-backups mina": ["mina"],
    "gpuadmin verify-backup --user j": ["jiho"],
    "gpuadmin verify-backup --user jiho --user ": ["minji", "minsu", "mina"],
    "gpuadmin semester-reset --keep min": ["minji", "minsu"],
    "gpuadmin trust ": ["node1", "node2", "storage1"],
    "gpuadmin trust node1 n": ["node2"],
    "gpuadmin provision --limit n": ["node1", "node2"],
    "gpuadmin provision --limit g": ["gpu", "golden"],
    "gpuadmin provision --limit node1,n": ["node1,node2"],
    "gpuadmin provision --limit gpu,!n": ["gpu,!node1", "gpu,!node2"],
    "gpuadmin runs 2026": ["20261231T120000-backup-1a2b", "20260101T000000-notify-ffff"],
    "gpuadmin add-user min": [],
}


@pytest.mark.parametrize(("line", "names"), LINES.items(), ids=LINES.keys())
def test_names_of_people(tmp_path: Path, line: str, names: list[str]) -> None:
    site = make_site(tmp_path / "site", USERS)
    (site / "below").mkdir()
    for name in ("20260101T000000-notify-ffff", "20261231T120000-backup-1a2b", "term-2026-2"):
        (site / "runs" / name).mkdir(parents=True)
    assert offered(line, site / "below") == names


def test_the_site_that_is_meant(tmp_path: Path) -> None:
    make_site(tmp_path / "site", USERS)
    make_site(tmp_path / "other", USERS.replace("jiho", "jisu"))
    assert offered("gpuadmin extend-term ji", tmp_path) == []
    assert offered("gpuadmin extend-term ji", tmp_path, GPUADMIN_SITE=str(tmp_path / "site")) == ["jiho"]
    assert offered(f"gpuadmin extend-term --site {tmp_path}/other ji", tmp_path / "site") == ["jisu"]


WRONG = [
    b"",
    b"users:\n",
    b"users: [",
    b"users: 3\n",
    b"users: [3]\n",
    b"- a\n",
    b"\xff\xfe\x00",
    b"users: [{name: {}}]\n",
]


@pytest.mark.parametrize("text", WRONG)
def test_whatever_is_wrong_is_quiet(tmp_path: Path, text: bytes) -> None:
    site = make_site(tmp_path / "site")
    (site / "users.yml").write_bytes(text)
    (site / "inventory/hosts.yml").write_bytes(text)
    for line in ("remove-user min", "restore-home min", "trust node", "trust --limit node", "runs 2"):
        assert offered(f"gpuadmin {line}", site) == []
    (site / "users.yml").unlink()
    assert offered("gpuadmin remove-user min", site) == []


def test_nothing_slow_is_imported() -> None:
    code = (
        "import sys, click\nimport gpuadmin.cli._complete as module\n"
        "module._registered(None, 'users'), module._inventory(None)\n"
        "print(' '.join({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"pydantic", "ruamel", "ansible", "rich", "jinja2", "paramiko"} & set(done.stdout.split())
