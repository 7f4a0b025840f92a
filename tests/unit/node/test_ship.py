"""Code that goes to a directory is whole."""

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import ship
from ansible_collections.gpuadmin.node.plugins.module_utils.backups import jobs as backup_jobs
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.images import jobs as image_jobs
from ansible_collections.gpuadmin.node.plugins.module_utils.root import guard
from ansible_collections.gpuadmin.node.plugins.module_utils.wipe import jobs as wipe_jobs

from gpuadmin.common import tokens
from tests.support.node_code import PACKAGE


def test_the_shipped_package_needs_no_more(tmp_path: Path) -> None:
    jobs = {
        "backups.jobs": backup_jobs.make_backup,
        "wipe.jobs": wipe_jobs.empty_trash,
        "images.jobs": image_jobs.step,
    }
    ship.ship_package(str(tmp_path))
    assert (tmp_path / "gpuadmin/common/tokens.py").read_text() == Path(tokens.__file__).read_text()
    imports = "; ".join(f"from {PACKAGE}.{module} import {job.__name__}" for module, job in jobs.items())
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {PACKAGE}.background; {imports}"
    subprocess.run([sys.executable, "-I", "-c", code], check=True)


def test_a_module_that_stands_alone(tmp_path: Path) -> None:
    ship.ship(guard, str(tmp_path / "new/guard.py"))
    assert (tmp_path / "new/guard.py").read_text() == Path(guard.__file__).read_text()
    with pytest.raises(NodeError, match=r"source of .* cannot be found"):
        ship.ship(ModuleType("made"), str(tmp_path / "made.py"))
