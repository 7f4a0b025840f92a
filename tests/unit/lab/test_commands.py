"""Programs that the lab runs, and what an admin reads when one fails."""

from pathlib import Path

import pytest

from gpuadmin.errors import GpuadminError
from gpuadmin.lab.commands import run


def test_of_a_command_with_a_log_the_error_has_the_end_and_the_log_has_it_all(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = ("sh", "-c", f": {'pages ' * 500}; echo begun; echo no room >&2; exit 25")
    with pytest.raises(GpuadminError) as raised:
        run(command, log=log)
    assert raised.value.message == f"sh failed with status 25:\nbegun\nno room\n(all of it: {log})"
    assert "  sh -c ': pages " in log.read_text()


def test_without_a_log_the_error_has_the_command() -> None:
    with pytest.raises(GpuadminError, match=r"with status 3:\n  sh -c 'echo no; exit 3'\nno$"):
        run(("sh", "-c", "echo no; exit 3"))
