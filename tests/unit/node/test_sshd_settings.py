"""What sshd prints of its settings, whichever release it is of."""

from ansible_collections.gpuadmin.node.plugins.module_utils.sshd_settings import printed


def test_each_keyword_in_lower_case_with_its_value_as_it_is() -> None:
    assert list(printed("port 22\nPermitRootLogin no\nAcceptEnv LANG LC_*\nBanner\n")) == [
        ("port", "22"), ("permitrootlogin", "no"), ("acceptenv", "LANG LC_*"), ("banner", ""),
    ]  # fmt: skip
