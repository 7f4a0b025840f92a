"""The storage host's side of a site's history: how long nothing came from a machine."""

import subprocess

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils import site_history

ESTAB = "ESTAB 0 0 10.0.0.1:22 10.0.0.9:50000\n\t cubic rto:204 lastsnd:95000 lastrcv:95004 lastack:95000 minrtt:0.03\n"


@pytest.mark.parametrize(
    ("connection", "output", "silent"),
    [
        ("10.0.0.9 50000 10.0.0.1 22", ESTAB, 95.004), ("10.0.0.9 50000 10.0.0.1 22", "", None), ("", ESTAB, None),
        ("fe80::9 50000 fe80::1 22", ESTAB, 95.004), ("-K 1 $(reboot) 22", ESTAB, None), ("a b c d", ESTAB, 95.004),
        ("g.example 1 10.0.0.1 22", ESTAB, None),
    ],
)  # fmt: skip
def test_how_long_nothing_came_from_a_machine(
    monkeypatch: pytest.MonkeyPatch, connection: str, output: str, silent: float | None
) -> None:
    asked: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.append(command)
        return subprocess.CompletedProcess(command, 0, output, "")

    monkeypatch.setattr(site_history, "run_command", run)
    assert site_history.silence(connection) == silent
    if connection.startswith("fe80"):
        assert asked == [["ss", "-tniHO", "src", "[fe80::1]:22", "dst", "[fe80::9]:50000"]]
