"""What cli.py is called with: each command is there, and what is none does nothing."""

import importlib
import os
from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import commands
from ansible_collections.gpuadmin.node.plugins.module_utils.accounts.converge import Host


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
