"""What PAM itself says of an account, by rules of the test's own."""

from pathlib import Path

import pytest
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis import pam_account
from ansible_collections.gpuadmin.node.plugins.module_utils.diagnosis.subject import Subject


@pytest.mark.parametrize(
    ("rule", "refused", "aged"),
    [
        ("pam_permit.so", False, False),
        ("pam_deny.so", True, False),
        ("pam_debug.so acct=new_authtok_reqd", True, True),  # chage -M, and the password is older
        ("pam_debug.so acct=acct_expired", True, False),
        ("pam_access.so accessfile={}/access", True, False),
    ],
)
def test_a_verdict(tmp_path: Path, rule: str, refused: bool, aged: bool) -> None:
    (tmp_path / "access").write_text("-:root:ALL\n")
    (tmp_path / "sshd").write_text(f"account required {rule.format(tmp_path)}\n")
    found = pam_account.verdict("root", str(tmp_path))
    assert (found["refused"], found["aged"]) == (refused, aged)
    assert found["words"]


def test_where_pam_does_not_begin_it_has_said_nothing(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="cannot be asked"):
        pam_account.verdict("root", str(tmp_path / "missing"))


def test_accounts_of_another_root_are_not_this_hosts() -> None:
    assert pam_account.pam_account(Subject(name="root", root="/nowhere")) is None
