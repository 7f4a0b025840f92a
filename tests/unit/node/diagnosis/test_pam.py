"""PAM's files: which modules are not there, and whose limit of processes it is."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.pam import (
    find_process_limit,
    list_missing_modules,
)
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject


@pytest.fixture
def host(tmp_path: Path) -> Path:
    (tmp_path / "usr/lib64/security").mkdir(parents=True)
    (tmp_path / "usr/lib64/security/pam_unix.so").touch()
    (tmp_path / "etc/pam.d").mkdir(parents=True)
    (tmp_path / "etc/security/limits.d").mkdir(parents=True)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "lacks"),
    [
        ("account required pam_unix.so nullok", []),
        ("account required pam_no.so", ["pam_no.so"]),
        ("auth required pam_no.so", []),
        ("session optional pam_no.so", []),
        ("session [default=1] pam_no.so", []),
        ("account [success=ok new_authtok_reqd=ok default=bad] pam_no.so", ["pam_no.so"]),
        ("session [success=ok module_unknown=ignore] pam_no.so", []),
        ("-account required pam_no.so", []),
        ("# account required pam_no.so", []),
        ("session required /usr/lib64/security/pam_unix.so", []),
        ("session required /opt/pam_no.so", ["/opt/pam_no.so"]),
        ("@include more", ["pam_more.so"]),
        ("account include more", ["pam_more.so"]),
        ("account substack ../../more", ["pam_more.so"]),
        ("@include sshd", []),
        ("@include", []),
        ("nonsense", []),
    ],
)
def test_modules(host: Path, line: str, lacks: list[str]) -> None:
    (host / "etc/pam.d/more").write_text("\naccount required pam_more.so\n")
    (host / "etc/pam.d/sshd").write_text(f"# sshd\n{line}\n")
    found = list_missing_modules(Subject(name="minji", root=str(host)))
    assert [one["module"] for one in found] == lacks
    assert all((one["file"], one["line"]) in (("/etc/pam.d/sshd", 2), ("/etc/pam.d/more", 2)) for one in found)


def test_where_no_module_is_known_to_be_none_is_missing(tmp_path: Path) -> None:
    (tmp_path / "etc/pam.d").mkdir(parents=True)
    (tmp_path / "etc/pam.d/sshd").write_text("account required pam_unix.so\n")
    assert list_missing_modules(Subject(name="minji", root=str(tmp_path))) == []


@pytest.mark.parametrize(
    ("text", "most"),
    [
        ("", None),
        ("* - nproc 100\n", 100),
        ("minji hard nproc 3\n* - nproc 100\n", 3),
        ("* - nproc 100\n* soft nproc 50 # people\n", 50),
        ("minji - nproc unlimited\n* - nproc 3\n", None),
        ("jiho - nproc 3\n", None),
        ("minji - nofile 3\n", None),
    ],
)
def test_limits(host: Path, text: str, most: int | None) -> None:
    (host / "etc/security/limits.conf").write_text("# none\n")
    (host / "etc/security/limits.d/90.conf").write_text(text)
    found = find_process_limit(Subject(name="minji", root=str(host)))
    assert (found and found["most"]) == most
    assert found is None or found["file"] == "/etc/security/limits.d/90.conf"
