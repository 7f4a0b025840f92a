"""The wheel, in a clean environment, run from a directory that has nothing to do with the checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.install


def pip(*arguments: str) -> None:
    line = [sys.executable, "-m", "pip", *arguments, "-qq", "--disable-pip-version-check", "--no-input"]
    own = {**os.environ, "PIP_USER": "0"}  # not where a person's settings say
    done = subprocess.run(line, env=own, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--wheel-dir", str(target), str(ROOT))
    (found,) = target.glob("gpuadmin-*.whl")
    return found


@pytest.fixture(scope="session")
def bin_directory(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin/ of a new environment that holds the wheel, and what it needs, and nothing else."""
    directory = tmp_path_factory.mktemp("venv")
    venv.create(directory)
    # what is never imported need not be compiled: Ansible has hundreds of modules
    into = ("--python", str(directory / "bin/python"), "install", "--no-compile")
    pip(*into, "--constraint", str(ROOT / "requirements.lock"), str(wheel))
    return directory / "bin"


@pytest.mark.needs("man")
def test_man_finds_the_page_after_what_install_md_says(bin_directory: Path, tmp_path: Path) -> None:
    (tmp_path / ".venvs").mkdir()
    (tmp_path / ".venvs/gpuadmin").symlink_to(bin_directory.parent)
    text = (ROOT / "docs/install.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith(("mkdir -p ~/.local/", "ln -s ~/.venvs"))]
    assert len(lines) == 3
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path}/.local/bin:/usr/bin:/bin"}
    subprocess.run(["sh", "-ec", "\n".join(lines)], env=environment, check=True)
    shown = subprocess.run(["man", "gpuadmin"], env=environment, capture_output=True, text=True, check=False)
    assert "add-user" in shown.stdout, shown.stderr


def run(bin_directory: Path, cwd: Path, *arguments: str, code: int = 0) -> str:
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    environment = {**kept, "PATH": f"{bin_directory}:/usr/bin:/bin"}
    done = subprocess.run(
        [str(bin_directory / "gpuadmin"), *arguments],
        cwd=cwd, env=environment, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == code, done.stdout + done.stderr
    assert str(ROOT) not in done.stdout + done.stderr
    return done.stdout


def content(directory: str) -> set[str]:
    """All files of a directory of the checkout that git knows or would know, relative to it."""
    line = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", directory]
    names = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    return {name for name in names if (ROOT / name).is_file()}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no git checkout")
def test_everything_that_runs_is_in_the_wheel(wheel: Path) -> None:
    inside = set(zipfile.ZipFile(wheel).namelist())
    for directory in ("playbooks", "roles", "inventory", "templates"):
        expected = {f"gpuadmin/_content/{name}" for name in content(directory)}
        assert expected, directory
        assert expected - inside == set()
    # modules, what runs on nodes, and the scripts and files that go into the lab's guests
    assert content("gpuadmin") - inside == set()
    assert not [name for name in inside if name.startswith(("tests/", "docs/", "benchmarks/", "molecule/"))]


def test_it_runs_from_anywhere(bin_directory: Path, tmp_path: Path) -> None:
    assert "add-user" in run(bin_directory, tmp_path, "--help")
    version = run(bin_directory, tmp_path, "--version")
    assert re.fullmatch(r"gpuadmin, version \d+\.\d+\.\d+( \([0-9a-f]{7,}(-dirty)? \d{4}-\d\d-\d\d\))?\n", version)
    assert json.loads(run(bin_directory, tmp_path, "schema", "users.yml"))["title"] == "users.yml"
    assert "| `homes.export` |" in run(bin_directory, tmp_path, "schema", "--reference")
    assert "lab" in run(bin_directory, tmp_path, "lab", "--help")


def test_a_site_from_nothing_to_a_run(bin_directory: Path, tmp_path: Path) -> None:
    """To a playbook and roles found in the package; nobody answers at the addresses."""
    run(bin_directory, tmp_path, "init", "cluster", "--storage", "127.0.0.1", "--node", "127.0.0.2")
    hosts = tmp_path / "cluster/inventory/hosts.yml"
    hosts.write_text(re.sub(r'(127\.0\.0\.\d": ){}', r"\1{ansible_port: 1}", hosts.read_text()))
    site = tmp_path / "cluster"
    assert "0 errors" in run(bin_directory, site, "check")
    document = json.loads(run(bin_directory, site, "sync-users", "--yes", "--json", code=4))
    assert {host["status"] for host in document["hosts"].values()} == {"unreachable"}
    document = json.loads(run(bin_directory, site, "provision", "--check", "--json", code=4))
    assert {host["status"] for host in document["hosts"].values()} == {"unreachable"}
    assert "sync-users" in run(bin_directory, site, "runs")


def test_the_collection_is_found(bin_directory: Path, tmp_path: Path) -> None:
    code = (
        "from gpuadmin.content import collections_path, content_path; print(collections_path(), content_path('roles'))"
    )
    done = subprocess.run(
        [str(bin_directory / "python"), "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    collections, roles = map(Path, done.stdout.split())
    assert (collections / "ansible_collections/gpuadmin/node/plugins/modules/operation.py").exists()
    assert (roles / "accounts/tasks/main.yml").exists()
    assert roles.parent.name == "_content"
    assert os.access(collections.parent / "libexec/ansible-playbook", os.X_OK)


def test_two_machines_make_the_same_bytes(tmp_path: Path) -> None:
    """Of another umask, another path and other times of files: the same wheel."""
    for name, umask in (("a", 0o022), ("다른 곳", 0o077)):
        tree = tmp_path / name
        for directory in ("gpuadmin", "playbooks", "roles", "inventory", "templates"):
            shutil.copytree(ROOT / directory, tree / directory, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "requirements.lock"):
            shutil.copy(ROOT / file, tree / file)
        (tree / "gpuadmin/commit.txt").write_text("abc 2026-01-01\n")
        if umask == 0o077:
            subprocess.run(["chmod", "-R", "go-rwx", str(tree)], check=True)
        old = os.umask(umask)
        pip("wheel", "--no-deps", "--wheel-dir", str(tmp_path / f"made-{name}"), str(tree))
        os.umask(old)
    first, second = (next((tmp_path / f"made-{name}").iterdir()) for name in ("a", "다른 곳"))
    assert first.read_bytes() == second.read_bytes()
    assert zipfile.ZipFile(first).read("gpuadmin/commit.txt") == b"abc 2026-01-01\n"
