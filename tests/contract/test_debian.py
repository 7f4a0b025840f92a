"""The Debian package leaves nothing: what runs of root's compiled beside its files goes before they do."""

import subprocess
from pathlib import Path

from tests.support.scripts import ROOT


def test_removing_leaves_nothing_compiled(tmp_path: Path) -> None:
    for name in ("lib/package/__pycache__/a.pyc", "lib/package/a.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    script = (ROOT / "packaging/debian/gpuadmin.prerm").read_text().replace("/usr/lib/gpuadmin", f"'{tmp_path}'")
    assert "#DEBHELPER#" in script
    subprocess.run(["sh", "-c", script, "sh", "remove"], check=True)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["a.py"]
