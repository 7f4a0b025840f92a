"""Programs of this machine are asked in English and without a terminal; one that hangs or is none says nothing."""

import os
from pathlib import Path

import pytest

from gpuadmin import local_programs
from gpuadmin.local_programs import ask_program


def test_what_a_program_says(tmp_path: Path) -> None:
    typed = tmp_path / "typed"
    typed.write_text("what somebody types")
    mine = os.dup(0)
    try:
        with typed.open() as file:
            os.dup2(file.fileno(), 0)
        done = ask_program("sh", "-c", 'printf "\\377 $LC_ALL $GIT_OPTIONAL_LOCKS"; cat; exit 3')
    finally:
        os.dup2(mine, 0)
        os.close(mine)
    assert done is not None
    assert (done.returncode, done.stdout) == (3, "\ufffd C 0")


@pytest.mark.parametrize("mode", [None, 0o644, 0o755])
def test_what_is_no_program_says_nothing(mode: int | None, tmp_path: Path) -> None:
    """It is not there, may not be run, or is no program for this machine."""
    program = tmp_path / "program"
    if mode is not None:
        program.write_bytes(b"\0")
        program.chmod(mode)
    assert ask_program(str(program)) is None


def test_what_does_not_end_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what it has started holds nobody up."""
    monkeypatch.setattr(local_programs, "_SECONDS", 0.2)
    assert ask_program("sh", "-c", f"echo $$ > {tmp_path}/pid; sleep 9 & sleep 9") is None
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
