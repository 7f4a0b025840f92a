"""What sshd prints of its settings, whichever release it is of."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.errors import NodeError
from ansible_collections.gpuadmin.node.plugins.module_utils.run import Finished
from ansible_collections.gpuadmin.node.plugins.module_utils.sshd_settings import (
    ask_sshd,
    expand_pattern,
    key_patterns,
    printed,
    reads_directory,
)


def test_each_keyword_in_lower_case_with_its_value_as_it_is() -> None:
    assert list(printed("port 22\nPermitRootLogin no\nAcceptEnv LANG LC_*\nBanner\n")) == [
        ("port", "22"), ("permitrootlogin", "no"), ("acceptenv", "LANG LC_*"), ("banner", ""),
    ]  # fmt: skip


def test_the_error_is_sshds_own() -> None:
    words = "/etc/ssh/sshd_config: line 3: Bad configuration option: Foo\n/etc/ssh/sshd_config: terminating, 1 bad\n"
    with pytest.raises(NodeError, match=r"line 3: Bad configuration option: Foo$"):
        ask_sshd(run=lambda _: Finished((), 255, "", words))


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        (".ssh/authorized_keys", "/home/minji/.ssh/authorized_keys"),
        ("%h/.keys", "/home/minji/.keys"),
        ("/etc/keys/%u-%U%%", "/etc/keys/minji-20001%"),
    ],
)
def test_where_a_pattern_leads(pattern: str, path: str) -> None:
    assert expand_pattern(pattern, "minji", 20001, "/home/minji") == path


@pytest.mark.parametrize(
    ("settings", "patterns"),
    [({"authorizedkeysfile": ["a b"]}, ["a", "b"]), ({"authorizedkeysfile": ["none"]}, []), ({}, [])],
)
def test_patterns(settings: dict[str, list[str]], patterns: list[str]) -> None:
    assert key_patterns(settings) == patterns


@pytest.mark.parametrize(
    ("line", "reads"),
    [
        ("Include /etc/ssh/sshd_config.d/*.conf", True),
        ("  include /usr/x.conf sshd_config.d/*.conf", True),  # a relative one is below /etc/ssh
        ("# Include /etc/ssh/sshd_config.d/*.conf", False),
        ("Include /opt/etc/ssh/sshd_config.d/*.conf", False),
        ("Include /etc/ssh/other.d/*.conf", False),
    ],
)
def test_whether_the_directory_is_included(tmp_path: Path, line: str, reads: bool) -> None:
    path = tmp_path / "sshd_config"
    path.write_text(f"Port 22\n{line}\n")
    assert reads_directory(str(path)) is reads
