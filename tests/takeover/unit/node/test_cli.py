"""Units of the take-over run the code that was there when they were made, with the daily commands beside their own."""

import subprocess
import sys
from pathlib import Path

from gpuadmin.takeover.node import cli
from tests.support.node_code import write_out


def test_it_has_its_own_commands_and_the_daily_ones(tmp_path: Path) -> None:
    write_out(tmp_path, takeover=True)
    link = tmp_path / "gpuadmin_takeover"
    link.symlink_to("gpuadmin/takeover/node")
    line = (
        f"import runpy, sys; sys.argv[1:] = ['renumber']; names = runpy.run_path({str(link / 'cli.py')!r})\n"
        "import importlib, types; names['COMMANDS']['renumber'] = 'made'\n"
        "sys.modules['made'] = types.SimpleNamespace(main=lambda: 7)\nsys.exit(names['run']())\n"
    )
    assert subprocess.run([sys.executable, "-I", "-S", "-c", line], check=False).returncode == 7
    done = subprocess.run(
        [sys.executable, "-I", "-S", link / "cli.py", "no-such"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr[:6]) == (2, "usage:")
    assert not list(tmp_path.rglob("*.pyc"))
    assert list(cli.COMMANDS) == ["renumber"]
