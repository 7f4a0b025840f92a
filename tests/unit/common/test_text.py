"""Numbers in words: the controller and the nodes have one way."""

import subprocess
from pathlib import Path

import pytest

from gpuadmin.common.text import counted, language, size_words
from tests.support import role_variables


def test_what_is_counted() -> None:
    assert [counted(number, "home") for number in (0, 1, 2)] == ["0 homes", "1 home", "2 homes"]
    assert [counted(number, "entry", "entries") for number in (1, 2)] == ["1 entry", "2 entries"]


def test_sizes() -> None:
    assert [size_words(size) for size in (1, 999, 1000, 10**12)] == ["1 byte", "999 bytes", "1.0 kB", "1.0 TB"]
    assert [size_words(size) for size in (999.94, 999.95, 999_949, 999_950)] == [
        "1000 bytes", "1.0 kB", "999.9 kB", "1.0 MB",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("site", "locale", "read"),
    [
        ("", "", "en"), ("", "C.UTF-8", "en"), ("", "ko_KR.UTF-8", "ko"), ("", "en_US.UTF-8", "en"),
        ("ko en", "", "ko"), ("ko en", "C.UTF-8", "ko"), ("ko en", "de_DE.UTF-8", "ko"), ("ko en", "en_US.UTF-8", "en"),
        ("ko", "en_US.UTF-8", "ko"), ("en", "ko_KR.UTF-8", "en"), ("fr", "ko_KR.UTF-8", "ko"),
    ],
)  # fmt: skip
def test_what_somebody_reads(tmp_path: Path, site: str, locale: str, read: str) -> None:
    """What programs print and what a login shows, by the same rule."""
    assert language({"LANG": locale, "GPUADMIN_LANGUAGES": site}) == read
    other = "ko" if locale else ""
    assert language({"LC_ALL": locale, "LANG": other, "GPUADMIN_LANGUAGES": site}) == read, "LC_ALL is before LANG"
    spoken = [one for one in site.split() if one in ("en", "ko")] or ["en", "ko"]
    mail = {"host": "smtp.example.org", "sender": "a@example.org", "languages": spoken}
    for role, name in (("slurm_node", "gpuadmin-queue.sh.j2"), ("limits", "gpuadmin-amounts.sh.j2")):
        values = {**role_variables.given(role, site={"mail": mail}), f"{role}_homes": str(tmp_path)}
        text = role_variables.rendered(role, name, values).replace("cat ", "echo ")
        environment = {"HOME": f"{tmp_path}/minji", "LOGNAME": "minji", "LANG": locale, "PATH": "/usr/bin:/bin"}
        command = ["bash", "--norc", "--noprofile", "-ic", text]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        assert f"/minji.{read}" in done.stdout


def test_programs_on_nodes_know_what_the_site_speaks() -> None:
    mail = {"host": "smtp.example.org", "sender": "a@example.org", "languages": ["ko", "en"]}
    for role, name in (("gpu_stack", "gpu.j2"), ("node_state", "gpuadmin-me.j2")):
        text = role_variables.rendered(role, name, role_variables.given(role, site={"mail": mail}))
        assert 'export GPUADMIN_LANGUAGES="ko en"' in text
