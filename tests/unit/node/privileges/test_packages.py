"""What dpkg, rpm and pacman say of packaged files, and whom a file belongs to."""

import subprocess
from collections.abc import Sequence

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.privileges import packages
from ansible_collections.gpuadmin.node.plugins.module_utils.run import LateError

from tests.unit.node.privileges.conftest import Host


@pytest.mark.parametrize(
    ("family", "line", "found"),
    [
        ("debian", "??5??????   /usr/sbin/sshd", ("/usr/sbin/sshd", "content", "root")),
        ("debian", "??5?????? c /etc/login.defs", ("/etc/login.defs", "content", "differs")),
        ("debian", "missing     /usr/lib/x", ("/usr/lib/x", "is missing", "differs")),
        ("debian", "missing     /usr/share/doc/bash/README.gz", None),
        ("debian", "?????????   /usr/bin/x", None),
        ("redhat", "S.5....T.    /usr/bin/su", ("/usr/bin/su", "content", "root")),
        ("redhat", ".M...UG..    /usr/bin/su", ("/usr/bin/su", "mode, owner, group", "root")),
        ("redhat", "........P    /usr/bin/newuidmap", ("/usr/bin/newuidmap", "capabilities", "root")),
        ("redhat", ".......T.  c /etc/x", None),
        ("redhat", "missing   c /etc/x (Permission denied)", ("/etc/x", "is missing", "differs")),
        ("archlinux", "warning: sudo: /usr/bin/sudo (Permissions mismatch)", ("/usr/bin/sudo", "mode", "root")),
        ("archlinux", "warning: sudo: /usr/bin/sudo (SHA256 checksum mismatch)", ("/usr/bin/sudo", "content", "root")),
        ("archlinux", "backup file: pam: /etc/x (Size mismatch)", ("/etc/x", "content", "differs")),
        ("archlinux", "warning: x: /usr/lib/x (No such file or directory)", ("/usr/lib/x", "is missing", "differs")),
        ("archlinux", "warning: x: /usr/lib/x (Modification time mismatch)", None),
        ("debian", "dpkg: a word that nobody knows", None),
    ],
)
def test_a_line_of_each(family: str, line: str, found: tuple[str, str, str] | None) -> None:
    seen = [(one.key, one.words, one.rank) for one in packages.read(family, [line])]
    assert [(key, words[: len(found[1])] if found else words, rank) for key, words, rank in seen] == [found] * bool(
        found
    )


def test_what_is_not_compared_in_time_is_said_and_what_was_found_stays(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(command: Sequence[str], **_: object) -> subprocess.CompletedProcess[str]:
        if len(command) > 2:
            return subprocess.CompletedProcess(command, 1, "??5??????   /usr/sbin/sshd\n", "")
        raise LateError(6, "??5??????   /usr/bin/x\n??5??????   /usr/bi")

    monkeypatch.setattr(packages, "run_command", answer)
    found, aside = packages.differing(host({"var/lib/dpkg/info/openssh-server.list": ""}))
    assert [one.key for one in found] == ["/usr/sbin/sshd", "/usr/bin/x"]
    assert aside == ["packaged files: not all packages could be compared within 6 s"]


def test_a_family_that_nobody_knows(host: Host) -> None:
    assert packages.differing(host(family=None))[0] == []
    assert packages.differing(host(family=None))[1]


def test_a_host_that_cannot_compare_is_unknown(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess((), 2, "", "dpkg: error: database is locked")
    monkeypatch.setattr(packages, "run_command", lambda *_, **__: done)
    with pytest.raises(NodeError, match="database is locked"):
        packages.differing(host())


def test_whom_a_file_belongs_to(host: Host) -> None:
    paths = ["/usr/bin/su", "/usr/bin/mount", "/usr/bin/x"]
    assert packages.owned(host(), paths) == {"/usr/bin/su", "/usr/bin/mount"}
