"""Runs a module of the collection in this process."""

from __future__ import annotations

import importlib
import json
from typing import Any

import pytest
from ansible.module_utils.testing import patch_module_args


def run(name: str, arguments: dict[str, Any], capsys: pytest.CaptureFixture[str], **more: Any) -> dict[str, Any]:
    """Run one module in this process and return what it would send to Ansible."""
    module = importlib.import_module(f"ansible_collections.gpuadmin.node.plugins.modules.{name}")
    with patch_module_args(arguments), pytest.raises(SystemExit):
        module.main(**more)
    result: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return result
