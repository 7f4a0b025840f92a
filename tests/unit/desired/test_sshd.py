"""What provision sets of sshd, and what a site may not ask for there."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gpuadmin.config.schema import Settings
from gpuadmin.config.schema.hosts import AuditSsh
from gpuadmin.desired.people import sshd_settings

ALL = {"passwords": False, "root": "keys", "idle_minutes": 60}


@pytest.mark.parametrize(
    ("policy", "written"),
    [
        ({}, {}),
        (ALL, {}),  # it is judged alone
        ({"set": True}, {}),
        ({"set": True, "passwords": True, "root": "no"}, {"PermitRootLogin": "no"}),
        (
            {"set": True, **ALL},
            {"PasswordAuthentication": "no", "KbdInteractiveAuthentication": "no",
             "PermitRootLogin": "without-password", "ChannelTimeout": "session:shell=60m"},
        ),
    ],
)  # fmt: skip
def test_what_is_written(policy: dict[str, Any], written: dict[str, str]) -> None:
    assert sshd_settings(AuditSsh.model_validate(policy)) == written


@pytest.mark.holds("gpuadmin does not shut itself out")
@pytest.mark.parametrize(("user", "more", "refused"), [
    ("root", {"set": True}, True), ("root", {}, False), ("gpuadmin", {"set": True}, False),
])  # fmt: skip
def test_root_that_gpuadmin_logs_in_as(user: str, more: dict[str, bool], refused: bool) -> None:
    site = {"name": "x", "admin": {"user": user}, "audit": {"ssh": {"root": "no", **more}}}
    if refused:
        with pytest.raises(ValidationError, match="would shut out gpuadmin, which logs in as root"):
            Settings.model_validate(site)
    else:
        Settings.model_validate(site)
