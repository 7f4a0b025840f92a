"""`make`: -n prints and runs nothing, and `make test` fails when one of its lanes does."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.support.machine import ROOT_MARKS, able
from tests.support.scripts import ROOT, load

pytestmark = pytest.mark.needs("make")

#: Stands in for Python and for each script: notes that it was run, and says which lane it is.
STUB = """#!/bin/sh
echo "$0 $*" >>ran
lane=none
case "$0 $*" in
*"--lane virtual tests/e2e/test_lab.py") lane=machines ;;
*"--lane virtual"*) lane=virtual; sleep 0.3 ;;
*"--lane light"*) lane=light; sleep 0.1 ;;
*"not lab"*) lane=fast ;;
*lint*) lane=lint ;;
esac
echo "<$lane>"
[ "$lane" != "$FAILS" ]
"""
LANES = ("lint", "fast", "machines", "light", "virtual")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile, with an environment that is ready and in which nothing does anything."""
    for name in ("pyproject.toml", "requirements.lock"):
        (tmp_path / name).touch()
    for name in ("scripts/bootstrap", "scripts/lint", "scripts/lock", ".venv/bin/python"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(STUB)
    (tmp_path / ".venv/bin/python").chmod(0o755)  # the scripts have come in a zip, which keeps no modes
    (tmp_path / ".venv/.ready").touch()
    shutil.copy(ROOT / "Makefile", tmp_path)
    return tmp_path


def make(checkout: Path, *words: str, fails: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ("make", *words), cwd=checkout, env={"PATH": "/usr/bin:/bin", "FAILS": fails}, text=True, check=False,
        capture_output=True,
    )  # fmt: skip


def targets() -> list[str]:
    lines = (ROOT / "Makefile").read_text().splitlines()
    return [line.partition(":")[0] for line in lines if " ## " in line and not line.startswith("\t")]


@pytest.mark.parametrize("target", targets())
def test_what_is_only_to_be_printed_is_not_run(target: str, checkout: Path) -> None:
    done = make(checkout, "-n", target)
    assert done.returncode == 0
    assert done.stdout
    assert not (checkout / "ran").exists()


#: What bootstrap runs on a machine: what it has, and each program that stands in for one of its own.
TOOLS = ("bash", "cat", "dirname", "env", "ln", "mktemp", "rm", "tail", "uname")


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """The programs of a machine with nothing: apt-get notes what it is asked for, and sudo wants a password."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in TOOLS:
        (programs / name).symlink_to(str(shutil.which(name)))
    note(programs, "id", "echo 1000")
    note(programs, "apt-get", 'echo "apt-get $*" >>"$NOTES"')
    note(programs, "sudo", 'echo "sudo $*" >>"$NOTES"; echo "sudo: a password is required" >&2; exit 1')
    return programs


def note(programs: Path, name: str, body: str) -> None:
    (programs / name).write_text(f"#!/bin/sh\n{body}\n")
    (programs / name).chmod(0o755)


def bootstrap(programs: Path, purpose: str, checkout: Path = ROOT) -> tuple[int, list[str], list[str]]:
    """Run it without a terminal; return its exit code, what it says, and what it ran."""
    notes = programs / "notes"
    done = subprocess.run(
        ("bash", checkout / "scripts/bootstrap", "system", purpose), stdin=subprocess.DEVNULL, text=True, check=False,
        env={"PATH": str(programs), "NOTES": str(notes)}, capture_output=True,
    )  # fmt: skip
    return done.returncode, done.stderr.splitlines(), notes.read_text().splitlines() if notes.exists() else []


def test_another_system_is_told_what_needs_linux(machine: Path) -> None:
    (machine / "uname").unlink()
    note(machine, "uname", "echo Darwin")
    code, said, _ = bootstrap(machine, "demo")
    assert (code, said[0]) == (1, "Error: the demo and the tests need Linux")


@pytest.mark.parametrize("sudo", [True, False])
def test_who_may_install_nothing_gets_the_whole_list_at_once(machine: Path, sudo: bool) -> None:
    if not sudo:
        (machine / "sudo").unlink()
    code, said, ran = bootstrap(machine, "demo")
    assert code == 1
    assert ("sudo wants a password" if sudo else "there is no sudo") in said[0]
    assert said[1].startswith(
        "Hint: as root: apt-get install --no-install-recommends python3 python3-venv qemu-system-x86 "
    )
    assert " procps " in said[1]
    assert len(said) == 2
    assert not any(line.startswith("apt-get") for line in ran)


def test_python_and_the_rest_are_installed_in_one_round(machine: Path) -> None:
    note(machine, "id", "echo 0")
    note(machine, "apt-get", 'echo "apt-get $*" >>"$NOTES"; ln -sf ' + f'"{sys.executable}" "{machine}/python3"')
    code, said, ran = bootstrap(machine, "demo")
    assert code == 0, said
    ran = [line for line in ran if line.startswith("apt-get")]  # whoever is not root asks sudo, too
    assert [line.split()[1] for line in ran] == ["update", "install"]
    assert {"python3", "python3-venv", "procps", "gcc", "mmdebstrap"} <= {*ran[1].split()}
    assert any(line.startswith("Light hosts (") for line in said), "and then it says what runs where"


@pytest.mark.parametrize("place", [".", ".ansible", "demo-site-images"])
def test_what_sudo_make_has_left_is_named_with_the_way_out(place: str, machine: Path, tmp_path: Path) -> None:
    checkout = tmp_path / "my checkout"
    shutil.copytree(ROOT / "scripts", checkout / "scripts")
    (checkout / place).mkdir(exist_ok=True)
    (checkout / place).chmod(0o555)
    note(machine, "id", "echo minji")
    ordinary = (
        (str(shutil.which("setpriv")), "--bounding-set=-dac_override") if os.geteuid() == 0 else ()
    )  # root may write everywhere
    done = subprocess.run(
        (*ordinary, "bash", checkout / "scripts/bootstrap", "system", "fast"),
        stdin=subprocess.DEVNULL, text=True, check=False,
        env={"PATH": str(machine), "NOTES": str(machine / "notes")}, capture_output=True,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f"Error: you may not write {checkout}/{place}, as after `sudo make`",
        f"Hint: sudo chown -R minji '{checkout}'",
    ]


def test_a_refusal_of_apt_names_the_way_out(machine: Path) -> None:
    note(machine, "id", "echo 0")
    note(machine, "apt-get", "echo 'E: no such package'; exit 100")
    code, said, _ = bootstrap(machine, "fast")
    assert code == 1
    assert "E: no such package" in said
    assert said[-1].startswith("Hint: as root: apt-get install --no-install-recommends python3 ")


@pytest.mark.parametrize("python", [True, False])
@pytest.mark.parametrize(("release", "asked"), [("debian", 2), ("ubuntu", 0), ('"ubuntu"', 0), (None, 2)])
def test_no_package_is_asked_for_that_ubuntu_does_not_have(
    release: str | None, asked: int, python: bool, machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """os-release(5) allows quotes; a machine may have none."""
    packages = load("system_packages")
    monkeypatch.setattr(packages, "_is_in_place", lambda _tool: False)
    path = tmp_path / "os-release"
    if release:
        path.write_text(f"NAME=x\nID={release}\n")
    if python:
        found = Mock(return_value={"ID": release.strip('"')}) if release else Mock(side_effect=OSError)
        monkeypatch.setattr(packages.probe.platform, "freedesktop_os_release", found)
        names = packages.missing_packages("test")
    else:
        (tmp_path / "scripts").mkdir()
        text = (ROOT / "scripts/bootstrap").read_text().replace("/etc/os-release", str(path))
        (tmp_path / "scripts/bootstrap").write_text(text)
        names = bootstrap(machine, "test", tmp_path)[1][1].split()
    assert "mmdebstrap" in names
    assert len({"chromium", "user-mode-linux"} & {*names}) == asked


@pytest.mark.parametrize("purpose", ["fast", "demo", "test"])
def test_what_is_asked_for_without_python_is_what_python_would_ask_for(
    purpose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = load("system_packages")
    monkeypatch.setattr(packages.probe, "is_ubuntu", lambda: False)
    monkeypatch.setattr(packages.probe, "look", able)
    monkeypatch.setattr(packages, "_is_in_place", lambda _tool: False)
    monkeypatch.setattr(packages.os, "geteuid", lambda: 0)
    text = (ROOT / "scripts/bootstrap").read_text()
    found = re.search(rf'\[{purpose}\]="([^"]*)"', text)
    assert found is not None
    assert found[1].split() == packages.missing_packages(purpose)


def test_every_program_that_a_test_needs_has_a_package() -> None:
    """Else its tests are skipped where `make test` was not what ran, and nothing says how to have them run."""
    packages = load("system_packages")
    tables = {*packages.PACKAGES, *packages.FAST_TOOLS, *packages.ROOT_TOOLS, *packages.TEST_TOOLS}
    packaged = tables | {"prometheus", "ssh-agent", "ssh-add"}  # beside promtool and ssh
    packaged |= {"debconf-set-selections", "dpkg-deb", "dpkg-query", "make"}  # nobody is here without
    needed = {name for tools in ROOT_MARKS.values() for name in tools}
    for path in (ROOT / "tests").rglob("test_*.py"):
        for words in re.findall(r"mark\.needs\(([^)]*)\)", path.read_text()):
            needed |= set(re.findall(r'"([^"]+)"', words))
    assert needed - packaged - {*packages.probe.ATTEMPTS} == set()


def test_lint_has_a_locale_that_ansible_takes(machine: Path, tmp_path: Path) -> None:
    note(machine, "ansible-playbook", 'echo "$LC_ALL" >>"$NOTES"')
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    done = subprocess.run(
        ("bash", tmp_path / "scripts/lint"), check=False, capture_output=True, text=True,
        env={"PATH": str(machine), "NOTES": str(tmp_path / "notes"), "LC_ALL": "C"},
    )  # fmt: skip
    assert "ok    roles" in done.stdout
    assert set((tmp_path / "notes").read_text().split()) == {"C.UTF-8"}


@pytest.mark.parametrize("user", ["1", "0"])
def test_a_person_s_settings_of_pip_make_no_other_environment(user: str, tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    note(python.parent, "python", '[ "$1" = -c ] || env | grep ^PIP_ | sort >"$NOTES"')
    theirs = {"NOTES": str(tmp_path / "notes"), "PIP_USER": user, "PIP_TARGET": "/x", "PIP_INDEX_URL": "u"}
    subprocess.run(
        ("bash", ROOT / "scripts/bootstrap", "venv", tmp_path / "venv"), check=True, capture_output=True,
        env={**os.environ, **theirs},
    )  # fmt: skip
    told = dict(line.split("=", 1) for line in (tmp_path / "notes").read_text().splitlines())
    assert (told["PIP_USER"], told["PIP_TARGET"], told["PIP_INDEX_URL"]) == ("0", "", "u")


def test_what_pip_could_not_install_says_what_room_it_needs_and_how_to_go_on(tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    note(python.parent, "python", '[ "$1" = -c ] || { echo "ERROR: No space left on device" >&2; exit 1; }')
    done = subprocess.run(
        ("bash", ROOT / "scripts/bootstrap", "venv", tmp_path / "venv"), check=False, capture_output=True, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    said = done.stderr.splitlines()
    assert done.returncode == 1
    assert said[-3] == "ERROR: No space left on device"
    assert said[-2].startswith("Error: pip failed; 400 MB are needed in ")
    assert re.search(rf"\(\d+ MB are free\), and 200 MB in {tmp_path} \(\d+ MB are free\)$", said[-2])
    assert said[-1] == "Hint: the same command goes on; TMPDIR chooses another place"


def test_two_at_once_make_one_environment(tmp_path: Path) -> None:
    python = tmp_path / "venv/bin/python"
    python.parent.mkdir(parents=True)
    note(python.parent, "python", '[ "$1" = -c ] || { echo begins >>"$NOTES"; sleep 0.5; echo ends >>"$NOTES"; }')
    line = ("bash", ROOT / "scripts/bootstrap", "venv", tmp_path / "venv")
    both = [subprocess.Popen(line, env={**os.environ, "NOTES": str(tmp_path / "notes")}) for _ in range(2)]
    assert [one.wait() for one in both] == [0, 0]
    assert (tmp_path / "notes").read_text().split() == ["begins", "ends", "begins", "ends"]


@pytest.mark.parametrize("fails", ["", *LANES])
def test_one_lane_that_fails_fails_the_test(fails: str, checkout: Path) -> None:
    done = make(checkout, "test", fails=fails)
    assert (done.returncode != 0) is bool(fails)
    said = [line.strip("<>") for line in done.stdout.splitlines() if line.strip("<>") in LANES]
    assert said == list(LANES), "all lanes run to their end, and what was in the background is printed last"
    assert "tests --ignore tests/takeover" in (checkout / "ran").read_text(), "make test-takeover has them"
    assert "--lane virtual tests/e2e --ignore tests/e2e/test_lab.py" in (checkout / "ran").read_text()
