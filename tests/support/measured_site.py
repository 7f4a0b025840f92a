"""A site with a monitor host, for the verbs that ask what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.fake_ansible import Ansible
from tests.support.fake_ansible import ansible as bare

__all__ = ["bare"]


def inventory(ansible: Ansible) -> Path:
    assert ansible.site is not None
    return ansible.site / "inventory"


@pytest.fixture
def ansible(bare: Ansible) -> Ansible:
    """With a monitor host, without which nothing is measured."""
    (inventory(bare) / "monitor.yml").write_text("monitor:\n  hosts:\n    storage1:\n")
    return bare
