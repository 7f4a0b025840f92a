"""The dashboard runs on the monitor host with what the role ships, and nothing else of gpuadmin."""

import shutil
import subprocess
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]


def test_it_starts_from_the_files_that_are_shipped(tmp_path: Path) -> None:
    """`common` has grown packages of its own, which the role did not ship."""
    tasks = yaml.safe_load((ROOT / "roles/dashboard/tasks/present.yml").read_text())
    (source,) = next(task["gpuadmin.node.files"]["source"] for task in tasks if "source" in str(task))
    for pattern in source["patterns"]:
        for path in (ROOT / "gpuadmin").glob(pattern):
            target = tmp_path / "gpuadmin" / path.relative_to(ROOT / "gpuadmin")
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    words = [sys.executable, "-P", "-c", "import gpuadmin.dashboard.__main__ as app; print(app.__file__)"]
    done = subprocess.run(words, env={"PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False)
    assert done.stdout.startswith(str(tmp_path)), done.stderr
