"""Operations and commands: documents, check mode, results; and the files as a package on a node."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import commands
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host
from ansible_collections.gpuadmin.node.plugins.module_utils.root import session

from tests.support.node_code import write_out
from tests.support.operations import ask

PLUGINS = Path(session.__file__).resolve().parents[2]


@pytest.mark.root  # gives files to other users
def test_accounts(host: Host) -> None:
    arguments = {
        "users": [{"name": "minji", "uid": 20001, "locked": False}, {"name": "jiho", "uid": "x"}],
        "uid_first": "20000",
        "docker_data": None,
    }
    check = ask("accounts", arguments, check=True, root=host.root)
    real = ask("accounts", arguments, root=host.root)
    again = ask("accounts", arguments, root=host.root)
    assert check == real
    assert (real["changed"], real["failed"]) == (True, True)
    assert "jiho" in real["msg"]
    assert "user minji: create uid 20001" in real["operations"]
    assert json.loads(real["each"]["users"])["minji"]["status"] == "missing"
    assert "/etc/passwd: minji:x:20001" in real["diff"]["after"]
    assert (again["changed"], again["operations"]) == (False, [])
    assert json.loads(again["each"]["users"])["minji"] == {"status": "ok", "operations": [], "problem": None}


def test_accounts_with_wrong_settings(tmp_path: Path) -> None:
    result = ask("accounts", {"uid_first": "five"}, root=str(tmp_path))
    assert "accounts.uid_first is 'five', not a whole number" in result["msg"]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["no JSON", '{"name": "minji"}', "[1]"])
def test_what_is_no_list_of_people_is_refused(given: str, tmp_path: Path) -> None:
    for result in (
        ask("accounts", {"users": given}, root=str(tmp_path)),
        ask("homes", {"root": "/", "users": given}, state=str(tmp_path)),
    ):
        assert (result["failed"], result["operations"]) == (True, [])
        assert result["msg"].startswith("users is no")
    assert list(tmp_path.iterdir()) == []


def test_homes_reports_an_unmounted_disk(tmp_path: Path) -> None:
    arguments = {"root": str(tmp_path), "mountpoint": str(tmp_path)}
    assert "nothing is mounted" in ask("homes", arguments, check=True)["msg"]


def test_the_files_run_as_a_package_on_a_node(tmp_path: Path) -> None:
    package = write_out(tmp_path / "lib")
    command = [sys.executable, "-I", str(package / "cli.py")]
    usage = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (usage.returncode, usage.stderr[:6]) == (2, "usage:")
    refused = subprocess.run([*command, "docker-self", "x"], capture_output=True, text=True, check=False)
    assert "takes no arguments" in refused.stderr
    shutil.copy(package / "root/guard.py", tmp_path / "root.py")  # stands alone
    helped = subprocess.run([sys.executable, "-I", tmp_path / "root.py", "--help"], capture_output=True, check=False)
    assert helped.returncode == 0


@pytest.mark.parametrize("file", commands.PLAIN_COMMANDS.values())
def test_what_takes_no_arguments_is_there(file: str) -> None:
    assert callable(importlib.import_module(file, commands.__package__).main)


@pytest.mark.parametrize(
    "typed",
    [
        "", "x", "apply-accounts --chek", "apply-accounts --check x", "docker-self minji", "disk-usage x",
        "slurm-prolog 4", "gpu-gate open", "metrics-sample x", "serve-backups", "serve-backups /b x", "announcements x",
        "web-links x", "backup x",
    ],
)  # fmt: skip
def test_what_is_no_command_does_nothing(typed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Least of all what was meant as a check."""
    assert commands.main(typed.split(), Host(root=str(tmp_path))) == 2
    said = "this command takes no arguments" if typed.startswith("docker-self") else "usage: cli.py"
    assert capsys.readouterr().err.startswith(said)
    assert list(tmp_path.iterdir()) == []


def test_what_root_writes_for_people_can_be_read_whoever_calls() -> None:
    before = os.umask(0o077)
    commands.main([])
    assert os.umask(before) == 0o022
